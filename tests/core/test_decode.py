from __future__ import annotations

import copy
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.record import decode as decoding
from reput.record.batch import CorruptionKind
from reput.record.decode import Decoder, End
from reput.record.encoding.encoder import Encoder
from reput.record.layout import BLANK_MAGIC, MAGIC_V1
from reput.record.messageids import pack_host
from reput.record.messages.message import Message
from reput.record.messageview import MessageView

ENCODER = Encoder(pack_host("127.0.0.1", 10_911))
MAGIC = MAGIC_V1.to_bytes(4, "big")


@pytest.fixture(params=["walked", "searched"], autouse=True, scope="module")
def small_window(request):
    """Borders in small windows are found in one way, and those in larger ones in another."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "searched":
            patch.setattr(decoding, "_WALK_WITHIN", 0)
        yield


bodies = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from([MAGIC, b"\xda", b"\x00\x00\x00\x5b", b"x", b"\x01", b"\x02"])).map(
        b"".join
    ),
)
hosts = st.one_of(st.none(), st.just(("2001:db8::7", 1234)), st.just(("10.0.0.9", 99)))
messages = st.builds(
    Message,
    topic=st.sampled_from(["T", "orders", "a" * 127, "%RETRY%" + "g" * 200, "p|q-1"]),
    body=bodies,
    queue_id=st.integers(0, 2**31 - 1),
    tags=st.one_of(st.none(), st.sampled_from(["", "TagA", "标签", "t" * 70])),
    keys=st.one_of(st.none(), st.sampled_from(["k", "k1 k2 k3"])),
    properties=st.one_of(
        st.none(), st.dictionaries(st.sampled_from(["p", "price"]), st.text("ab", max_size=9))
    ),
    flag=st.integers(-(2**31), 2**31 - 1),
    sys_flag=st.sampled_from([0, 1, 4, 8, 12, 0x301]),
    born_timestamp=st.integers(0, 2**62),
    born_host=hosts,
    reconsume_times=st.integers(0, 2**31 - 1),
    prepared_transaction_offset=st.integers(0, 2**62),
)


def log_of(sent, base=0, encoder=ENCODER):
    """Bytes of a log that begins at ``base``, and the offset of each record."""
    records, offsets, offset = [], [], base
    for number, message in enumerate(sent):
        record = encoder.encode(message, number, offset, 1_700_000_000_000 + number)
        records.append(record)
        offsets.append(offset)
        offset += len(record)
    return b"".join(records), offsets


def window_of(data):
    return np.frombuffer(data, np.uint8)


@given(st.lists(messages, min_size=1, max_size=12), st.sampled_from([0, 65_536]))
@settings(max_examples=150)
def test_decoding_is_the_inverse_of_encoding_for_every_field(sent, base):
    data, offsets = log_of(sent, base)

    result = Decoder(check_crc=True).decode(window_of(data), base)

    batch = result.batch
    assert batch.finding is None
    assert batch.physical_offset.tolist() == offsets
    assert batch.end_offset == base + len(data)
    for name in (
        "queue_id",
        "flag",
        "born_timestamp",
        "reconsume_times",
        "prepared_transaction_offset",
    ):
        assert batch.column(name).tolist() == [getattr(message, name) for message in sent], name
    assert [batch.topics[code] for code in batch.topic_code] == [message.topic for message in sent]
    assert [(flag & ~0x30) for flag in batch.sys_flag.tolist()] == [m.sys_flag for m in sent]
    assert batch.queue_offset.tolist() == list(range(len(sent)))
    assert batch.store_timestamp.tolist() == [1_700_000_000_000 + n for n in range(len(sent))]
    assert batch.text("TAGS").tolist() == [message.tags or None for message in sent]
    assert batch.text("KEYS").tolist() == [message.keys for message in sent]
    for row, message in enumerate(sent):
        view = batch.message(row)
        assert view.body == message.body
        assert view.tags_code == batch.tags_code[row]
        assert message.born_host is None or view.born_host == message.born_host
        assert MessageView(batch.record(row)).properties == view.properties


@given(st.lists(messages, min_size=1, max_size=10), st.data())
@settings(max_examples=100)
def test_cutting_the_log_into_windows_anywhere_gives_the_same_columns(sent, data):
    raw, _ = log_of(sent)
    whole = Decoder().decode(window_of(raw), 0).batch
    decoder = Decoder()
    rows, position = [], 0

    while position < len(raw):
        size = data.draw(st.integers(1, len(raw)))
        result = decoder.decode(window_of(raw[position : position + size]), position)
        if len(result.batch) == 0:
            assert result.end == End.WINDOW
            result = decoder.decode(
                window_of(raw[position : position + result.needed_size]), position
            )
            if len(result.batch) == 0:
                result = decoder.decode(
                    window_of(raw[position : position + result.needed_size]), position
                )
        batch = result.batch
        assert batch.finding is None
        rows += [
            (batch.topics[batch.topic_code[row]], *(int(batch.column(name)[row]) for name in NAMES))
            for row in range(len(batch))
        ]
        position = batch.end_offset

    assert rows == [
        (whole.topics[whole.topic_code[row]], *(int(whole.column(name)[row]) for name in NAMES))
        for row in range(len(whole))
    ]


NAMES = (
    "physical_offset",
    "size",
    "queue_id",
    "queue_offset",
    "tags_code",
    "sys_flag",
    "born_timestamp",
)


def test_bodies_that_hold_whole_records_are_bodies():
    inner, _ = log_of([Message("inner", b"x", 0)] * 3)
    data, offsets = log_of([Message("outer", inner, 1), Message("outer", inner * 9, 1)])

    batch = Decoder().decode(window_of(data), 0).batch

    assert batch.physical_offset.tolist() == offsets
    assert set(batch.topics) == {"outer"}


@pytest.mark.parametrize("large", [0, 2000])
def test_small_and_large_records_decode_alike_whichever_way_borders_are_found(large):
    sent = [Message("T", b"x" * large, 0) for _ in range(40)]
    data, offsets = log_of(sent)
    decoder = Decoder()

    first = decoder.decode(window_of(data), 0).batch
    second = decoder.decode(window_of(data), 0).batch  # now it knows how large records are

    assert first.physical_offset.tolist() == second.physical_offset.tolist() == offsets


def test_a_blank_leads_to_the_next_file():
    data, _ = log_of([Message("T", b"x")])
    blank = struct.pack(">II", 4096 - len(data), BLANK_MAGIC)

    result = Decoder().decode(window_of((data + blank).ljust(4096, b"\7")), 0, file_end=4096)

    assert (result.end, result.batch.end_offset, len(result.batch)) == (End.BLANK, 4096, 1)


def test_a_blank_that_does_not_reach_the_files_end_is_damage():
    data, _ = log_of([Message("T", b"x")])
    blank = struct.pack(">II", 100, BLANK_MAGIC)

    result = Decoder().decode(window_of((data + blank).ljust(4096, b"\0")), 0, file_end=4096)

    assert result.end == End.BAD
    assert result.batch.finding.reason is CorruptionKind.BAD_SIZE


def test_unwritten_space_ends_a_log_without_a_finding():
    data, _ = log_of([Message("T", b"x")])

    result = Decoder().decode(window_of(data.ljust(500, b"\0")), 0, file_end=500)

    assert (result.end, result.batch.end_offset) == (End.EMPTY, len(data))
    assert result.batch.finding is None


def _with(data, position, layout, value):
    changed = bytearray(data)
    struct.pack_into(layout, changed, position, value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("position", "layout", "value", "reason"),
    [
        (4, ">I", 0x12345678, CorruptionKind.BAD_MAGIC),
        (0, ">i", -1, CorruptionKind.BAD_SIZE),
        (0, ">i", 90, CorruptionKind.BAD_SIZE),
        (0, ">i", 2**31 - 1, CorruptionKind.BAD_SIZE),
        (28, ">q", 77, CorruptionKind.PHYSICAL_OFFSET),
        (36, ">i", 0x30, CorruptionKind.LENGTH_MISMATCH),
        (84, ">i", 2**31 - 1, CorruptionKind.LENGTH_MISMATCH),
        (84, ">i", 0, CorruptionKind.LENGTH_MISMATCH),
        (88 + 5, ">b", -1, CorruptionKind.LENGTH_MISMATCH),
        (88 + 5, ">b", 100, CorruptionKind.LENGTH_MISMATCH),
        (88 + 5 + 2, ">h", 32_767, CorruptionKind.LENGTH_MISMATCH),
        (88 + 5 + 2, ">h", 0, CorruptionKind.LENGTH_MISMATCH),
        (90, ">B", 0, CorruptionKind.BODY_CRC),
        (8, ">i", 1, CorruptionKind.BODY_CRC),
    ],
)
def test_damage_in_the_second_record_leaves_the_first_and_is_named(position, layout, value, reason):
    data, offsets = log_of([Message("T", b"first", tags="x"), Message("T", b"other", tags="x")])
    data = _with(data, offsets[1] + position, layout, value)

    result = Decoder(check_crc=True).decode(window_of(data.ljust(1000, b"\0")), 0, file_end=1000)

    assert result.end == End.BAD
    assert len(result.batch) == 1
    assert result.batch.finding.reason is reason
    assert result.batch.finding.physical_offset == result.batch.end_offset == offsets[1]


def test_the_whole_record_checksum_finds_damaged_properties():
    encoder = Encoder(pack_host("127.0.0.1", 10_911), record_crc=True)
    data, offsets = log_of(
        [Message("T", b"first"), Message("T", b"b", tags="TagA")], encoder=encoder
    )
    damaged = data.replace(b"TagA", b"TagB")

    sound = Decoder(check_record_crc=True).decode(window_of(data), 0).batch
    found = Decoder(check_record_crc=True).decode(window_of(damaged), 0).batch

    assert (len(sound), sound.finding) == (2, None)
    assert found.finding.reason is CorruptionKind.RECORD_CRC
    assert found.finding.physical_offset == offsets[1]


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_decode_without_an_exception(data, as_record):
    raw = (len(data) + 8).to_bytes(4, "big") + MAGIC + data if as_record else data

    result = Decoder(check_crc=True, check_record_crc=True).decode(window_of(raw), 0, len(raw))

    assert len(result.batch) <= 5


@given(st.lists(messages, min_size=2, max_size=3), st.data())
@settings(max_examples=200)
def test_changing_any_bytes_never_raises_and_keeps_the_records_before(sent, data):
    raw, offsets = log_of(sent)
    place = data.draw(st.integers(offsets[-1], len(raw) - 1))
    size = data.draw(st.sampled_from([1, 2, 4, 8]))
    patch = data.draw(st.binary(min_size=size, max_size=size))
    changed = (raw[:place] + patch + raw[place + size :])[: len(raw)]

    batch = Decoder(check_crc=True).decode(window_of(changed), 0, len(raw)).batch

    assert batch.physical_offset.tolist()[: len(sent) - 1] == offsets[:-1]
    for row in range(len(batch)):
        batch.message(row).properties  # noqa: B018
    batch.tags_code  # noqa: B018


def test_slices_share_memory_and_know_where_they_end():
    data, offsets = log_of([Message("T", bytes([n]), tags=f"t{n}") for n in range(6)])
    batch = Decoder().decode(window_of(data), 0).batch

    middle, tail = batch[2:4], batch.after(offsets[4])

    assert middle.physical_offset.tolist() == offsets[2:4]
    assert (middle.start_offset, middle.end_offset) == (offsets[2], offsets[4])
    assert middle.tags_code.tolist() == batch.tags_code[2:4].tolist()
    assert (tail.physical_offset.tolist(), tail.end_offset) == (offsets[4:], len(data))
    assert len(batch.after(len(data))) == 0
    assert batch.after(0) is batch


@pytest.mark.parametrize("again", [copy.copy, lambda batch: pickle.loads(pickle.dumps(batch))])
def test_a_batch_can_be_copied_and_pickled(again):
    data, offsets = log_of([Message("T", b"a", tags="t"), Message("T", b"b")])
    batch = again(Decoder().decode(window_of(data), 0).batch)

    assert (batch.physical_offset.tolist(), batch.end_offset) == (offsets, len(data))
    assert [batch.message(row).body for row in range(2)] == [b"a", b"b"]
    assert batch.tags_code.tolist() == [ord("t"), 0]


def test_columns_can_be_added_but_a_records_own_place_not():
    data, _ = log_of([Message("T"), Message("T")])
    batch = Decoder().decode(window_of(data), 0).batch

    changed = batch.with_columns({"tags_code": np.array([5, 6]), "mine": np.array([1.5, 2.5])})

    assert changed.tags_code.tolist() == [5, 6]
    assert changed[1:].column("mine").tolist() == [2.5]
    assert batch.tags_code.tolist() == [0, 0]
    with pytest.raises(ValueError, match="own"):
        batch.with_columns({"size": np.array([1, 1])})
    with pytest.raises(ValueError, match="2 rows"):
        batch.with_columns({"mine": np.array([1])})
    with pytest.raises(KeyError, match="known: "):
        batch.column("nothing")
