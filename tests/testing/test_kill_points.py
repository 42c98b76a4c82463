"""Copies of a store between every two operations of its disk."""

from __future__ import annotations

import pytest

from reput_testing import KillPoints


@pytest.fixture
def disk(tmp_path):
    (tmp_path / "store").mkdir()
    return KillPoints(tmp_path / "store", tmp_path / "killed")


def names(disk):
    """What each copy holds."""
    return [sorted(path.name for path in point.root.iterdir()) for point in disk.points]


def test_there_is_a_copy_between_every_two_operations(disk):
    with disk.watching():
        disk.replace(str(disk.root / "note"), b"text")

    assert names(disk) == [[], *[["note.new"]] * 2, ["note"]]
    assert [point.operation for point in disk.points] == [
        "create note.new",
        "write note.new",
        "flush note.new",
        "end",
    ]


def test_a_write_is_cut_between_two_pages(disk):
    descriptor = disk.open(str(disk.root / "file"), create=True)

    with disk.watching():
        disk.write(descriptor, b"x" * 10_000, 4_000)
    disk.close(descriptor)

    assert [(point.root / "file").stat().st_size for point in disk.points] == [0, 4_096, 14_000]


def test_what_a_map_was_given_is_in_the_copies(disk):
    descriptor = disk.open(str(disk.root / "file"), create=True)
    disk.allocate(descriptor, 4_096)
    view = disk.map(descriptor, 4_096)

    with disk.watching():
        view[10:14] = b"text"
        disk.flush(descriptor)
    view.close()
    disk.close(descriptor)

    assert [point.operation for point in disk.points] == [
        "store into file",
        "flush file",
        "end",
    ]
    assert [_text(point) for point in disk.points] == [bytes(4), b"text", b"text"]


def _text(point):
    return (point.root / "file").read_bytes()[10:14]


def test_somebody_may_look_at_the_directory_between_the_operations(tmp_path):
    seen = []
    root = tmp_path / "store"
    disk = KillPoints(
        root,
        tmp_path / "killed",
        beside=lambda operation: seen.append((operation, sorted(p.name for p in root.iterdir()))),
    )
    root.mkdir()

    with disk.watching():
        disk.replace(str(root / "note"), b"text")

    assert seen == [
        ("create note.new", []),
        ("write note.new", ["note.new"]),
        ("flush note.new", ["note.new"]),
        ("end", ["note"]),
    ]


def test_what_is_wrong_for_a_reader_comes_out_of_the_block_and_not_of_the_operation(tmp_path):
    def look(operation):
        raise LookupError(operation)

    disk = KillPoints(tmp_path / "store", tmp_path / "killed", beside=look)
    disk.root.mkdir()

    with pytest.raises(LookupError, match=r"create note\.new"), disk.watching():
        disk.replace(str(disk.root / "note"), b"text")

    assert (disk.root / "note").read_bytes() == b"text"


def test_only_some_points_are_tried_where_time_is_short(disk, monkeypatch):
    monkeypatch.delenv("REPUT_SOAK", raising=False)
    with disk.watching():
        for number in range(20):
            disk.replace(str(disk.root / f"note {number}"), b"text")
    tried = []

    count = disk.check_each(lambda root, point: tried.append(point.number), most=4)

    assert count == len(tried) < len(disk.points)
    assert tried[0] == 0
    assert tried[-1] == len(disk.points) - 1


def test_nothing_is_copied_outside_of_the_block(disk):
    disk.replace(str(disk.root / "note"), b"text")

    assert disk.points == []


def test_a_failing_check_names_the_operation(disk):
    with disk.watching():
        disk.replace(str(disk.root / "note"), b"text")

    def check(root, point):
        assert not (root / "note").exists()

    with pytest.raises(AssertionError, match=r"point 3 of 4, before: end(.|\n)*KILL_POINT"):
        disk.check_each(check)


def test_each_point_has_its_note_and_its_copy_goes_when_it_was_checked(tmp_path):
    said = iter(range(100))
    disk = KillPoints(tmp_path / "store", tmp_path / "killed", note=lambda: next(said))
    disk.root.mkdir()
    with disk.watching():
        disk.replace(str(disk.root / "note"), b"text")
    seen = []

    count = disk.check_each(lambda root, point: seen.append((point.note, root.is_dir())))

    assert seen == [(number, True) for number in range(count)]
    assert list((tmp_path / "killed").iterdir()) == []


def test_where_time_is_short_only_some_operations_have_a_copy(tmp_path, monkeypatch):
    monkeypatch.delenv("REPUT_SOAK", raising=False)
    disk = KillPoints(tmp_path / "store", tmp_path / "killed", every=3)
    disk.root.mkdir()

    with disk.watching():
        disk.replace(str(disk.root / "note"), b"text")
        disk.replace(str(disk.root / "other"), b"text")

    assert [point.number for point in disk.points] == [0, 3, 6]
    assert [point.operation for point in disk.points] == [
        "create note.new",
        "create other.new",
        "end",
    ]
