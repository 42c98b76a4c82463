"""Puts of any messages give the same records, the same receipts and the same errors."""

from __future__ import annotations

import contextlib

import attrs
import numpy as np
import pytest
from bothengines import python_engine
from hypothesis import given, settings
from hypothesis import strategies as st
from openstores import next_queue_offset
from putanswers import outcome, records_of

import reput
from reput.errors import ServiceNotAvailableError
from reput.files.preallocation import Prefaulter
from reput.plugin.putinterest import concerns_any, concerns_columns
from reput_testing import SimulatedDisk


class Mine(reput.Message):
    """A message of a caller's own class."""


NAMES = st.sampled_from(["WAIT", "INNER_NUM", "INNER_X", "DELAY", "__CRC32#", "a", "n\x02", ""])
MESSAGES = st.builds(
    reput.Message,
    topic=st.sampled_from(["orders", "payments", "", "主题"]),
    tags=st.sampled_from([None, "a"]),
    keys=st.sampled_from([None, "k", ["k", "l"]]),
    properties=st.none()
    | st.dictionaries(NAMES, st.sampled_from(["", "1", None]), max_size=3)
    | st.sampled_from(
        [b"", b"a\x01b\x02", b"DELAY\x011\x02WAIT\x01x\x02", b"a\x01b", [("a", "b")]]
    ),
)
TEXTS = st.lists(st.sampled_from([b"", b"a\x01b\x02", b"XDELAY\x01" + 70 * b"x", b"WAIT", b"\x01"]))
ROWS = st.lists(
    st.none() | st.dictionaries(NAMES, st.just("1"), max_size=3) | TEXTS.map(b"".join), max_size=4
)


@given(
    st.lists(MESSAGES, max_size=4),
    st.frozensets(st.sampled_from(["orders", "payments"])),
    st.frozensets(NAMES),
)
@settings(max_examples=200, deadline=None)
def test_what_plugins_must_see_is_the_same(tasks, topics, properties):
    for found in (tasks, tuple(tasks)):
        assert concerns_any(found, topics, properties) == concerns_any.__wrapped__(
            found, topics, properties
        )


@given(
    ROWS
    | ROWS.map(tuple)
    | st.none()
    | st.dictionaries(NAMES, st.just("1"))
    | TEXTS.map(lambda texts: (np.array([0]), b"".join(texts)))
    | TEXTS.map(b"".join),
    st.frozensets(st.just("orders")),
    st.frozensets(NAMES),
)
@settings(max_examples=200, deadline=None)
def test_what_plugins_must_see_of_columns_is_the_same(rows, topics, properties):
    asked = reput.Columns(topic="orders", body=[], properties=rows), topics, properties

    assert concerns_columns(*asked) == concerns_columns.__wrapped__(*asked)


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


@pytest.mark.costly
def test_many_bytes_go_through_the_file_and_few_through_the_map(tmp_path):
    """Sizes on both sides of each border: 16 KiB of one write, a megabyte of one chunk."""
    sizes = [16 << 10, (16 << 10) - 200, 1, 300_000, 700_000, 400_000, 3_000_000, 64 << 10, 70_000]
    roots = [tmp_path / "python", tmp_path / "native"]
    for root, engine in zip(roots, (python_engine, contextlib.nullcontext), strict=True):
        config = {"commitlog": {"file_size": 64 << 20}}
        with engine(), reput.open(root, plugins=[], config=config) as store:
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


@pytest.mark.parametrize(("count", "is_mapped"), [(3, True), (100, False)])
def test_pages_are_made_present_for_bytes_that_are_written_through_the_map(
    tmp_path, monkeypatch, count, is_mapped
):
    asked = []
    monkeypatch.setattr(Prefaulter, "ask", lambda *wish: asked.append(wish))
    with reput.open(tmp_path, plugins=[]) as store:
        receipt = store.put_many([reput.Message("orders", bytes(1_000))] * count)

        assert bool(asked) == is_mapped
        assert store.log.read_message(receipt[-1].physical_offset).body == bytes(1_000)
