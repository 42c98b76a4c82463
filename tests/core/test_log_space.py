"""A log file takes space on disk as it is written, always before."""

from __future__ import annotations

import errno
import os

import pytest

import reput
from reput.errors import CreateMappedFileError
from reput.files import Disk, file_name, preallocation
from reput.files.mappedfile import MappedFile

SIZE = 1 << 30
MIB = 1 << 20


def space(path):
    """Bytes that a file takes on disk."""
    return os.stat(path).st_blocks * 512


def whole_space(path):
    return sum(
        space(os.path.join(directory, name))
        for directory, _, names in os.walk(path)
        for name in names
    )


class RecordingDisk(Disk):
    """Writes down what is allocated, and has room for so many bytes of a file."""

    def __init__(self, room=None):
        super().__init__()
        self.calls = []
        self.room = room

    def allocate(self, descriptor, size, start=0):
        self.calls.append((start, size))
        if self.room is not None and size > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().allocate(descriptor, size, start)


@pytest.fixture
def path(tmp_path):
    found = tmp_path / file_name(0)
    found.touch()
    os.truncate(found, SIZE)
    return str(found)


def opened(path, disk, used=0):
    return MappedFile.open(path, 0, SIZE, disk, used)


def test_a_first_message_takes_little(tmp_path):
    with reput.open(tmp_path / "s", plugins=[], sizes="rocketmq") as store:
        store.put(reput.Message("greetings", b"hello"))
        store.flush()
        path = tmp_path / "s" / "commitlog" / file_name(0)
        assert os.path.getsize(path) == SIZE
        assert whole_space(tmp_path) <= 8 * MIB
    assert whole_space(tmp_path) <= 5 * MIB


def test_space_is_there_before_it_is_written(tmp_path):
    disk = RecordingDisk()
    body = bytes(100_000)
    with reput.open(tmp_path / "s", plugins=[], disk=disk) as store:
        reserved = 0
        for _ in range(300):
            store.put(reput.Message("t", body))
            for start, size in disk.calls:
                assert start <= max(reserved, MIB), "a part was left out"
                reserved = max(reserved, size)
            assert store.log.max_physical_offset + 8 <= reserved
    assert len(disk.calls) < 30, "space comes in larger and larger pieces"


@pytest.mark.parametrize("count", [1, 40])
def test_many_messages_in_one_call_have_space(tmp_path, count):
    disk = RecordingDisk()
    with reput.open(tmp_path / "s", plugins=[], disk=disk) as store:
        store.put_many([reput.Message("t", bytes(1_000_000)) for _ in range(count)])
        assert store.log.max_physical_offset + 8 <= max(size for _, size in disk.calls)


@pytest.mark.costly
def test_a_file_with_little_in_it_reserves_little(path):
    disk = RecordingDisk()
    file = opened(path, disk)
    assert file.reserved == MIB
    file.reserve(MIB)
    assert disk.calls == [(0, MIB)]
    file.reserve(MIB + 1)
    assert file.reserved == 2 * (MIB + 1)
    file.reserve(500 * MIB)
    assert file.reserved == 564 * MIB
    file.reserve(SIZE)
    assert file.reserved == SIZE
    file.close()
    assert space(path) >= SIZE


def test_a_file_from_elsewhere_gets_space_for_what_it_has(path):
    file = opened(path, Disk(), used=10 * MIB)
    assert file.reserved == 20 * MIB
    assert space(path) >= 20 * MIB
    file.close()


def test_the_last_bytes_of_a_disk_are_used(path):
    disk = RecordingDisk(room=3 * MIB)
    file = opened(path, disk)
    file.reserve(2 * MIB + 1)  # 4 MiB would be more than there is
    assert file.reserved == 2 * MIB + 1
    with pytest.raises(OSError, match="No space left"):
        file.reserve(3 * MIB + 1)
    assert file.reserved == 2 * MIB + 1
    file.close()


@pytest.mark.shows("full-disk")
@pytest.mark.parametrize("many", [False, True])
def test_a_full_disk_refuses_messages_and_loses_none(tmp_path, many):
    disk = RecordingDisk()
    body = bytes(300_000)

    def put(store):
        message = reput.Message("t", body)
        store.put_many([message] * 3) if many else store.put(message)

    def put_until_refused(store):
        for _ in range(40):
            put(store)

    with reput.open(tmp_path / "s", plugins=[], disk=disk) as store:
        put(store)
        disk.room = 4 * MIB
        with pytest.raises(
            CreateMappedFileError, match=r"the disk is full; .* free space"
        ) as caught:
            put_until_refused(store)
        assert str(tmp_path / "s" / "commitlog" / file_name(0)) in str(caught.value)
        end = store.log.max_physical_offset
        assert end <= 4 * MIB
        disk.room = None  # somebody made room
        put(store)
        assert store.log.max_physical_offset > end
        count = store.log.max_physical_offset // len(body)
        bodies = [body for batch in store.log.scan() for body in batch.body.as_bytes()]
        assert bodies == [body] * count


def test_no_space_ahead_is_no_error_yet(tmp_path):
    """The thread that looks ahead finds no room; what has its space is stored."""
    disk = RecordingDisk()
    with reput.open(tmp_path / "s", plugins=[], disk=disk) as store:
        store.put(reput.Message("t", b"before"))
        disk.room = 0
        assert store.put(reput.Message("t", bytes(1000))).physical_offset > 0


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_that_cannot_allocate_has_its_blocks_written(tmp_path, monkeypatch, number):
    def refuse(descriptor, start, length):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with reput.open(tmp_path / "s", plugins=[], config={"commitlog": {"file_size": SIZE}}) as store:
        store.put(reput.Message("orders", b"first"))
    with reput.open(tmp_path / "s") as store:  # gives space to bytes that are there
        store.put(reput.Message("orders", bytes(3 * MIB)))
        sizes = [len(batch) for batch in store.scan()]

    assert sum(sizes) == 2
    assert 3 * MIB <= space(tmp_path / "s" / "commitlog" / file_name(0)) < 64 * MIB


def test_pages_of_a_log_whose_puts_are_flushed_are_present_in_small_steps(tmp_path, monkeypatch):
    requested = []
    monkeypatch.setattr(
        preallocation.Prefaulter, "ask", lambda _, file, start, end: requested.append((start, end))
    )

    with reput.open(
        tmp_path / "s", plugins=[], sizes="rocketmq", config={"commitlog": {"flush": "sync"}}
    ) as store:
        for _ in range(80):
            store.put(reput.Message("orders", bytes(32 << 10)))

    assert requested[-1][1] > 2 * MIB  # ahead of all 80 messages
    assert max(end - start for start, end in requested) < MIB


def test_pages_that_were_made_present_are_not_written_again(path, monkeypatch):
    populated = []
    prefaulter, file = preallocation.Prefaulter(), opened(path, Disk())

    def populate(_, start, end):
        populated.append((start, end))
        if len(populated) <= 2:  # the writer asks meanwhile
            prefaulter.ask(file, 5_000, 20_000)
        return True

    monkeypatch.setattr(preallocation, "_populate", populate)

    for start, end in ((0, 10_000), (6_000, 20_000), (50_000, 60_000)):
        prefaulter.ask(file, start, end)
        prefaulter._work()
    prefaulter.forget(file)
    file.close()

    assert populated == [(0, 10_000), (10_000, 20_000), (50_000, 60_000)]
