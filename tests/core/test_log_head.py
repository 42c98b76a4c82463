"""The first files of a log go: the store's own removal is known, any other one is a loss."""

from __future__ import annotations

import pytest
from trimmedstores import SIZE, Notes, fill, keep, open_with

import reput
from reput.files import Disk
from reput.log.recovery.logstate import LogHead
from reput.log.statefile import StateFile

pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.shows("lost-ends")]


def filled(root, *, trims=False):
    """Return the sorted paths of the log's files; of five, two are gone if it ``trims``."""
    with open_with(root, Notes()) as store:
        fill(store, 5)
        if trims:
            keep(store, 3)
    return sorted((root / "commitlog").iterdir())


def as_java_opens(root):
    """Write the letters that RocketMQ writes when it opens a store."""
    with open(root / "lock", "r+b") as file:
        file.write(b"lock")


def lost(root):
    """Return what a reader is told: the losses, and the problems."""
    with reput.open(root, mode="r", plugins=()) as store:
        return [(each.start_offset, each.end_offset) for each in store.losses()], store.problems


def test_a_first_file_that_nobody_trimmed_is_a_loss_for_a_reader(tmp_path):
    filled(tmp_path)[0].unlink()

    losses, problems = lost(tmp_path)

    assert losses == [(0, SIZE)]
    (problem,) = problems
    assert f"the log begins at {SIZE} instead of 0" in problem


def test_a_head_that_was_trimmed_is_no_loss(tmp_path):
    files = filled(tmp_path, trims=True)

    losses, problems = lost(tmp_path)

    assert files[0].name == f"{2 * SIZE:020}"
    assert (losses, problems) == ([], ())


def test_a_file_that_is_gone_after_others_were_trimmed_is_a_loss(tmp_path):
    filled(tmp_path, trims=True)[0].unlink()

    assert lost(tmp_path)[0] == [(2 * SIZE, 3 * SIZE)]


def test_a_writer_records_the_loss_once_and_goes_on(tmp_path):
    filled(tmp_path)[0].unlink()

    for _ in range(2):
        with open_with(tmp_path, Notes()) as store:
            found = [(each.start_offset, each.end_offset, each.reason) for each in store.losses()]
            assert found == [(0, SIZE, "GONE")]
    assert lost(tmp_path) == ([(0, SIZE)], ())


def test_files_that_go_while_another_program_writes_are_no_loss(tmp_path):
    """RocketMQ removes old files, and leaves no note."""
    files = filled(tmp_path)
    as_java_opens(tmp_path)
    files[0].unlink()

    assert lost(tmp_path) == ([], ())
    with open_with(tmp_path, Notes()) as store:
        assert store.losses() == []

    # From here on reput is the last to have written the store.
    files[1].unlink()
    assert lost(tmp_path)[0] == [(SIZE, 2 * SIZE)]


def test_a_damaged_slot_of_the_note_does_not_make_a_loss(tmp_path):
    filled(tmp_path, trims=True)
    path = tmp_path / "reput" / "state"
    data = path.read_bytes()

    for places in ((0,), (4096,), (0, 4096)):
        damaged = bytearray(data)
        for place in places:
            damaged[place : place + 60] = bytes(60)
        path.write_bytes(damaged)
        losses, problems = lost(tmp_path)

        assert losses == []
        # One slot is enough: a power cut during a write leaves no more.
        assert ["reput/state" in problem for problem in problems] == [True] * (len(places) - 1)


class Halting(Disk):
    """A disk whose files cannot be removed."""

    def remove(self, path):
        if "/commitlog/" in path:
            raise OSError(5, "the disk stops here")
        super().remove(path)


def test_the_note_is_on_disk_before_the_first_file_goes(tmp_path):
    with open_with(tmp_path, Notes(), disk=Halting()) as store:
        fill(store, 5)
        with pytest.raises(OSError, match="stops here"):
            keep(store, 3)

    assert LogHead(StateFile.of(str(tmp_path), Disk())).recorded_offset == 2 * SIZE
    assert len(list((tmp_path / "commitlog").iterdir())) == 5
