from __future__ import annotations

import os

import attrs
import pytest

import reput
from reput.files.system.disk import Disk
from reput.log.progress import Progress, ProgressEntry
from reput.log.recovery.checkpoint import AbortFile, Checkpoint
from reput.log.recovery.logstate import LogStateFile
from reput.log.statefile import StateFile
from reput_testing import QuickDisk

VECTOR = bytes.fromhex(
    "0000018bcfe5687b0000018bcfe568640000018bcfe540f00000000000000000000000004000000000000000000003e8"
)


def test_the_checkpoint_is_rocketmqs(tmp_path):
    path = str(tmp_path / "checkpoint")
    checkpoint = Checkpoint(
        1_700_000_000_123, 1_700_000_000_100, 1_699_999_990_000, 0, 1 << 30, 1_000
    )

    checkpoint.save(path, Disk())

    data = (tmp_path / "checkpoint").read_bytes()
    assert (data[:48], len(data), set(data[48:])) == (VECTOR, 4096, {0})
    assert Checkpoint.load(path, Disk()) == checkpoint
    assert checkpoint.replay_timestamp == 1_699_999_997_100


@pytest.mark.parametrize("size", [None, 24, 4096, 4100])
def test_only_a_whole_checkpoint_is_overwritten_in_place(tmp_path, size):
    replaced = []

    class ReplacingDisk(Disk):
        def replace(self, path, data):
            replaced.append(path)
            super().replace(path, data)

    path, disk = tmp_path / "checkpoint", ReplacingDisk()
    if size is not None:
        path.write_bytes(b"\1" * size)

    saved = attrs.evolve(Checkpoint.load(str(path), disk), log_timestamp=7).save(str(path), disk)
    assert Checkpoint.load(str(path), disk) == saved
    assert len(replaced) == (size != 4096)
    path.unlink()
    again = attrs.evolve(saved, log_timestamp=8).save(str(path), disk)

    loaded = Checkpoint.load(str(path), disk)
    assert (loaded, loaded.crc, path.stat().st_size) == (again, again.crc, 4096)


@pytest.mark.parametrize("data", [b"", b"x" * 23])
def test_a_checkpoint_that_is_missing_or_cut_counts_as_none(tmp_path, data):
    (tmp_path / "checkpoint").write_bytes(data)

    assert Checkpoint.load(str(tmp_path / "checkpoint"), Disk()) == Checkpoint()
    assert Checkpoint.load(str(tmp_path / "nothing"), Disk()) == Checkpoint()


def test_the_abort_file_tells_whose_store_it_was(tmp_path):
    abort = AbortFile(str(tmp_path / "abort"), Disk())
    assert not abort.present

    abort.create()

    assert abort.present
    assert (tmp_path / "abort").read_text() == str(os.getpid())
    abort.remove()
    assert not abort.present


class ReadBesideDisk(QuickDisk):
    """Reads a progress file after whatever is done, as another process may."""

    def __init__(self, path):
        self.path, self.seen = path, []

    def _look(self):
        if os.path.exists(self.path):
            self.seen.append(ProgressEntry(StateFile(self.path, QuickDisk()), "p").load())

    def open(self, path, **options):
        descriptor = super().open(path, **options)
        self._look()
        return descriptor

    def write(self, descriptor, data, position):
        super().write(descriptor, data, position)
        self._look()

    def rename(self, source, target):
        super().rename(source, target)
        self._look()


def test_a_progress_file_is_whole_from_the_first_moment_on(tmp_path):
    path = str(tmp_path / "progress")
    disk = ReadBesideDisk(path)
    file = ProgressEntry(StateFile(path, disk), "p")

    for offset in (10, 20, 30):
        file.save(Progress(offset))

    assert None not in disk.seen
    assert [place.physical_offset for place in dict.fromkeys(disk.seen)] == [10, 20, 30]


def test_a_closed_log_is_marked_until_it_is_flushed_again(tmp_path):
    def noted():
        return LogStateFile.of(str(tmp_path), Disk()).closed()

    with reput.open(tmp_path, plugins=[], threads=False) as store:
        receipt = store.put(reput.Message("t", b"x"))
    closed = noted()
    with reput.open(tmp_path, plugins=[], threads=False) as store:
        beside = noted()  # `abort` is there
        store.put(reput.Message("t", b"x"))
        store.flush()
        os.remove(tmp_path / "abort")
        flushed = noted()
        open(tmp_path / "abort", "w").close()

    assert (closed.physical_offset, closed.record_offset) == (receipt.end_offset, 0)
    assert beside is None
    assert flushed is None
    assert noted().physical_offset == 2 * receipt.end_offset


def test_a_mark_does_not_count_if_a_later_writer_went_on_in_the_next_file(tmp_path):
    config = {"commitlog": {"file_size": 4096}}
    notes = [tmp_path / "reput" / "state", tmp_path / "checkpoint"]
    with reput.open(tmp_path, plugins=[], threads=False, config=config) as store:
        first = store.put(reput.Message("t", bytes(2_000)))
    marked = [note.read_bytes() for note in notes]
    with reput.open(tmp_path, plugins=[], threads=False) as store:
        second = store.put(reput.Message("t", bytes(2_000)))  # after a blank
    for note, data in zip(notes, marked, strict=True):
        note.write_bytes(data)  # as a copy that was made before has them
    at_mark = LogStateFile.of(str(tmp_path), Disk()).closed()

    with reput.open(tmp_path, plugins=[], threads=False) as store:
        end = store.log.max_physical_offset

    assert at_mark.physical_offset == first.end_offset
    assert second.physical_offset == 4096
    assert end == second.end_offset
