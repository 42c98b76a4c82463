"""Puts of any messages give the same records, the same receipts and the same errors."""

from __future__ import annotations

import contextlib

import attrs
import numpy as np
import pytest
from bothengines import python_engine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openstores import next_queue_offset
from putanswers import lived, outcome, records_of

import reput
from reput.errors import ServiceNotAvailableError
from reput.plugin.putinterest import concerns_any
from reput_testing import SimulatedDisk


class Text(str):
    """Text of a class that lies about itself."""

    __slots__ = ()

    def __str__(self):
        return "something else"

    def encode(self, *_):
        return b"something else"


class Mine(reput.Message):
    """A message of a caller's own class."""


plain_words = st.text("abcXYZ09", min_size=1, max_size=8)
strange_words = st.sampled_from(
    ["", " ", "a b", "\x01", "x\x02", "\0", "标签", "\ud800", Text("own"), np.str_("np"), "x" * 600]
)
words = st.one_of(plain_words, plain_words, plain_words, strange_words)
no_texts = st.sampled_from([3, b"bytes", 1.5, object()])
topics = st.one_of(
    st.sampled_from(["orders", "payments", "a|b%c-d_e"]),
    st.sampled_from(["orders", "T" * 127]),
    st.sampled_from(
        ["T" * 128, "%RETRY%" + "g" * 200, "%RETRY%" + "g" * 250, "", "a/b", "主题", Text("orders")]
    )
    | no_texts,
)
bodies = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"", b"x" * 5_000, bytearray(b"array"), memoryview(b"view"), "text", None, b"y" * 30_000]
    ),
)
names = st.one_of(
    plain_words,
    st.sampled_from(["KEYS", "TAGS", "WAIT", "INNER_NUM", "INNER_MULTI_DISPATCH", "INNER_X"]),
    st.sampled_from(["__CRC32#", "", "a\x01b", "n\x02", Text("own"), "DELAY"]),
)
values = st.one_of(words, st.none(), st.sampled_from(["1234567890", "a\x01b"]))
properties = st.one_of(
    st.none(),
    st.dictionaries(names, values, max_size=4),
    st.dictionaries(plain_words, plain_words, max_size=4),
    st.sampled_from(
        [
            b"",
            b"a\x01b\x02",
            b"KEYS\x01k\x02",
            b"a\x01b",
            b"INNER_NUM\x012\x02",
            b"x\x01" + bytes(600) + b"\x02",
            b"a\x01b\x02__CRC32#\x011234567890\x02",
            b"z" * 32_767,
            b"z" * 32_768,
            b"ends in zero\0",
            bytearray(b"a\x01b\x02"),
            [("a", "b")],
        ]
    ),
)
strange_numbers = st.sampled_from(
    [True, np.int32(3), 1 << 31, -(1 << 31) - 1, 1 << 63, -(1 << 63), 1 << 70, 1.5, "1", None]
)
small = st.integers(0, 5)
numbers = st.one_of(small, small, st.integers(-(1 << 31), (1 << 31) - 1), strange_numbers)
queue_ids = st.one_of(small, small, small, st.sampled_from([1_023, 1_024, 1 << 20, -1, True]))
sys_flags = st.one_of(
    st.just(0), st.sampled_from([1, 4, 8, 12, 0x10, 0x20, 0x30, 0x80, 0x100]), strange_numbers
)
hosts = st.one_of(
    st.none(),
    st.none(),
    st.sampled_from(
        [
            ("10.0.0.1", 80),
            ("255.255.255.255", 65_535),
            ("10.0.0.01", 80),
            ("10.0.0.1", 65_536),
            ("10.0.0.1", -1),
            ("::1", 5),
            ("no address", 5),
            ["10.0.0.2", 7],
            ("10.0.0.1",),
            (Text("10.0.0.3"), True),
        ]
    ),
)
keys = st.one_of(
    st.none(),
    words,
    st.lists(words, max_size=3),
    st.lists(plain_words, max_size=3).map(tuple),
    st.sets(plain_words, max_size=1),
    no_texts,
)
tags = st.one_of(st.none(), words, no_texts)


@st.composite
def messages(draw):
    """A usual message with at most a few unusual fields."""
    fields = {
        "topic": draw(st.sampled_from(["orders", "payments"])),
        "body": draw(st.binary(max_size=200)),
        "queue_id": draw(small),
        "tags": draw(st.none() | plain_words),
        "keys": draw(st.none() | plain_words),
        "properties": draw(st.none() | st.dictionaries(plain_words, plain_words, max_size=3)),
    }
    unusual = {
        "topic": topics,
        "body": bodies,
        "queue_id": queue_ids,
        "tags": tags,
        "keys": keys,
        "properties": properties,
        "flag": numbers,
        "sys_flag": sys_flags,
        "born_timestamp": st.none() | numbers | st.integers(0, 1 << 50),
        "born_host": hosts,
        "reconsume_times": numbers,
        "prepared_transaction_offset": numbers | st.integers(-(1 << 63), (1 << 63) - 1),
    }
    for name in draw(st.lists(st.sampled_from(sorted(unusual)), max_size=3)):
        fields[name] = draw(unusual[name])
    return draw(st.sampled_from([reput.Message] * 9 + [Mine]))(**fields)


