"""A put that runs out of room: the error says which messages are stored, and where."""

from __future__ import annotations

import errno
import os
import pickle

import pytest

import reput
from reput.errors import (
    CreateMappedFileError,
    FlushDiskTimeoutError,
    MessageTooLargeError,
    ServiceNotAvailableError,
)
from reput.files import Disk
from reput.record import Columns

pytestmark = pytest.mark.shows("partial-put")

FILE_SIZE = 1 << 20
BODY = 30_000
FITTING = 33
"""As many messages with such bodies go into a file that has one already."""


class SmallDisk(Disk):
    """Has no room for another file while it is full."""

    is_full = False
    fails = False

    def allocate(self, descriptor, size, start=0):
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(descriptor, size, start)

    def flush(self, descriptor):
        if self.fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().flush(descriptor)


@pytest.fixture
def disk():
    return SmallDisk()


@pytest.fixture
def opened(tmp_path, disk):
    def open_store(**options):
        config = {"commitlog": {"file_size": FILE_SIZE, **options}}
        store = reput.open(tmp_path / "s", plugins=[], disk=disk, config=config)
        store.put_many(messages(1))  # has the first file made
        return store

    return open_store


def messages(count, host=("192.0.2.1", 80), first=0):
    return [
        reput.Message("t", b"%04d" % at + bytes(BODY), born_host=host)
        for at in range(first, first + count)
    ]


def numbers(store):
    """The number of each stored message but the first, in the log's order."""
    found = [body for batch in store.log.scan() for body in batch.body.as_bytes()]
    return [int(bytes(body)[:4]) for body in found][1:]


def forms(count):
    listed = messages(count)
    yield "messages", listed
    yield "columns", Columns(topic="t", body=[each.body for each in listed])
    yield "one by one", messages(count, host=("2001:db8::1", 80))


@pytest.mark.parametrize("form", ["messages", "columns", "one by one"])
def test_the_error_has_the_receipt_of_what_is_stored(opened, disk, form):
    given = dict(forms(60))[form]
    with opened() as store:
        disk.is_full = True

        with pytest.raises(CreateMappedFileError) as caught:
            store.put_many(given)

        error = caught.value
        assert numbers(store) == list(range(FITTING))
        assert error.stored_count == len(error.stored) == FITTING
        assert error.stored.queue_offsets.tolist() == list(range(1, FITTING + 1))
        assert error.stored.end_offset == store.log.max_physical_offset
        assert store.get(error.stored[7].physical_offset).body[:4] == b"0007"


@pytest.mark.parametrize("form", ["messages", "columns", "one by one"])
def test_a_whole_put_is_stored_in_one_file_or_not_at_all(opened, disk, form):
    given = dict(forms(20))[form]
    with opened() as store:
        store.put_many(given, whole=True)
        disk.is_full = True

        with pytest.raises(CreateMappedFileError) as caught:
            store.put_many(given, whole=True)
        refused = numbers(store)
        disk.is_full = False
        receipt = store.put_many(given, whole=True)

        assert (caught.value.stored_count, caught.value.stored) == (0, None)
        assert refused == list(range(20))
        assert receipt.physical_offsets[0] == FILE_SIZE
        assert numbers(store) == [*range(20), *range(20)]


@pytest.mark.parametrize("form", ["messages", "columns", "one by one"])
def test_a_whole_put_that_no_file_has_room_for_is_refused(opened, form):
    with opened() as store:
        with pytest.raises(MessageTooLargeError, match="as a whole") as caught:
            store.put_many(dict(forms(60))[form], whole=True)

        assert caught.value.stored_count == 0
        assert numbers(store) == []


def test_a_flush_that_failed_says_what_was_stored(opened, disk):
    store = opened(flush="sync")
    disk.fails = True

    with pytest.raises(ServiceNotAvailableError) as caught:
        store.put_many(messages(3))
    with pytest.raises(ServiceNotAvailableError) as later:
        store.put_many(messages(3))

    assert caught.value.stored_count == 3
    assert later.value.stored_count == 0
    assert numbers(store) == [0, 1, 2]
    with pytest.raises(ServiceNotAvailableError):
        store.close()


@pytest.mark.parametrize("many", [False, True])
def test_a_late_flush_says_where_the_messages_are(opened, many):
    with opened(flush="sync") as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.log, "wait_flushed", lambda physical_offset, timeout: False)

        with pytest.raises(FlushDiskTimeoutError) as caught:
            store.put_many(messages(3)) if many else store.put(messages(1)[0])

        assert caught.value.stored_count == (3 if many else 1)
        assert caught.value.stored.end_offset == store.log.max_physical_offset


@pytest.mark.parametrize("many", [False, True])
def test_puts_that_do_not_wait_share_one_flush(opened, many):
    with opened(flush="sync") as store:
        begin = store.log.max_physical_offset

        def put():
            if many:
                return store.put_many(messages(2), wait=False)
            return store.put(messages(1)[0], wait=False)

        first, last = put(), put()
        before = store.log.flushed_offset

        last.wait()

        assert before <= begin
        assert first.durability is reput.Durability.DURABLE


def test_an_error_keeps_its_count_where_it_is_pickled(opened, disk):
    with opened() as store:
        disk.is_full = True
        with pytest.raises(CreateMappedFileError) as caught:
            store.put_many(messages(60))

    copy = pickle.loads(pickle.dumps(caught.value))

    assert str(copy) == str(caught.value)
    assert (copy.stored_count, copy.stored) == (FITTING, None)
