"""Whatever a window holds, both engines make the same columns of it, and say the same of damage."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from bothengines import everything, python_decoder, python_engine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.record import Decoder, Encoder, Message
from reput.record.layout import BLANK_MAGIC, MAGIC_V1
from reput_testing.logs import fuzzing, strategies

ENCODERS = (Encoder(), Encoder(record_crc=True), Encoder(store_host=bytes(range(20))))
MANY = settings(
    max_examples=120, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
CHECKS = [
    dict(zip(("check_crc", "check_offset", "check_record_crc"), flags, strict=True))
    for flags in itertools.product((False, True), repeat=3)
]
messages = st.one_of(
    strategies.messages(),
    st.builds(
        Message,
        strategies.topics(200).map(lambda name: f"%RETRY%{name}"[:255]),
        strategies.bodies(),
        properties=strategies.property_texts(),
    ),
)


def log_of(sent, base, encoders=ENCODERS):
    records, offset = [], base
    for number, message in enumerate(sent):
        encoder = encoders[number % len(encoders)]
        try:
            record = encoder.encode(message, number, offset, 1_700_000_000_000 + number)
        except ValueError:  # a text that looks like a checksum
            continue
        records.append(record)
        offset += len(record)
    return b"".join(records)


def assert_alike(data, base=0, file_end=None, **checks):
    with python_engine():
        expected = everything(python_decoder(**checks), data, base, file_end)

    found = everything(Decoder(**checks), data, base, file_end)

    assert found == expected


@MANY
@given(st.lists(messages, max_size=12), st.sampled_from([0, 4096, 1 << 40]), st.data())
@pytest.mark.costly
def test_messages_of_every_kind_in_windows_cut_anywhere(sent, base, data):
    log = log_of(sent, base)
    size = data.draw(st.integers(0, len(log)) | st.just(len(log)))
    file_end = data.draw(st.sampled_from([None, base + len(log), base + size, base + size + 5]))

    assert_alike(log[:size], base, file_end, **data.draw(st.sampled_from(CHECKS)))


@MANY
@given(st.lists(messages, min_size=1, max_size=8), st.data())
@pytest.mark.costly
def test_damage_anywhere(sent, data):
    log = log_of(sent, 0)
    for mutation in data.draw(st.lists(fuzzing.mutations(len(log), [log]), min_size=1, max_size=4)):
        log = mutation.apply(log)

    assert_alike(log, **data.draw(st.sampled_from(CHECKS)))


@MANY
@given(
    st.lists(st.binary(max_size=90) | st.text(max_size=20).map(str.encode), max_size=9), st.data()
)
@pytest.mark.costly
def test_topics_and_tags_that_are_no_text(names, data):
    log, base = b"", 0
    for number, name in enumerate(names):
        topic = data.draw(st.sampled_from([name, b"\xed\xa0\x80", b"\xed\xa0", b"\xf0\x9f", b""]))
        text = b"TAGS\x01" + name + b"\x02KEYS\x01" + topic + b" " + name + b"\x02"
        log += record(topic[:127], text, len(log), number)

    assert_alike(log, base)


def record(topic, text, offset, number, body=b"b"):
    """A version 1 record with any bytes as topic and properties."""
    import struct

    tail = struct.pack(">i", len(body)) + body + bytes([len(topic)]) + topic
    tail += struct.pack(">h", len(text)) + text
    head = struct.pack(
        ">iIiiiqqiq", 84 + len(tail), MAGIC_V1, 0, number % 3, 0, number, offset, 0, 0
    )
    return head + bytes(8) + struct.pack(">q", number) + bytes(8) + bytes(12) + tail


@given(
    st.binary(max_size=2000) | st.lists(st.sampled_from(list(range(4))), max_size=900).map(bytes)
)
@settings(max_examples=200, deadline=None)
@pytest.mark.costly
def test_bytes_that_are_no_log(data):
    assert_alike(data)


@pytest.mark.parametrize("left", [0, 1, 7, 8, 9, 90, 91, 300])
@pytest.mark.parametrize("further", [0, 5])
def test_a_blank_and_what_is_none(left, further):
    log = log_of([Message("T", b"x")], 0)
    blank = (left.to_bytes(4, "big") + BLANK_MAGIC.to_bytes(4, "big")).ljust(left, b"\0")[:left]

    assert_alike(log + blank, 0, len(log) + left + further)


@pytest.mark.costly
def test_many_messages_of_many_topics_in_many_windows():
    chance = random.Random(7)
    names = [f"topic-{number}" for number in range(3_000)] + ["x" * 120, "y" * 7]
    sent = [
        Message(
            chance.choice(names),
            chance.randbytes(chance.randrange(60)),
            chance.choice([0, 1, 7, 2**31 - 1]),
            tags=chance.choice([None, "TagA", "标签", "t" * 70]),
            keys=chance.choice([None, "k", "a b  c ", "w" * 300]),
            properties={"UNIQ_KEY": f"{number:032X}"} if number % 3 else None,
            sys_flag=chance.choice([0, 0, 0, 4, 8, 12]),
        )
        for number in range(12_000)
    ]
    log = log_of(sent, 0, ENCODERS[:1])
    ours, theirs, at = Decoder(), None, 0
    with python_engine():
        theirs = python_decoder()

    while at < len(log):
        window = log[at : at + chance.choice([100_000, 1 << 20])]
        found = everything(ours, window, at)
        with python_engine():
            expected = everything(theirs, window, at)
        assert found == expected
        at = found["end"][2]


def test_a_table_that_holds_too_many_names_begins_again_in_both():
    from reput.record.text.topicdictionary import TopicDictionary, topic_table

    texts = [b"%d" % number for number in range(70_000)]
    window = np.frombuffer(b"".join(texts), np.uint8)
    sizes = np.array([len(text) for text in texts], np.int64)
    starts = np.cumsum(sizes) - sizes
    ours, theirs = topic_table(), TopicDictionary()

    for rows in (slice(0, 66_000), slice(65_000, 70_000), slice(0, 10)):
        found = ours.encode(window, starts[rows], sizes[rows])
        expected = theirs.encode(window, starts[rows], sizes[rows])
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist()
        assert ours.names == theirs.names
    assert type(ours) is not type(theirs)
