"""Puts, and reads of the log's state, from destructors, from other threads, and of both at once."""

from __future__ import annotations

import contextlib
import gc
import threading
import time

import pytest
from bothengines import python_engine

import reput
from reput_testing.casebudget import part

ENGINES = pytest.mark.parametrize("engine", [python_engine, contextlib.nullcontext])
QUEUES = 40
LONGEST = 60  # seconds, for broken code only


class Loop:
    """Garbage that only the collector frees; its destructor calls ``call``."""

    def __init__(self, call):
        self.itself = self
        self.call = call

    def __del__(self):
        self.call()


@contextlib.contextmanager
def collected_after(allocations):
    """Have the collector run after as many new objects, and look at these only."""
    threshold = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(allocations)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.collect()
        gc.unfreeze()


@pytest.fixture
def opened(tmp_path):
    with reput.open(tmp_path / "store", plugins=[], threads=False) as store:
        for queue_id in range(QUEUES):
            store.put(reput.Message("T", b"first", queue_id))
        yield store


@pytest.mark.proof
@ENGINES
@pytest.mark.costly
def test_a_destructor_puts_while_the_queue_offsets_are_read(tmp_path, engine):
    failures, receipts = [], []
    with engine(), reput.open(tmp_path / "store", plugins=[], threads=False) as store:
        for queue_id in range(QUEUES):
            store.put(reput.Message("T", b"first", queue_id))
        message = reput.Message("from a destructor".replace(" ", "_"), b"x")

        def put():
            try:
                receipts.append(store.put(message))
            except BaseException as error:
                failures.append(error)

        tried = part(range(1, 21))
        for allocations in tried:
            with collected_after(allocations):
                Loop(put)
                found = store.log.queue_offsets
            assert len(found) >= QUEUES

        assert failures == []
        assert [receipt.queue_offset for receipt in receipts] == list(range(len(tried)))
        assert store.log.queue_offsets[message.topic, 0] == len(tried)


@pytest.mark.proof
@ENGINES
@pytest.mark.costly
def test_every_method_is_called_while_the_queue_offsets_are_read(tmp_path, engine):
    """What the reput loop, retention, a flush and a put call, from a destructor."""
    failures, called = [], []
    with engine(), reput.open(tmp_path / "store", plugins=[], threads=False) as store:
        for queue_id in range(QUEUES):
            store.put(reput.Message("T", b"first", queue_id))
        appender = store.log._appender
        calls = [
            lambda: store.log.ask_to_wake(lambda: None),
            appender.call_wake,
            lambda: appender.move_record_limit(appender.record_limit),
            appender.allow,
            lambda: appender.next_queue_offset(("T", 1)),
            lambda: appender.start_queues({}),
            lambda: store.put(reput.Message("T", b"x")),
            lambda: store.put_many([reput.Message("T", b"x")]),
            appender.refuse,
            appender.let_go,
        ]

        def call(each):
            try:
                each()
            except BaseException as error:
                failures.append(error)
            called.append(each)

        for each in calls:
            for allocations in part((8, 24)):
                appender.allow()
                with collected_after(allocations):
                    Loop(lambda each=each: call(each))
                    store.log.queue_offsets  # noqa: B018

        assert failures == []
        assert called == [each for each in calls for _ in part((8, 24))]


@ENGINES
@pytest.mark.costly
def test_threads_put_while_another_reads_the_queue_offsets(tmp_path, engine):
    failures, stop = [], threading.Event()
    with engine(), reput.open(tmp_path / "store", plugins=[], threads=False) as store:
        for queue_id in range(QUEUES):
            store.put(reput.Message("T", b"first", queue_id))

        def put(topic):
            try:
                for number in range(200):
                    many = [reput.Message(topic, b"%d" % number)] * 3
                    store.put(reput.Message(topic, b"%d" % number))
                    store.put_many(many)
                    store.log.ask_to_wake(lambda: None)
            except BaseException as error:
                failures.append(error)

        def read():
            try:
                while not stop.is_set():
                    Loop(lambda: time.sleep(0))  # another thread's turn
                    store.log.queue_offsets  # noqa: B018
            except BaseException as error:
                failures.append(error)

        with collected_after(12):
            reader = threading.Thread(target=read)
            putters = [threading.Thread(target=put, args=(f"T{each}",)) for each in range(3)]
            for thread in (reader, *putters):
                thread.start()
            for thread in putters:
                thread.join(LONGEST)
            stop.set()
            reader.join(LONGEST)

        assert failures == []
        offsets = store.log.queue_offsets
        assert [offsets[f"T{each}", 0] for each in range(3)] == [800] * 3


def test_a_receipt_is_hashed_as_the_equal_tuple(opened):
    """An allocator that zeroes would give it the hash 0, where tuples keep their hash."""
    opened.put(reput.Message("T", b"makes pages present"))
    message = reput.Message("T", b"x")

    receipt = opened.log.put_at_once(frozenset(), frozenset())(message)

    assert isinstance(receipt, reput.Receipt)
    assert hash(receipt) == hash(tuple(receipt)) != 0
    assert tuple(receipt) in {receipt}