def _pair(texts, dtype):
    ends = np.cumsum([0, *map(len, texts)], dtype=dtype)
    return ends, b"".join(texts)


@st.composite
def columns(draw):
    """Columns of one length, mostly; each a single value, a list, an array or a pair."""
    count = draw(st.integers(0, 8))

    def rows(values):
        return st.lists(values, min_size=count, max_size=count)

    def pair(values):
        dtype = draw(st.sampled_from([np.int32, np.int64, np.uint32]))
        texts = [value.encode("utf-8", "surrogatepass") for value in draw(rows(values))]
        return st.just(_pair(texts, dtype))

    def array(values):
        dtype = draw(st.sampled_from([np.int64, np.int32, np.uint8, np.uint64, np.float64]))
        return rows(values).map(lambda found: np.array(found, dtype))

    def integers():
        return st.one_of(st.just(0), small, rows(small), array(small), rows(numbers))

    fields = {"topic": "orders", "body": draw(rows(st.binary(max_size=50)))}
    unusual = {
        "topic": st.one_of(rows(topics), rows(st.sampled_from(["orders", "payments"])), topics),
        "body": st.one_of(
            rows(bodies),
            rows(st.binary(max_size=50)).map(lambda found: _pair(found, np.int32)),
            rows(st.binary(max_size=50)).map(lambda found: _pair(found, np.int64)),
            rows(st.binary(max_size=50)).map(
                lambda found: (_pair(found, np.int64)[0], memoryview(_pair(found, np.int64)[1]))
            ),
            st.just((np.array([0, 9, 4][: count + 1], np.int32), b"short")),
        ),
        "tags": st.one_of(plain_words, rows(tags), rows(st.none() | plain_words), pair(words)),
        "keys": st.one_of(plain_words, rows(keys), rows(st.none() | plain_words), pair(words)),
        "properties": st.one_of(
            st.dictionaries(names, st.one_of(values, rows(values)), max_size=3),
            st.dictionaries(plain_words, st.one_of(plain_words, rows(plain_words)), max_size=3),
            rows(properties),
            rows(st.just({"a": "b"})),
            st.sampled_from([b"", b"a\x01b\x02", b"KEYS\x01k\x02"]),
            pair(st.sampled_from(["", "a\x01b\x02", "INNER_NUM\x012\x02"])),
        ),
        "queue_id": st.one_of(queue_ids, rows(queue_ids), array(small)),
        "flag": integers(),
        "sys_flag": st.one_of(sys_flags, rows(sys_flags)),
        "born_timestamp": st.one_of(st.none(), integers(), rows(st.none() | small)),
        "reconsume_times": integers(),
        "prepared_transaction_offset": integers(),
    }
    for name in draw(st.lists(st.sampled_from(sorted(unusual)), max_size=4)):
        fields[name] = draw(unusual[name])
    if draw(st.integers(0, 20)) == 0 and count:
        fields["keys"] = ["one too few"] * (count - 1)
    return reput.Columns(**fields)


steps = st.one_of(
    messages(), messages(), messages(), st.lists(messages(), max_size=6), columns(), columns()
)


@given(
    tasks=st.lists(steps, min_size=1, max_size=12),
    options=st.sampled_from(
        [
            {},
            {},
            {},
            {"record_crc": True},
            {"max_light_queues": 20_000},
            {"store_address": "[::1]:10911"},
        ]
    ),
)
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_puts_store_and_answer_the_same(tmp_path_factory, tasks, options):
    root = tmp_path_factory.mktemp("puts")
    with python_engine():
        expected = lived(root / "python", tasks, options)

    found = lived(root / "native", tasks, options)

    for ours, reference in zip(found, expected, strict=True):
        assert ours == reference


@given(
    st.lists(messages(), max_size=4),
    st.frozensets(st.sampled_from(["orders", "payments"])),
    st.frozensets(names.filter(lambda name: type(name) is str and name not in {"KEYS", "TAGS"})),
)
@settings(max_examples=200, deadline=None)
def test_what_plugins_must_see_is_the_same(tasks, topics, properties):
    for found in (tasks, tuple(tasks)):
        assert concerns_any(found, topics, properties) == concerns_any.__wrapped__(
            found, topics, properties
        )


