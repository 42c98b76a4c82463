"""Where a writer makes a new store, and where it refuses to: in a directory of other files."""

from __future__ import annotations

import os

import pytest

import reput
from reput.errors import StoreNotFoundError

SMALL = {"commitlog": {"file_size": 1 << 16}}


def opened(path):
    return reput.open(path, plugins=[], config=SMALL, threads=False)


def names_below(path):
    return sorted(str(each.relative_to(path)) for each in path.rglob("*"))


@pytest.mark.parametrize(
    "names",
    [
        ("passwd", "hosts", "shadow", "fstab"),
        ("lost+found/", "photos/"),
        ("commitlog.bak/",),
        # What is derived from a log, and the log itself is missing.
        ("consumequeue/", "index/", "config/", "checkpoint"),
        ("config/", "store/"),
        (".gitignore", "pyproject.toml"),
    ],
    ids=" ".join,
)
def test_a_directory_of_other_files_is_refused_and_left_as_it_is(tmp_path, names):
    for name in names:
        path = tmp_path / name
        path.mkdir() if name.endswith("/") else path.write_text("of somebody")
    before = names_below(tmp_path)

    with pytest.raises(StoreNotFoundError, match="no store is created here") as raised:
        opened(tmp_path)

    assert names_below(tmp_path) == before
    assert raised.value.path == str(tmp_path)
    assert 'create the directory "commitlog"' in str(raised.value)
    assert any(repr(name.rstrip("/")) in str(raised.value) for name in names)


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("lost+found/",),
        (".gitkeep", ".Trash-1000/", ".DS_Store"),
        ("config/",),
        # What is left of an opening that was killed before it had made the log.
        ("lock", "reput/"),
        ("lock", "abort.new", "checkpoint.new"),
        ("abort", "checkpoint", "lock", "reput/"),
    ],
    ids=" ".join,
)
def test_a_new_store_is_made_where_nothing_of_others_is(tmp_path, names):
    for name in names:
        path = tmp_path / name
        path.mkdir() if name.endswith("/") else path.write_text("")

    with opened(tmp_path) as store:
        store.put(reput.Message("orders", b"first"))

    with reput.open(tmp_path, "r", plugins=[]) as store:
        assert sum(map(len, store.scan())) == 1


def test_a_directory_commitlog_asks_for_a_store_among_other_files(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "commitlog").mkdir()

    with opened(tmp_path) as store:
        store.put(reput.Message("orders", b"first"))

    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_many_other_files_are_named_by_the_first_of_them(tmp_path):
    for number in range(5):
        (tmp_path / f"file-{number}").touch()

    with pytest.raises(StoreNotFoundError, match=r"'file-0', 'file-1', 'file-2', …\)"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("path", "reason"), [("", "it is empty"), (b"", "it is empty"), ("a\0b", "without NUL bytes")]
)
def test_a_text_that_is_no_path_is_an_error_before_anything_is_looked_at(
    tmp_path, monkeypatch, path, reason
):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ValueError, match=f"path: .*{reason}"):
        opened(path)

    assert os.listdir() == []
