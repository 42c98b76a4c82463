"""The simulated disk: what a power cut may leave of files, and what not."""

from __future__ import annotations

import errno

import pytest

from reput_testing import FaultySimulatedDisk, SimulatedDisk, snapshot
from reput_testing.disks.crashstates import PAGE_SIZE, SECTOR_SIZE

A, B, C = (bytes([letter]) * PAGE_SIZE for letter in b"ABC")


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "disk").mkdir()
    return SimulatedDisk(tmp_path / "disk")


def made(disk, name, data, *, named=True):
    """A file that is on disk, with its name if that is asked for."""
    descriptor = disk.open(f"{disk.directory}/{name}", create=True)
    disk.write(descriptor, data, 0)
    disk.flush(descriptor)
    if named:
        disk.flush_directory(disk.directory)
    return descriptor


def contents(disk, name, **options):
    """What a power cut now may leave of a file; None stands for no file."""
    return {state.image().get(name) for state in disk.crash_states(**options)}


def test_what_was_flushed_is_certain(disk):
    disk.close(made(disk, "file", A))

    assert contents(disk, "file") == {A}


def test_what_was_there_before_is_certain(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_bytes(b"text")

    disk = SimulatedDisk(tmp_path)

    assert [state.image() for state in disk.crash_states()] == [{"sub": None, "sub/file": b"text"}]


def test_a_name_that_was_not_flushed_may_be_missing(disk):
    disk.close(made(disk, "file", A, named=False))

    assert contents(disk, "file") == {None, A}


def test_each_page_is_lost_or_kept_by_itself(disk):
    descriptor = made(disk, "file", A + A + A)
    disk.write(descriptor, B, 0)
    disk.write(descriptor, B, 2 * PAGE_SIZE)
    disk.close(descriptor)

    found = contents(disk, "file", most=10_000)

    assert {A + A + A, B + A + A, A + A + B, B + A + B} <= found
    assert not any(data[PAGE_SIZE : 2 * PAGE_SIZE] != A for data in found)


def test_a_page_is_torn_between_sectors_and_nowhere_else(disk):
    descriptor = made(disk, "file", A)
    disk.write(descriptor, B, 0)
    disk.close(descriptor)

    found = contents(disk, "file")

    for data in found:
        sectors = [data[at : at + SECTOR_SIZE] for at in range(0, PAGE_SIZE, SECTOR_SIZE)]
        assert all(sector in (A[:SECTOR_SIZE], B[:SECTOR_SIZE]) for sector in sectors)
    assert len(found) == 2 + 2 * (PAGE_SIZE // SECTOR_SIZE - 1)


def test_a_page_may_be_there_as_it_was_for_a_moment(disk):
    descriptor = made(disk, "file", A)
    disk.write(descriptor, B, 0)
    disk.write(descriptor, C, 0)
    disk.close(descriptor)

    assert {A, B, C} <= contents(disk, "file")


def test_a_size_and_the_bytes_behind_it_are_independent(disk):
    descriptor = made(disk, "file", A)
    disk.write(descriptor, B, PAGE_SIZE)
    disk.close(descriptor)

    assert {A, A + bytes(PAGE_SIZE), A + B} <= contents(disk, "file")


def test_what_was_cut_off_may_be_there_still(disk):
    descriptor = made(disk, "file", A + B)
    disk.truncate(descriptor, 10)
    disk.close(descriptor)

    assert {A[:10], A + B} <= contents(disk, "file")


def test_stores_through_a_map_are_noticed_without_a_call(disk):
    descriptor = made(disk, "file", A)
    target = disk.map(descriptor, PAGE_SIZE)
    target[0:4] = b"1234"
    memoryview(target)[4:8] = b"5678"

    found = {data[:8] for data in contents(disk, "file")}
    disk.flush(descriptor)
    flushed = contents(disk, "file")
    target.close()
    disk.close(descriptor)

    assert found == {b"A" * 8, b"1234AAAA", b"12345678"}
    assert flushed == {b"12345678" + A[8:]}


def test_a_rename_is_whole_or_did_not_happen(disk):
    disk.close(made(disk, "old", b"old"))
    disk.close(made(disk, "new", b"new"))

    disk.rename(f"{disk.directory}/new", f"{disk.directory}/old")

    assert [state.image() for state in disk.crash_states()] == [
        {"new": b"new", "old": b"old"},
        {"old": b"new"},
    ]


def test_changes_of_one_name_are_kept_in_their_order(disk):
    disk.close(made(disk, "file", b"1"))
    disk.remove(f"{disk.directory}/file")
    disk.close(made(disk, "file", b"2", named=False))
    disk.close(made(disk, "other", b"3", named=False))

    found = {tuple(sorted(state.image().items())) for state in disk.crash_states()}

    other = ("other", b"3")
    assert found == {
        (*names, *rest)
        for names in ([("file", b"1")], [], [("file", b"2")])
        for rest in ([], [other])
    }


def test_a_flushed_directory_keeps_what_had_to_happen_first_elsewhere(disk):
    disk.make_directory(f"{disk.directory}/a", durable=True)
    disk.make_directory(f"{disk.directory}/b", durable=True)
    descriptor = disk.open(f"{disk.directory}/a/file", create=True)
    disk.flush(descriptor)
    disk.close(descriptor)
    disk.rename(f"{disk.directory}/a/file", f"{disk.directory}/b/file")

    disk.flush_directory(f"{disk.directory}/b")

    assert [state.image() for state in disk.crash_states()] == [
        {"a": None, "b": None, "b/file": b""}
    ]


def test_without_its_directory_there_is_no_file(disk):
    disk.make_directory(f"{disk.directory}/a/b")
    descriptor = disk.open(f"{disk.directory}/a/b/file", create=True)
    disk.close(descriptor)
    disk.flush_directory(f"{disk.directory}/a/b")

    found = {tuple(sorted(state.image())) for state in disk.crash_states()}

    assert found == {(), ("a",), ("a", "a/b", "a/b/file")}


def test_replacing_a_file_leaves_the_old_or_the_new_at_every_point(disk):
    disk.replace(f"{disk.directory}/file", A + b"old")
    first = len(disk.points)

    disk.replace(f"{disk.directory}/file", B + b"new")

    points = disk.points[first:]
    found = {state.image()["file"] for point in points for state in point.states()}
    assert found == {A + b"old", B + b"new"}
    assert contents(disk, "file") == {B + b"new"}


def test_points_are_before_and_behind_each_change_with_the_note_of_then(tmp_path):
    notes = iter(range(100))
    disk = SimulatedDisk(tmp_path, note=lambda: next(notes))

    descriptor = disk.open(f"{disk.directory}/file", create=True)
    disk.write(descriptor, b"1", 0)
    disk.close(descriptor)

    assert [(point.operation, point.note) for point in disk.points] == [
        ("before create file", 0),
        ("after create file", 1),
        ("before write file", 2),
        ("after write file", 3),
    ]


def test_a_state_is_found_again_by_its_id_and_written_as_files(disk, tmp_path):
    descriptor = made(disk, "file", A + A)
    disk.write(descriptor, B + B, 0)
    disk.close(descriptor)
    disk.make_directory(f"{disk.directory}/sub")

    for number, state in enumerate(disk.crash_states(most=20)):
        again = disk.now().state(state.id)
        again.materialize(tmp_path / str(number))
        expected = {name: data for name, data in state.image().items() if data is not None}
        assert snapshot(tmp_path / str(number)) == expected
        assert again.fingerprint() == state.fingerprint()
    with pytest.raises(ValueError, match="has no state"):
        disk.now().state("000000000-0")


def test_the_same_seed_gives_the_same_states(disk):
    descriptor = made(disk, "file", A * 8)
    disk.write(descriptor, B * 8, 0)
    disk.close(descriptor)
    point = disk.now()

    def ids(seed):
        return [state.id for state in point.states(random_count=20, seed=seed)]

    assert ids(1) == ids(1)
    assert ids(1) != ids(2)
    assert len(ids(1)) == len(set(ids(1)))


def test_behind_a_kill_all_is_there_and_nothing_more_is_durable(disk, tmp_path):
    descriptor = made(disk, "file", A)
    disk.write(descriptor, B, 0)
    disk.close(descriptor)
    disk.close(made(disk, "other", b"3", named=False))

    later = SimulatedDisk.after_kill(disk.now(), tmp_path / "later")

    assert later.read_file(f"{later.directory}/file") == B
    assert {A, B} <= contents(later, "file")
    assert contents(later, "other") == {None, b"3"}
    descriptor = later.open(f"{later.directory}/file", write=True)
    later.flush(descriptor)
    later.close(descriptor)
    assert contents(later, "file") == {B}


def test_bytes_of_a_failed_flush_are_read_and_never_written(tmp_path):
    disk = FaultySimulatedDisk(tmp_path, fail_at=2, error=errno.EIO, operations={"flush"})
    descriptor = made(disk, "file", A)
    disk.write(descriptor, B, 0)
    with pytest.raises(OSError, match="Input/output error"):
        disk.flush(descriptor)

    disk.flush(descriptor)

    assert disk.read(descriptor, PAGE_SIZE, 0) == B
    assert {A, B} <= contents(disk, "file")
    disk.write(descriptor, B, 0)  # the same bytes once more
    disk.flush(descriptor)
    disk.close(descriptor)
    assert contents(disk, "file") == {B}
