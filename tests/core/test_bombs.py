"""Lengths that lie, with every checksum right: refused or harmless, in bounded memory and time.

Records here are made by hand, so that nothing but the lie is wrong. Stores of them are opened in a
process that has little address space to spare: what believed a length would end there.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import plaindecoder
import pytest
from decodertargets import compare, open_quickly, shown

from reput.errors import MessageIllegalError
from reput.files.filenames import file_name
from reput.record.batch import CorruptionKind
from reput.record.decode import Decoder
from reput.record.encoding.encoder import Encoder
from reput.record.encoding.lightqueues import inner_message_count
from reput.record.layout import BLANK_MAGIC, INNER_BATCH, MAGIC_V1, MAGIC_V2
from reput.record.messages.message import Message
from reput.record.text.topicdictionary import TopicDictionary

pytestmark = pytest.mark.shows("arbitrary-bytes")

LENGTHS = [-(2**31), -1, 0, 1, 2, 90, 91, 127, 128, 255, 2**15 - 1, 2**15, 2**16, 2**31 - 1]
FILE_SIZE = 65_536


def record(
    offset=0,
    *,
    body=b"body",
    topic=b"T",
    text=b"TAGS\x01a\x02",
    magic=MAGIC_V1,
    sys_flag=0,
    size=None,
    body_size=None,
    topic_size=None,
    properties_size=None,
    queue_offset=0,
):
    """A record whose lengths may be other ones than they are; the body's checksum is right."""
    born = bytes(20 if sys_flag & 0x10 else 8)
    stored = bytes(20 if sys_flag & 0x20 else 8)
    width = 1 if magic == MAGIC_V1 else 2
    rest = body
    rest += _number(len(topic) if topic_size is None else topic_size, width) + topic
    rest += _number(len(text) if properties_size is None else properties_size, 2) + text
    real_size = 88 - 16 + len(born) + len(stored) + len(rest)
    crc = zlib.crc32(body) & 0x7FFFFFFF
    return (
        _number(real_size if size is None else size, 4)
        + struct.pack(">Iiiiqqiq", magic, crc, 0, 0, queue_offset, offset, sys_flag, 1)
        + born
        + struct.pack(">q", 1_700_000_000_000)
        + stored
        + struct.pack(">iq", 0, 0)
        + _number(len(body) if body_size is None else body_size, 4)
        + rest
    )


def _number(value, width):
    return (value % (1 << 8 * width)).to_bytes(width, "big")


def lies():
    """Records of which one length is not what it should be, by a name."""
    for magic in (MAGIC_V1, MAGIC_V2):
        for field in ("size", "body_size", "topic_size", "properties_size"):
            for length in LENGTHS:
                yield f"{magic:X} {field} {length}", record(magic=magic, **{field: length})
        # Sums that come out right when they are cut to 32 bits.
        yield f"{magic:X} sum", record(magic=magic, body_size=2**31 - 1, topic_size=-1)
        yield f"{magic:X} wide topic", record(magic=magic, topic=b"t" * 127, topic_size=2**15 - 1)
    for sys_flag in (0x10, 0x20, 0x30):
        short = bytearray(record(body=b"", topic=b"", text=b""))
        struct.pack_into(">i", short, 36, sys_flag)
        yield f"short IPv6 {sys_flag:X}", bytes(short)
        yield f"IPv6 {sys_flag:X} body", record(sys_flag=sys_flag, body_size=2**31 - 1)


LIES = dict(lies())


@pytest.mark.parametrize("name", LIES)
def test_a_length_that_lies_is_what_the_plain_decoder_says_of_it(name):
    behind = record(len(LIES[name]), body=b"behind")
    for tail in (b"", behind, bytes(500)):
        data = LIES[name] + tail

        for file_end in (None, len(data)):
            result = Decoder(check_crc=True).decode(np.frombuffer(data, np.uint8), 0, file_end)

            compare(result, plaindecoder.decode(data, 0, check_crc=True), len(data))


def _store(root, data):
    os.makedirs(root / "commitlog")
    (root / "commitlog" / file_name(0)).write_bytes(data.ljust(FILE_SIZE, b"\0"))
    (root / "abort").write_bytes(b"1")
    return root


@pytest.mark.proof
@pytest.mark.costly
def test_a_store_of_lies_shows_the_messages_before_and_behind_them(tmp_path):
    for number, (name, lie) in enumerate(LIES.items()):
        first = record(body=b"first")
        own = bytearray(lie)
        struct.pack_into(">q", own, 28, len(first))
        behind = record(len(first) + len(own), body=b"behind")
        data = first + bytes(own) + behind
        is_true = plaindecoder.decode_one(bytes(own), len(first)) is not None
        root = _store(tmp_path / str(number), data)

        for mode in ("r", "w", "r"):
            with open_quickly(root, mode) as store:
                found = dict(shown(store))

            assert found.get(0) == first, (name, mode)
            if not name.endswith(" size 0"):  # the size is written last: that put was interrupted
                assert found.get(len(first) + len(own)) == behind, (name, mode)
            assert (len(first) in found) == is_true, (name, mode)


