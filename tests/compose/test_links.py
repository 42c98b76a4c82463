"""A store that somebody else packed: links under any of its names lead nowhere.

Every path that the code opens, lists, makes or removes in long lives of a store with every plugin
is noted; then a store is made in which that path is a link to something outside of it, and
everything is done with that store that can be done. What the link leads to stays as it is, byte for
byte and name for name. An evenly spread sample of the paths; with ``REPUT_SOAK=1`` all of them.
"""

from __future__ import annotations

import os
import shutil

import pytest
from storepaths import PLUGINS, link_in, make, opened, operate, paths_of

import reput
from reput.errors import ReputError, UnsafePathError
from reput_testing import QuickDisk, snapshot
from reput_testing.casebudget import part

pytestmark = pytest.mark.shows("links", more="REPUT_SOAK=1")

_SAMPLE = 6
_SURE = ("reput/rebuild", "reput/compacting", "index", "timerlog", "abort", "reput/next-file")
"""Those by which it was found."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """By path below the root, whether it is used as a directory."""
    return paths_of(tmp_path_factory.mktemp("noted") / "store")


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A closed store, and one that a crash has left."""
    root = tmp_path_factory.mktemp("packed") / "store"
    crashed = make(root)
    return root, crashed


@pytest.fixture
def outside(tmp_path):
    """What links lead to; each name in it is one that a store's files may have."""
    directory = tmp_path / "outside"
    for name in ("canary", "00000000000000000000", "20231115120000000", "0/1/2", "old/index"):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"not the store's" * 600)
    return directory


def _chosen(paths, share, of):
    names = list(paths)
    if os.environ.get("REPUT_SOAK") != "1":
        step = max(len(names) // _SAMPLE, 1)
        names = [*_SURE, *(name for name in names[::step] if name not in _SURE)]
    return part(names[share::of])


def test_the_paths_are_those_of_all_plugins_and_of_temporary_files(paths):
    kinds = {name.rpartition("/")[2] for name in paths}

    assert {"abort", "checkpoint.new", "next-file", "lost+found", "state.new"} <= kinds
    assert {"timercheck.new", "delayOffset.json.new", "replacing.new", "requests"} <= kinds
    assert {"index-file", "consumequeue-file", "timerlog-file", "timerwheel"} <= kinds
    assert set(_SURE) <= set(paths)
    assert len(paths) > 150


@pytest.mark.proof
@pytest.mark.parametrize("share", range(3))
@pytest.mark.parametrize("left", ["closed", "crashed"])
def test_what_a_link_leads_to_stays_as_it_is(tmp_path, stores, paths, outside, left, share):
    before = snapshot(outside)
    tried = 0

    for name in _chosen(paths, share, 3):
        # As what it is used as, and where that may be told by a look only, also as the other.
        for target in ("", "canary") if paths[name] or name in _SURE else ("canary", ""):
            root = tmp_path / "store"
            shutil.copytree(stores[left == "crashed"], root, symlinks=True)
            if link_in(root, name, outside / target):
                errors = operate(root)
                tried += 1
                assert snapshot(outside) == before, (name, target, errors)
                _check(errors, root / name)
            shutil.rmtree(root)
            if os.environ.get("REPUT_SOAK") != "1":
                break

    assert tried


def _check(errors, link):
    for error in errors.values():
        if isinstance(error, UnsafePathError):
            assert error.path == str(link)
            assert "follow_links" in str(error)


@pytest.mark.parametrize("name", ["commitlog", "reput", "reput/state", "lock"])
@pytest.mark.parametrize("mode", ["r", "w"])
def test_opening_names_the_link_and_what_to_do(tmp_path, stores, outside, mode, name):
    root = tmp_path / "store"
    shutil.copytree(stores[1], root)
    link_in(root, name, outside)
    if mode == "r" and name == "lock":
        return  # whose holder is not asked for
    with pytest.raises(ReputError, match=r"is a symbolic link.*follow_links=True") as caught:
        opened(root, mode)

    assert str(root / name) in str(caught.value)


@pytest.mark.parametrize("name", ["commitlog", "reput", "index", "consumequeue", "compaction"])
def test_links_that_somebody_made_are_followed_when_it_is_asked_for(tmp_path, stores, name):
    root, real = tmp_path / "store", tmp_path / "real"
    shutil.copytree(stores[0], root)
    shutil.move(root / name, real)
    (root / name).symlink_to(real)

    with reput.open(
        root, plugins=PLUGINS, disk=QuickDisk(), threads=False, follow_links=True
    ) as store:
        store.put(reput.Message("orders", b"through the link"))
        store.wait_dispatched()
        last = store.read("orders", 0, store.queues()[0].min_queue_offset, 1_000)
        states = {state.name: state.state for state in store.plugins()}

    assert last
    assert set(states.values()) == {"running"}
    assert (root / name).is_symlink()
