"""What a kill leaves of a small file's replacement is finished, or goes, at the next opening."""

from __future__ import annotations

import os
import shutil

import pytest
from storepaths import make, opened, paths_of

import reput
from reput_testing import QuickDisk

_OF_OTHERS = ("reput/requests/", "reput/rebuild/", "reput/compacting/")
"""Other processes write there beside a writer; or all of it is thrown away as one."""
_RARE = {
    "abort.new",
    "reput/state.damaged.new",
    "compaction/position-checkpoint.bak.new",
    "transaction/00000000000000004096.new",
}
"""These are made where a killed writer has left ``abort``, the oldest files of the log are removed,
or a file is damaged."""
_WHILE_OPEN = ("reput/lost+found/",)
"""The core writes there only while the file ``abort`` is on disk: a closed store has no leftovers
in these directories."""


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Every name under which a store with all plugins makes a file before its own name."""
    found = paths_of(tmp_path_factory.mktemp("noted") / "store")
    found = {name for name in found if name.endswith(".new") and not name.startswith(_OF_OTHERS)}
    return sorted(found | _RARE)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A closed store, and one that a crash has left."""
    root = tmp_path_factory.mktemp("made") / "store"
    return root, make(root)


def with_leftovers(names, store, root):
    shutil.copytree(store, root)
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"half of a file")


def leftovers(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*.new"))


def test_they_are_of_the_core_and_of_each_plugin_that_has_small_files(names):
    kinds = {name.rpartition("/")[2] for name in names}

    assert {"abort.new", "checkpoint.new", "state.new", ".new"} <= kinds
    assert {"delayOffset.json.new", "timercheck.new", "timermetrics.new"} <= kinds
    assert {"consumerFilter.json.new", "consumerOffset.json.new", "replacing.new"} <= kinds


@pytest.mark.parametrize("left", ["closed", "crashed"])
def test_a_writer_removes_them(tmp_path, names, stores, left):
    root = tmp_path / "store"
    if left == "closed":
        names = [name for name in names if not name.startswith(_WHILE_OPEN)]
    with_leftovers(names, stores[left == "crashed"], root)

    opened(root).close()

    assert leftovers(root) == []


class FlushedDirectories(QuickDisk):
    """Remembers which directories were flushed."""

    def __init__(self):
        self.flushed = set()

    def flush_directory(self, path):
        self.flushed.add(path)
        super().flush_directory(path)


def test_a_writer_brings_names_to_disk_that_were_given_and_not_flushed(tmp_path, names, stores):
    """Else a power cut takes back the file by which it did what it did."""
    root = tmp_path / "store"
    shutil.copytree(stores[1], root)
    disk = FlushedDirectories()

    opened(root, disk=disk).close()

    directories = {str((root / name).parent) for name in names}
    assert {path for path in directories - disk.flushed if os.path.exists(path)} == set()


def test_a_reader_and_a_file_of_somebody_else_leave_them(tmp_path, names, stores):
    root = tmp_path / "store"
    names = [name for name in names if not name.startswith(_WHILE_OPEN)]
    with_leftovers(names, stores[0], root)
    others = ["config/topics.json.new", "mine.new", "reput/requests/index.new"]
    for name in others:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"not the store's")

    reput.open(root, "r").close()
    before = leftovers(root)
    opened(root).close()

    assert before == sorted([*names, *others])
    assert leftovers(root) == sorted(others)
