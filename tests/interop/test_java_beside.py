"""Apache RocketMQ's store and reput have one store open at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest
from java_store import JavaStore
from mavenparts import JavaFailedError
from samples import CASES, consume_queue_files, expected, in_order, read_all

import reput
from reput.errors import StoreLockedError

pytestmark = pytest.mark.shows("lock")

COUNT = 300


def test_reput_does_not_write_to_a_store_that_java_has_open(java: JavaStore, tmp_path: Path):
    path = tmp_path / "store"

    with java.holding(path, COUNT), pytest.raises(StoreLockedError):
        CASES["one-at-a-time"].open(path)


def test_reput_reads_a_store_while_java_has_it_open(java: JavaStore, tmp_path: Path):
    path = tmp_path / "store"

    with (
        java.holding(path, COUNT) as rows,
        reput.open(
            path, mode="r", plugins={"consumequeue"}, config=CASES["one-at-a-time"].config
        ) as store,
    ):
        found = read_all(store)

    told = [{name: row[name] for name in found[0]} for row in rows]
    assert in_order(found) == in_order(told)


def test_java_does_not_open_a_store_that_reput_has_open(java: JavaStore, tmp_path: Path):
    path, case = tmp_path / "store", CASES["one-at-a-time"]
    with case.open(path) as store:
        rows = [expected(case, *put) for put in case.write(store, COUNT)]
        assert store.wait_dispatched(60)
        queues = consume_queue_files(path)

        with pytest.raises(JavaFailedError, match="MQ already started"):
            java.dump(path)

        assert consume_queue_files(path) == queues
        rows += [expected(case, *put) for put in case.write(store, COUNT, seed=2)]
        assert store.wait_dispatched(60)
        assert in_order(read_all(store)) == in_order(rows)
    assert in_order(java.dump(path).messages) == in_order(rows)
