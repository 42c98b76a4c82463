"""`FilePool` while one file takes long to open, or the process may open only few."""

from __future__ import annotations

import errno
import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from reput.files.filepool import FilePool, Handle, ReplacedError, kept_count
from reput.files.system.disk import Disk


class SlowDisk(Disk):
    """Opens `slow` only when the test lets it; counts what is open."""

    def __init__(self, slow):
        self.slow = str(slow)
        self.inside, self.may_open = threading.Semaphore(0), threading.Event()
        self.open_count = 0

    def open(self, path, **options):
        if path == self.slow:
            self.inside.release()
            assert self.may_open.wait(60)
        opened = super().open(path, **options)
        self.open_count += 1
        return opened

    def close(self, descriptor):
        super().close(descriptor)
        self.open_count -= 1


@pytest.fixture
def paths(tmp_path):
    for name in ("slow", "other"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path / "slow", tmp_path / "other"


def test_a_file_that_is_slow_to_open_stops_no_reader_of_another(paths):
    slow, other = paths
    disk = SlowDisk(slow)
    pool = FilePool(disk)

    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(pool.read, str(slow), 9, 0)
        disk.inside.acquire()
        read = pool.read(str(other), 9, 0)
        disk.may_open.set()

    assert (read, waiting.result()) == (b"other", b"slow")


def test_two_that_open_a_file_at_once_use_one_descriptor_and_close_the_other(paths):
    slow, _ = paths
    disk = SlowDisk(slow)
    pool = FilePool(disk)

    with ThreadPoolExecutor() as threads:
        waiting = [threads.submit(pool.read, str(slow), 9, 0) for _ in range(2)]
        disk.inside.acquire()
        disk.inside.acquire()
        disk.may_open.set()

    assert [each.result() for each in waiting] == [b"slow", b"slow"]
    assert disk.open_count == 1
    pool.close()
    assert disk.open_count == 0


@pytest.mark.parametrize("end", ["forget", "close"])
def test_what_is_forgotten_while_it_is_opened_is_closed_after_its_use(paths, end):
    slow, _ = paths
    disk = SlowDisk(slow)
    pool = FilePool(disk)

    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(pool.read, str(slow), 9, 0)
        disk.inside.acquire()
        pool.forget(str(slow)) if end == "forget" else pool.close()
        disk.may_open.set()

    assert waiting.result() == b"slow"
    assert disk.open_count == 0


def test_a_file_that_cannot_be_opened_leaves_nothing_behind(tmp_path):
    disk = SlowDisk("")
    pool, path = FilePool(disk), tmp_path / "later"
    with pytest.raises(FileNotFoundError):
        pool.read(str(path), 1, 0)
    pool.forget(str(path))
    path.write_bytes(b"x")

    assert [pool.read(str(path), 1, 0) for _ in range(2)] == [b"x", b"x"]
    assert disk.open_count == 1


def test_a_file_that_was_replaced_is_read_to_the_end_by_who_has_it_open(paths):
    _, other = paths
    pool, handle = FilePool(Disk(), write=True), Handle(str(other))

    with pool.descriptor(handle) as descriptor:
        pool.forget(handle)
        other.unlink()
        other.write_bytes(b"newer")
        read = os.pread(descriptor, 9, 0)

    assert read == b"other"
    with pytest.raises(ReplacedError):
        pool.read(handle, 9, 0)
    assert pool.read(Handle(str(other)), 9, 0) == b"newer"


def test_a_file_that_is_replaced_while_it_is_opened_is_not_read(paths):
    slow, _ = paths
    disk, handle = SlowDisk(slow), Handle(str(slow))
    pool = FilePool(disk)

    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(pool.read, handle, 9, 0)
        disk.inside.acquire()
        pool.forget(handle)
        slow.write_bytes(b"newer")
        disk.may_open.set()
        with pytest.raises(ReplacedError):
            waiting.result()

    assert disk.open_count == 0


def test_a_file_has_another_name_and_is_the_same(paths, tmp_path):
    slow, _ = paths
    pool, handle = FilePool(Disk()), Handle(str(slow))
    before = pool.read(handle, 9, 0)

    slow.rename(tmp_path / "moved")
    handle.path = str(tmp_path / "moved")

    assert (before, pool.read(handle, 9, 0)) == (b"slow", b"slow")
    pool.close()
    assert pool.read(handle, 9, 0) == b"slow"


def test_a_closed_pool_keeps_nothing_open(paths):
    slow, other = paths
    disk = SlowDisk("")
    pool = FilePool(disk)

    with pool.descriptor(str(slow)):
        pool.close()
        pool.read(str(other), 9, 0)

    assert disk.open_count == 0


def test_a_file_in_use_stays_open_when_it_is_forgotten_and_the_pool_is_closed(paths):
    _, other = paths
    disk = SlowDisk("")
    pool = FilePool(disk)

    with pool.descriptor(str(other)) as descriptor:
        pool.forget(str(other))
        pool.close()
        assert (os.pread(descriptor, 9, 0), disk.open_count) == (b"other", 1)

    assert disk.open_count == 0


def test_no_more_stay_open_than_allowed_and_those_in_frequent_use_do(tmp_path):
    disk = SlowDisk("")
    pool, often = FilePool(disk, 3), str(tmp_path / "often")
    names = [often, *(str(tmp_path / str(number)) for number in range(9))]
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    opened = []
    disk_open = disk.open
    disk.open = lambda path, **options: opened.append(path) or disk_open(path, **options)

    for name in names[1:]:
        pool.read(often, 1, 0)
        pool.read(name, 1, 0)
        pool.read(name, 1, 0)
        assert disk.open_count <= 3

    assert opened.count(often) <= 3  # the others fill the pool three times
    assert all(opened.count(name) == 1 for name in names[1:])


@pytest.mark.parametrize("max_open", [0, 1, 64])
def test_pieces_of_more_files_than_stay_open_are_all_written(tmp_path, max_open):
    paths = [str(tmp_path / f"{number}") for number in range(40)]
    for path in paths:
        open(path, "wb").close()
    disk = SlowDisk("none")
    pool = FilePool(disk, max_open, write=True)
    data = np.frombuffer(b"abcdef", np.uint8)

    pool.write_pieces([(path, data[n % 5 :], n) for n, path in enumerate(paths * 2)])

    assert disk.open_count <= max_open
    for number, path in enumerate(paths):
        first, second = b"abcdef"[number % 5 :], b"abcdef"[(number + 40) % 5 :]
        expected = (bytes(number) + first).ljust(number + 40, b"\0") + second
        with open(path, "rb") as file:
            assert file.read() == expected


def test_an_error_that_is_kept_does_not_keep_the_file_open(paths):
    class Failing(SlowDisk):
        def read(self, descriptor, size, position):
            raise OSError(5, "no such block")

    disk = Failing("")
    pool = FilePool(disk)
    with pytest.raises(OSError, match="no such block") as kept:
        pool.read(str(paths[1]), 1, 0)
    pool.close()

    assert kept.value.__traceback__ is not None
    assert disk.open_count == 0


def test_a_missing_file_among_many_pieces_keeps_no_other_file_open(paths):
    disk, (first, second) = SlowDisk(""), map(str, paths)
    pool = FilePool(disk, 80, write=True)
    for path in (first, second):  # with the second it keeps several
        pool.read(path, 1, 0)
    data = np.frombuffer(b"abcdef", np.uint8)
    with pytest.raises(FileNotFoundError) as kept:
        pool.write_pieces([(first, data, 0), (second + "-gone", data, 0)])
    pool.close()

    assert kept.value.__traceback__ is not None
    assert disk.open_count == 0


def test_a_pool_that_keeps_nothing_opens_a_file_for_each_use(paths):
    disk = SlowDisk("")
    pool, path = FilePool(disk, 0), str(paths[1])

    with pool.descriptor(path):
        assert (pool.read(path, 9, 0), disk.open_count) == (b"other", 1)

    assert disk.open_count == 0


def test_what_a_signal_handler_raises_while_a_file_is_closed_is_not_lost(paths):
    class Interrupted(SlowDisk):
        def close(self, descriptor):
            super().close(descriptor)
            raise KeyboardInterrupt  # as a handler may at any call

    disk = Interrupted("")
    with pytest.raises(KeyboardInterrupt):
        FilePool(disk, 0).read(str(paths[1]), 9, 0)
    pool = FilePool(disk)
    pool.read(str(paths[1]), 9, 0)
    with pytest.raises(KeyboardInterrupt):
        pool.close()

    assert disk.open_count == 0


def test_a_pool_dropped_in_a_forked_process_closes_no_descriptor_of_it(paths):
    pool = FilePool(Disk())
    pool.read(str(paths[1]), 9, 0)
    (number,) = pool._descriptors.values()
    child = os.fork()
    if child == 0:
        os.close(number)
        own = os.open(paths[1], os.O_RDONLY)
        del pool
        try:
            os._exit(0 if own == number and os.pread(own, 9, 0) == b"other" else 1)
        finally:
            os._exit(2)

    _, status = os.waitpid(child, 0)
    pool.close()
    assert os.waitstatus_to_exitcode(status) == 0


class FewDescriptors(Disk):
    """A disk of a process that may have only so many descriptors of files."""

    limit = 3

    def __init__(self):
        self.opened = set()
        self.refused = 0

    def open(self, path, **options):
        if len(self.opened) >= self.limit:
            self.refused += 1
            if self._root.makes_room():
                return self.open(path, **options)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        descriptor = super().open(path, **options)
        self.opened.add(descriptor)
        return descriptor

    def close(self, descriptor):
        self.opened.discard(descriptor)
        super().close(descriptor)


@pytest.mark.shows("few-descriptors")
def test_pools_release_what_they_keep_when_the_process_has_no_descriptor_left(tmp_path):
    paths = [str(tmp_path / str(number)) for number in range(8)]
    for path in paths:
        Disk().replace(path, path.encode())
    disk = FewDescriptors().at(str(tmp_path))
    pools = [FilePool(disk, 256), FilePool(disk, 256)]

    for number, path in enumerate(paths * 2):
        assert pools[number % 2].read(path, 1_000, 0) == path.encode()

    assert 0 < disk.refused < len(paths)  # fewer are kept from then on
    with (
        pools[0].descriptor(paths[0]),
        pools[1].descriptor(paths[1]),
        pools[0].descriptor(paths[2]),
    ):
        with pytest.raises(OSError, match="Too many open files"):
            pools[0].read(paths[3], 1, 0)  # all of them are in use
    assert pools[0].read(paths[3], 1, 0) == paths[3][:1].encode()
    for pool in pools:
        pool.close()
    assert disk.opened == set()


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(1 << 20, 256), (1_024, 256), (512, 64), (256, 16), (64, 1), (8, 1), (-1, 256)],
)
def test_a_pool_keeps_fewer_descriptors_under_a_low_limit(limit, kept, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limit, limit))

    assert kept_count(256) == kept
    assert kept_count(4) == min(4, kept)