HUGE = {
    "one record that claims 2 GiB": record(size=2**31 - 1),
    "one record that claims 64 MiB": record(size=64 << 20),
    "a blank that claims 2 GiB": struct.pack(">II", 2**31 - 1, BLANK_MAGIC),
    "a body that claims 2 GiB": record(body_size=2**31 - 1),
    "nothing but magic": (b"\0\0\0\x5b" + MAGIC_V1.to_bytes(4, "big")) * 8190,
    "magic and sizes that lead ahead": b"".join(
        struct.pack(">II", FILE_SIZE - 8 * n, MAGIC_V1) for n in range(8000)
    ),
    "thousands of properties": record(text=b"KEYS\x01k\x02" * 4000),
    "names without end": record(text=b"\x01" * 32_000),
    "separators only": record(text=b"\x02" * 32_000),
    "one long name": record(text=b"T" * 32_000),
    "one long value": record(text=b"TAGS\x01" + "标".encode() * 10_000),
    "a topic of 32 KiB": record(magic=MAGIC_V2, topic=b"t" * 32_000, text=b""),
}

_OPEN = """
import resource, sys
import reput
from reput_testing.disks.failingdisk import QuickDisk
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
for path in sys.argv[1:]:
    for mode in ("r", "w", "r"):
        try:
            options = {"commitlog": {}} if mode == "w" else None
            with reput.open(
                path, mode, plugins=[], config=options, threads=False, disk=QuickDisk()
            ) as store:
                for batch in store.scan(check_crc=True):
                    batch.tags_code, batch.text("KEYS").tolist()
                    [batch.message(row).properties for row in range(len(batch))]
        except reput.ReputError as error:
            print("refused", error)
print("done")
"""


@pytest.mark.costly
def test_whatever_a_log_claims_it_opens_with_a_hundred_megabytes_to_spare(tmp_path):
    stores = [
        str(_store(tmp_path / str(number), data)) for number, data in enumerate(HUGE.values())
    ]

    ended = subprocess.run(
        [sys.executable, "-c", _OPEN, *stores],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.endswith("done\n")
    assert "refused" not in ended.stdout


def test_many_names_one_of_them_long_take_no_room_for_the_longest_each():
    import tracemalloc

    names = [b"%d" % number for number in range(4_000)] + [b"x" * 32_000]
    window = np.frombuffer(b"".join(names), np.uint8)
    sizes = np.array([len(name) for name in names], np.int64)
    table = TopicDictionary()

    tracemalloc.start()
    codes = table.encode(window, np.cumsum(sizes) - sizes, sizes)
    again = table.encode(window, np.cumsum(sizes) - sizes, sizes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [table.names[code] for code in codes] == [name.decode() for name in names]
    assert codes.tolist() == again.tolist()
    assert peak < 32 << 20


def test_a_body_that_ends_like_a_checksum_of_the_record_is_a_body():
    body = b"__CRC32#\x01" + b"1234567"
    data = record(body=body, text=b"")

    batch = Decoder(check_record_crc=True).decode(np.frombuffer(data, np.uint8), 0).batch

    assert (len(batch), batch.finding) == (1, None)


@pytest.mark.parametrize("many", [False, True])
def test_a_value_that_ends_like_the_checksum_of_a_record_is_refused(tmp_path, many):
    message = Message("T", b"x", properties={"a": "__CRC32#\x010123456789"})

    with open_quickly(tmp_path, "w") as store:
        with pytest.raises(MessageIllegalError, match="checksum"):
            store.put_many([message, message]) if many else store.put(message)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    "properties",
    [{"a": "1", "__CRC32#": "0123456789"}, b"a\x011\x02__CRC32#\x010123456789\x02"],
)
def test_a_message_that_brings_another_records_checksum_is_stored_without_it(
    tmp_path, many, properties
):
    message = Message("T", b"copied", properties=properties)
    with open_quickly(tmp_path, "w", log={"file_size": FILE_SIZE}) as store:
        if many:
            store.put_many([message, message])
        else:
            store.put(message)
        count = len(shown(store))
    os.remove(tmp_path / "reput" / "state")
    (tmp_path / "abort").write_bytes(b"1")

    with open_quickly(tmp_path, "w", log={"file_size": FILE_SIZE}) as store:
        assert store.recovery.message_count == count
        assert len(shown(store)) == count
        assert store.get(0).properties == {"a": "1"}


def test_a_record_whose_checksum_property_lies_is_damaged():
    data = record(text=b"__CRC32#\x010000000000\x02")

    batch = Decoder(check_record_crc=True).decode(np.frombuffer(data, np.uint8), 0).batch

    assert batch.finding.reason is CorruptionKind.RECORD_CRC


@pytest.mark.parametrize("count", ["²", "٣", "-1", "", " 1", "1" * 5_000, "2147483648", "1e3"])
def test_an_inner_batch_of_an_absurd_number_of_messages_is_refused(count):
    encoder = Encoder()
    properties = f"INNER_NUM\x01{count}\x02".encode()
    prepared = encoder.prepare(Message("T", sys_flag=INNER_BATCH, properties=properties))

    with pytest.raises(MessageIllegalError, match="INNER_NUM"):
        inner_message_count(prepared)
