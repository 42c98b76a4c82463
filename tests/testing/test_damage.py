"""Damage does what its name says, and looking at a directory sees it."""

from __future__ import annotations

import mmap
import os

import pytest

from reput_testing import (
    FileDamage,
    damages_of,
    emptied,
    garbled_at,
    grown_by,
    open_files_under,
    place,
    removed,
    snapshot,
    torn_at,
    traces,
    zeroed_from,
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    return path


@pytest.mark.parametrize(
    ("damage", "left"),
    [
        (lambda path: torn_at(path, 4), b"0123"),
        (emptied, b""),
        (lambda path: zeroed_from(path, 7), b"0123456\0\0\0"),
        (lambda path: zeroed_from(path, 7, 1), b"0123456\x0089"),
        (lambda path: garbled_at(path, 1), b"0\xce23456789"),
        (lambda path: garbled_at(path, 1, 0x01), b"0023456789"),
        (lambda path: grown_by(path, b"!"), b"0123456789!"),
    ],
)
def test_damage_leaves_what_it_says(file, damage, left):
    damage(file)

    assert file.read_bytes() == left


def test_a_removed_file_is_gone(file):
    removed(file)

    assert not file.exists()


def test_damages_are_spread_over_the_bytes_in_use(tmp_path):
    path = tmp_path / "mostly unused"
    path.write_bytes(bytes(range(1, 101)) + bytes(900))

    found = list(damages_of(path, places=5))

    by_kind = {
        kind: {d.position for d in found if d.kind == kind} for kind in {d.kind for d in found}
    }
    assert by_kind.keys() == {*("emptied", "torn", "zeroed", "garbled", "grown", "removed")}
    assert {0, 1, 98, 99} <= by_kind["garbled"]
    assert max(by_kind["garbled"]) == 99
    assert (min(by_kind["torn"]), max(by_kind["torn"])) == (1, 999)


def test_every_damage_changes_the_file(tmp_path):
    path = tmp_path / "file"
    data = b"some bytes\0\0and others" + bytes(40)
    path.write_bytes(data)

    for damage in damages_of(path):
        path.write_bytes(data)
        damage.apply(path)
        assert not path.exists() or path.read_bytes() != data, damage


def test_an_empty_file_has_damages_too(tmp_path):
    path = tmp_path / "file"
    path.touch()

    assert {damage.kind for damage in damages_of(path)} == {"grown", "removed"}


def test_an_unknown_damage_is_refused(file):
    with pytest.raises(ValueError, match="no damage is called 'burnt'"):
        FileDamage("burnt").apply(file)


def test_a_snapshot_can_be_put_elsewhere(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"1")
    (tmp_path / "a" / "other").write_bytes(b"2")

    place(snapshot(tmp_path / "a"), tmp_path / "c")

    assert snapshot(tmp_path / "c") == {"b/file": b"1", "other": b"2"}
    assert snapshot(tmp_path / "a", [tmp_path / "a" / "b"]) == {"b/file": b"1"}


def test_placing_leaves_nothing_else(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "old").touch()

    place({"new": b""}, tmp_path / "c")

    assert os.listdir(tmp_path / "c") == ["new"]


def test_traces_show_that_the_same_bytes_were_written_again(file):
    before = traces(file.parent)
    os.utime(file, ns=(0, 0))
    known = traces(file.parent)

    file.write_bytes(file.read_bytes())

    assert traces(file.parent) != known
    assert known != before
    assert traces(file.parent) == traces(file.parent)


def test_open_and_mapped_files_are_seen(file):
    if open_files_under(file.parent) is None:
        pytest.skip("this system does not tell")
    assert open_files_under(file.parent) == []

    with file.open("r+b") as opened:
        assert open_files_under(file.parent) == [str(file)]
        mapped = mmap.mmap(opened.fileno(), 0)
    assert open_files_under(file.parent) != []
    mapped.close()

    assert open_files_under(file.parent) == []