def test_the_usual_message_is_put_at_once(tmp_path):
    with reput.open(tmp_path / "store", plugins=[]) as store:
        store.put(reput.Message("T", b"makes the file"))
        first = store.put(reput.Message("T", b"makes its pages present"))
        usual = reput.Message("T", b"body", 3, tags="a", keys=["k", "l"], properties={"a": "b"})

        receipt = store.log.put_at_once(frozenset(), frozenset())(usual)

        assert isinstance(receipt, reput.Receipt)
        assert receipt.physical_offset == first.end_offset
        assert store.log.read_message(receipt.physical_offset).keys == ("k", "l")
        for message, watched in (
            (usual, (frozenset({"T"}), frozenset())),
            (usual, (frozenset(), frozenset({"a"}))),
            (attrs.evolve(usual, properties=b"a\x01b\x02"), (frozenset(), frozenset({"a"}))),
            (Mine("T"), (frozenset(), frozenset())),
            ("no message", (frozenset(), frozenset())),
        ):
            assert store.log.put_at_once(*watched)(message) is NotImplemented
        assert store.log.max_physical_offset == receipt.end_offset
    with python_engine(), reput.open(tmp_path / "store", plugins=[]) as store:
        assert store.log.put_at_once(frozenset(), frozenset()) is None


def test_a_message_without_a_field_is_no_message(tmp_path):
    message = reput.Message("T", b"body")
    del message.keys
    with reput.open(tmp_path / "store", plugins=[]) as store:
        store.put(reput.Message("T", b"makes the file"))

        with pytest.raises(AttributeError):
            store.put(message)
        with pytest.raises(AttributeError):
            store.put_many([message])


def test_each_engine_stores_the_same_bytes_on_a_disk_that_watches(tmp_path):
    """The stores through the map are the same, one by one, whichever engine makes them."""
    puts = [reput.Message("T", b"%d" % number, number % 3) for number in range(40)]
    logs = []
    for engine in (python_engine, contextlib.nullcontext):
        root = tmp_path / engine.__name__
        disk = SimulatedDisk(str(root))
        with engine():
            config = {"commitlog": {"file_size": 1 << 12}}
            with reput.open(root, plugins=[], config=config, disk=disk, threads=False) as store:
                for message in puts[:20]:
                    store.put(message)
                store.put_many(puts)
        logs.append([data for _, data in records_of(root)])

    assert logs[0] == logs[1]


def test_many_bytes_go_through_the_file_and_few_through_the_map(tmp_path):
    """Sizes on both sides of each border: 16 KiB of one write, a megabyte of one chunk."""
    sizes = [16 << 10, (16 << 10) - 200, 1, 300_000, 700_000, 400_000, 3_000_000, 64 << 10, 70_000]
    roots = [tmp_path / "python", tmp_path / "native"]
    for root, engine in zip(roots, (python_engine, contextlib.nullcontext), strict=True):
        with engine(), reput.open(root, plugins=[]) as store:
            for size in sizes:
                store.put(reput.Message("T", bytes([size % 251]) * size))
                store.put_many([reput.Message("T", bytes([size % 251]) * size)] * 3)
            store.put_many([reput.Message("T", b"s" * 900)] * 3_000)

    assert records_of(roots[0]) == records_of(roots[1])


def test_nothing_is_put_after_a_refusal_or_a_close(tmp_path):
    store = reput.open(tmp_path / "store", plugins=[])
    store.put(reput.Message("T", b"first"))
    put, log = store.put, store.log
    end = log.max_physical_offset
    store.close()

    for call in (
        lambda: put(reput.Message("T")),
        lambda: store.put_many([reput.Message("T")]),
        lambda: store.put_many(reput.Columns(topic="T", body=[b"x"])),
    ):
        with pytest.raises(ServiceNotAvailableError):
            call()
    assert log.max_physical_offset == end


def test_a_queue_that_is_full_takes_no_more(tmp_path):
    """A damaged record may state the last queue offset that there is."""
    usual, full = reput.Message("T", b"x"), reput.Message("T", b"x", 5)
    answers = []
    for engine in (python_engine, contextlib.nullcontext):
        with engine(), reput.open(tmp_path / engine.__name__, plugins=[]) as store:
            for _ in range(3):
                store.put(usual)
            for following in ((1 << 63) - 1, 1 << 63):
                next_queue_offset(store, "T", 5, following)
                answers += [outcome(lambda store=store: store.put(full)), store.log.queue_offsets]
            answers += [outcome(lambda store=store: store.put_many([full]))]
            answers += [outcome(lambda store=store: store.put(usual))]

    half = len(answers) // 2
    assert answers[:half] == answers[half:]
