from __future__ import annotations

import pytest

from reput.errors import CorruptFileError
from reput.files.filenames import file_name
from reput.files.filepool import FilePool
from reput.files.mappedfile import MappedFile
from reput.files.mappedfilequeue import MappedFileQueue
from reput.files.system.disk import Disk

SIZE = 1024


def _files(directory, *bases, size=SIZE, fill=b"\1"):
    directory.mkdir(exist_ok=True)
    for base in bases:
        (directory / file_name(base)).write_bytes(fill * size)


def _queue(directory, *, writable=True, file_size=SIZE):
    disk = Disk()
    queue = MappedFileQueue(str(directory), file_size, disk, FilePool(disk))
    queue.load(writable=writable)
    return queue


def test_a_directory_that_is_not_there_is_an_empty_queue(tmp_path):
    queue = _queue(tmp_path / "none")

    assert (queue.bases, queue.min_offset, queue.capacity_end, queue.base_of(0)) == ((), 0, 0, None)


def test_files_are_found_by_the_offsets_they_hold(tmp_path):
    _files(tmp_path, 2048, 3072)
    queue = _queue(tmp_path)

    assert queue.base_of(3071) == 2048
    assert queue.base_of(3072) == 3072
    assert queue.base_of(2047) is None
    assert queue.base_of(4096) is None


def test_names_of_file_systems_are_ignored_without_a_word(tmp_path, caplog):
    _files(tmp_path, 0)
    for name in ("lost+found", ".snapshot", ".nfs0000000000a1b2c3", "notes"):
        (tmp_path / name).mkdir()

    queue = _queue(tmp_path)

    assert queue.bases == (0,)
    assert [each.args for each in caplog.records] == [(str(tmp_path / "notes"),)]


def test_the_file_size_is_learned_from_the_files(tmp_path):
    _files(tmp_path, 0, 512, size=512)

    assert _queue(tmp_path, file_size=0).file_size == 512


def test_reading_never_crosses_the_end_of_a_file(tmp_path):
    _files(tmp_path, 0, fill=b"a")
    _files(tmp_path, 1024, fill=b"b")
    queue = _queue(tmp_path)

    assert queue.read(1020, 10) == b"aaaa"
    assert queue.read(1024, 3) == b"bbb"
    assert queue.read(2048, 3) == b""
    assert queue.read(0, 0) == b""


def test_a_file_that_somebody_cut_gives_fewer_bytes(tmp_path):
    _files(tmp_path, 0)
    queue = _queue(tmp_path)
    buffer = bytearray(SIZE)

    (tmp_path / file_name(0)).write_bytes(b"cut")

    assert queue.read(0, 100) == b"cut"
    assert queue.read_into(0, memoryview(buffer)) == 3


def test_truncating_keeps_the_file_that_holds_the_offset_and_clears_its_tail(tmp_path):
    _files(tmp_path, 0, 1024, 2048, 3072)
    queue = _queue(tmp_path)

    removed = queue.truncate(2500)

    assert (queue.bases, removed) == ((0, 1024, 2048), 1)
    data = (tmp_path / file_name(2048)).read_bytes()
    assert data == b"\1" * 452 + b"\0" * (SIZE - 452)


def test_truncating_at_a_files_beginning_keeps_it_empty(tmp_path):
    _files(tmp_path, 0, 1024, 2048, 3072)
    queue = _queue(tmp_path)

    queue.truncate(2048)

    assert queue.bases == (0, 1024, 2048)
    assert (tmp_path / file_name(1024)).read_bytes() == b"\1" * SIZE
    assert (tmp_path / file_name(2048)).read_bytes() == b"\0" * SIZE


def test_trimming_removes_whole_files_from_the_head_and_never_the_last(tmp_path):
    _files(tmp_path, 0, 1024, 2048)
    queue = _queue(tmp_path)

    assert queue.trim(1023) == 0
    assert queue.trim(1500) == 1
    assert queue.trim(1 << 40) == 1
    assert queue.bases == (2048,)


def test_a_reader_notices_files_that_come_and_go(tmp_path):
    _files(tmp_path, 0, 1024)
    queue = _queue(tmp_path, writable=False)
    (tmp_path / file_name(0)).unlink()
    _files(tmp_path, 2048)

    queue.refresh()

    assert queue.bases == (1024, 2048)
    assert queue.read(0, 10) == b""


def test_what_is_written_through_the_map_is_read_through_the_file(tmp_path):
    _files(tmp_path, 0, fill=b"\0")
    disk = Disk()
    file = MappedFile.open(str(tmp_path / file_name(0)), 0, SIZE, disk)

    file.map[100:105] = b"hello"
    file.flush()

    assert disk.read(file.descriptor, 5, 100) == b"hello"
    file.close()
    file.close()


def test_mapping_a_file_of_the_wrong_size_is_refused(tmp_path):
    _files(tmp_path, 0, size=10)

    with pytest.raises(CorruptFileError):
        MappedFile.open(str(tmp_path / file_name(0)), 0, SIZE, Disk())
