"""Files of queues: what stands in their holes, what a failed flush means, who changes the list."""

from __future__ import annotations

import os
import threading

import pytest

from reput.files import Disk, FilePool
from reput_consumequeue.layout import UNIT, UNIT_SIZE
from reput_consumequeue.queue.consumequeue import ConsumeQueue
from reput_consumequeue.queue.recovery import recover
from reput_consumequeue.queuefiles import QueueFiles
from reput_consumequeue.recordfiles import FileSet
from reput_testing import QuickDisk


def _queue(root, units_per_file, disk=None):
    disk = QuickDisk() if disk is None else disk
    shared = FileSet(disk, FilePool(disk, 4, write=True), units_per_file, writable=True)
    return ConsumeQueue("T", 0, f"{root}/consumequeue/T/0", shared)


def _unit(number):
    return UNIT.pack(100 * number, 100, 7)


def test_a_file_takes_no_space_before_it_has_units(tmp_path):
    queue = _queue(tmp_path, 300_000)

    queue.files.write(0, memoryview(_unit(0)))

    about = os.stat(queue.files.path(0))
    assert about.st_size == 6_000_000
    assert about.st_blocks * 512 < 100_000


@pytest.mark.parametrize("stray", [4, 205, 3_276, 3_277, 250_000, 299_999])
def test_a_stray_unit_far_behind_the_end_is_zeroed_after_a_crash(tmp_path, stray):
    queue = _queue(tmp_path, 300_000)
    queue.files.write(0, memoryview(b"".join(map(_unit, range(3)))))
    with open(queue.files.path(0), "r+b") as file:
        file.seek(stray * UNIT_SIZE)
        file.write(_unit(stray))

    recover(queue, clean=False)

    assert queue.max_offset == 3
    with open(queue.files.path(0), "rb") as file:
        assert file.read(3 * UNIT_SIZE) == b"".join(map(_unit, range(3)))
        assert file.read().strip(b"\0") == b""
    assert os.path.getsize(queue.files.path(0)) == 6_000_000


def test_a_system_that_cannot_tell_holes_is_read_through(tmp_path, monkeypatch):
    queue = _queue(tmp_path, 50_000)
    queue.files.write(0, memoryview(_unit(0)))
    with open(queue.files.path(0), "r+b") as file:
        file.seek(49_999 * UNIT_SIZE)
        file.write(_unit(9))
    monkeypatch.delattr(os, "SEEK_DATA")

    recover(queue, clean=False)

    with open(queue.files.path(0), "rb") as file:
        assert file.read().rstrip(b"\0") == _unit(0).rstrip(b"\0")


def test_the_names_of_a_new_queue_are_brought_to_disk_up_to_the_stores_directory(tmp_path):
    flushed = []

    class Watched(QuickDisk):
        def flush_directory(self, path):
            flushed.append(os.path.relpath(path, tmp_path))

    queue = _queue(tmp_path, 2, Watched())
    queue.files.write(0, memoryview(_unit(0)))
    queue.files.shared.unflushed.flush()
    assert flushed == [".", "consumequeue", "consumequeue/T", "consumequeue/T/0"]

    flushed.clear()
    queue.files.write(1, memoryview(_unit(1) + _unit(2)))
    queue.files.shared.unflushed.flush()
    assert flushed == ["consumequeue/T/0"]
    queue.files.shared.unflushed.flush()
    assert flushed == ["consumequeue/T/0"]


def test_a_flush_passes_over_files_that_were_trimmed_meanwhile(tmp_path):
    queue = _queue(tmp_path, 2)
    queue.files.write(0, memoryview(b"".join(map(_unit, range(6)))))
    assert queue.files.trim(4) == 2
    queue.files.shared.unflushed.written(queue.files.path(0))  # written between the two

    queue.files.shared.unflushed.flush()

    assert queue.files.bases == (4,)


def test_trimming_beside_a_writer_loses_no_file_of_either(tmp_path):
    queue = _queue(tmp_path, 2)
    queue.files.write(0, memoryview(b"".join(map(_unit, range(2)))))
    written, done = [2], threading.Event()

    def trim():
        while not done.is_set():
            queue.files.trim(written[0] - 2)

    thread = threading.Thread(target=trim)
    thread.start()
    try:
        for number in range(2, 400):
            queue.files.write(number, memoryview(_unit(number)))
            written[0] = number + 1
    finally:
        done.set()
        thread.join()
    queue.files.trim(398)

    assert queue.files.bases == (398,)
    assert os.listdir(queue.files.directory) == [f"{398 * UNIT_SIZE:020d}"]


def test_a_crash_while_a_file_is_made_leaves_none_without_its_size(tmp_path):
    class DyingDisk(Disk):
        def truncate(self, descriptor, size):
            raise SystemExit  # the process ends between making the file and giving it its size

    scratch = tmp_path / "reput" / "file"
    shared = FileSet(
        DyingDisk(), FilePool(Disk(), 4, write=True), 5, writable=True, scratch=str(scratch)
    )
    files = QueueFiles(str(tmp_path / "consumequeue" / "T" / "0"), shared)

    with pytest.raises(SystemExit):
        files.make(0)

    assert list((tmp_path / "consumequeue" / "T" / "0").iterdir()) == []
    again = FileSet(Disk(), shared.pool, 5, writable=True, scratch=str(scratch))
    QueueFiles(files.directory, again).make(0)
    assert [f.stat().st_size for f in (tmp_path / "consumequeue" / "T" / "0").iterdir()] == [100]


class _StoppingDisk(QuickDisk):
    """A disk on which flushing is cut short by no error of the disk: Ctrl-C, for one."""

    left, flushed = -1, 0

    def flush(self, descriptor):
        if self.left == self.flushed:
            raise KeyboardInterrupt
        super().flush(descriptor)
        self.flushed += 1

    def flush_directory(self, path):
        super().flush_directory(path)
        self.flushed += 1


@pytest.mark.shows("plugin-flush")
def test_a_flush_goes_on_where_the_one_before_it_was_cut_short(tmp_path):
    disk = _StoppingDisk()
    shared = FileSet(disk, FilePool(disk, 4, write=True), 5, writable=True)
    paths = [str(tmp_path / name) for name in "abcdef"]
    for path in paths:
        disk.close(disk.open(path, create=True))
        shared.unflushed.written(path)
    shared.unflushed.named(str(tmp_path))

    disk.left = 4
    with pytest.raises(KeyboardInterrupt):
        shared.unflushed.flush()

    assert disk.flushed == 4
    disk.left = -1
    shared.unflushed.flush()
    assert disk.flushed == 7  # the other two, and the names
    shared.unflushed.flush()
    assert disk.flushed == 7
