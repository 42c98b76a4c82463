"""Flushes of one file without Python: only where the disk is plain, and never beyond that file."""

from __future__ import annotations

import os
import select
import threading

import pytest

import reput
from reput.errors import ServiceNotAvailableError
from reput.files import Disk
from reput_native import FlushLeader, FlushRequests

SIZE = 1 << 16


class Watching(Disk):
    """Notes each flush."""

    def __init__(self):
        self.flushed = []

    def flush(self, descriptor):
        self.flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        super().flush(descriptor)


@pytest.fixture
def descriptor(tmp_path):
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, SIZE)
    yield descriptor
    os.close(descriptor)


def never(*arguments):
    raise AssertionError(f"called with {arguments}")


def test_one_file_is_flushed_without_a_call(descriptor):
    turns = FlushLeader(SIZE)
    turns.use_file(descriptor, SIZE, SIZE)

    assert turns.wait(SIZE + 5, None, never)
    assert turns.flushed_offset == SIZE + 5
    assert turns.wait(2 * SIZE, 0.0, never)


@pytest.mark.parametrize("offset", [SIZE - 1, 2 * SIZE + 1])
def test_what_is_in_another_file_is_not_flushed_with_this_one(descriptor, offset):
    turns, called = FlushLeader(0), []
    turns.use_file(descriptor, SIZE, SIZE)

    def flush(*arguments):
        called.append(arguments)
        turns.reached(3 * SIZE)

    assert turns.wait(offset, None, flush)
    assert called == [()]


@pytest.mark.parametrize("turn", range(20))
def test_nothing_beyond_the_file_is_covered_by_its_flush(descriptor, turn):
    """One thread waits for the next file, asleep or not yet, while another flushes this one."""
    turns, called = FlushLeader(0), []
    turns.use_file(descriptor, 0, SIZE)

    def flush():
        called.append(turns.flushed_offset)
        turns.reached(3 * SIZE)

    far = threading.Thread(target=turns.wait, args=(2 * SIZE, None, flush))
    near = threading.Thread(target=turns.wait, args=(5, None, flush))
    for thread in (near, far) if turn % 2 else (far, near):
        thread.start()
    for thread in (near, far):
        thread.join(10)

    assert turns.flushed_offset == 3 * SIZE
    assert len(called) == 1
    assert called[0] <= SIZE


def test_after_use_calls_the_caller_flushes(descriptor):
    turns, called = FlushLeader(0), []
    turns.use_file(descriptor, 0, SIZE)
    turns.use_calls()

    assert turns.wait(7, None, lambda: (called.append(True), turns.reached(7)))
    assert called == [True]


@pytest.mark.parametrize("other", [99_999, -1, -2, -(2**31), 2**31 - 1])  # no open files
def test_where_a_file_cannot_be_held_the_caller_flushes(descriptor, other):
    turns, called = FlushLeader(0), []
    turns.use_file(descriptor, 0, SIZE)
    turns.use_file(other, 0, SIZE)

    assert turns.wait(7, None, lambda: (called.append(True), turns.reached(7)))
    assert called == [True]


def test_an_error_of_the_system_is_told_and_not_tried_again():
    """A pipe cannot be flushed, whoever tries it."""
    read, write = os.pipe()
    turns, told = FlushLeader(0), []
    turns.use_file(write, 0, SIZE)
    os.close(read)
    os.close(write)  # it was duplicated

    def flush(error):
        told.append(os.strerror(error))
        turns.fail()

    assert not turns.wait(7, None, flush)
    assert told == ["Invalid argument"]
    assert not turns.wait(8, None, never)


@pytest.fixture
def counter():
    counter = os.eventfd(0, os.EFD_NONBLOCK)
    yield counter
    os.close(counter)


def test_requests_are_served_without_python_and_each_flush_is_counted(descriptor, counter):
    turns, served = FlushLeader(0), []
    turns.use_file(descriptor, 0, SIZE)
    requests = FlushRequests(turns, never)
    thread = threading.Thread(target=lambda: served.append(requests.serve(counter, 60)))
    thread.start()

    for offset in (5, 9):
        requests.ask(offset)
        select.select([counter], [], [], 60)
        assert os.eventfd_read(counter) == 1
        assert turns.flushed_offset == offset
        assert not requests.is_asked
    requests.ask(SIZE + 1)  # in the next file
    thread.join(60)

    assert served == [SIZE + 1]
    assert turns.flushed_offset == 9


def test_without_a_counter_the_caller_flushes(descriptor):
    turns = FlushLeader(0)
    turns.use_file(descriptor, 0, SIZE)
    requests = FlushRequests(turns, never)
    requests.ask(7)

    assert requests.serve(-1, 60) == 7
    assert turns.flushed_offset == 0
    assert requests.serve(-1, 0.0) is None


def test_an_error_of_a_requested_flush_is_kept(counter):
    read, write = os.pipe()
    turns, told = FlushLeader(0), []
    turns.use_file(write, 0, SIZE)
    os.close(read)
    os.close(write)

    def flush(error):
        told.append(os.strerror(error))
        turns.fail()

    requests = FlushRequests(turns, flush)
    requests.ask(7)

    assert requests.serve(counter, 60) == 7
    assert told == ["Invalid argument"]
    assert not turns.wait(7, None, never)


def test_a_store_flushes_here_and_a_disk_that_watches_is_called(tmp_path):
    for disk in (None, Watching()):
        root = tmp_path / type(disk).__name__
        config = {"commitlog": {"flush": "sync", "file_size": 1 << 12}}
        with reput.open(root, plugins=[], config=config, disk=disk) as store:
            for number in range(60):
                receipt = store.put(reput.Message("T", b"%d" % number))
                assert receipt.durability is reput.Durability.DURABLE
                assert store.log.flushed_offset >= receipt.end_offset
            assert store.log.file_count > 1
        if disk is not None:
            assert sum("/commitlog/" in path for path in disk.flushed) >= 60


def test_a_file_that_was_removed_is_an_error_with_pythons_words(tmp_path):
    store = reput.open(tmp_path / "store", plugins=[], config={"commitlog": {"flush": "sync"}})
    store.put(reput.Message("T", b"first"))
    for path in (tmp_path / "store/commitlog").iterdir():
        path.unlink()

    with pytest.raises(ServiceNotAvailableError, match="removed or cut while it was open"):
        store.put(reput.Message("T", b"lost"))
    with pytest.raises(ServiceNotAvailableError):
        store.put(reput.Message("T", b"refused"))
    with pytest.raises(ServiceNotAvailableError):
        store.close()


def test_the_reader_of_a_sync_store_hears_of_flushes_made_here(tmp_path):
    with reput.open(
        tmp_path / "store", plugins=["consumequeue"], config={"commitlog": {"flush": "sync"}}
    ) as store:
        for number in range(5):
            store.put(reput.Message("T", b"%d" % number))
        assert store.wait_dispatched(10)
        assert len(store.read("T", 0, 0, 32)) == 5
