"""Killed writers: what was acknowledged is there, in order, and nothing else that nobody put."""

from __future__ import annotations

import shutil

import pytest

import reput
from reput.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC
from reput_testing import KillLoop, QuickDisk
from reput_testing.casebudget import is_whole
from reput_testing.crashes.killloop import kill_count

pytestmark = [pytest.mark.proof, pytest.mark.shows("kill")]

FILE_SIZE = 4_096
OPTIONS = {
    "plugins": [],
    "config": {"commitlog": {"file_size": FILE_SIZE}},
    "disk": QuickDisk(),
    "threads": False,
}


@pytest.mark.costly
def test_killed_writers_lose_nothing_that_was_acknowledged(tmp_path):
    loop = KillLoop(tmp_path)

    loop.run(kill_count(60))

    assert loop.killed_count >= kill_count(60)
    assert loop.acked_count > 0 or not is_whole()


@pytest.mark.costly
def test_killed_writers_that_wait_for_the_disk_lose_nothing(tmp_path):
    loop = KillLoop(tmp_path, commitlog={"flush": "sync"})

    loop.run(kill_count(15))

    assert loop.killed_count >= kill_count(15)
    assert loop.acked_count > 0 or not is_whole()


# What the loop has found, step by step. A copy of an open store is what a kill leaves.


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


def bodies(root, mode="r"):
    with reput.open(root, mode, **OPTIONS) as store:
        return [batch.message(row).body for batch in store.scan() for row in range(len(batch))]


def test_killed_behind_a_roll_and_closed_without_a_message_the_log_keeps_its_last_one(
    tmp_path, root
):
    with reput.open(tmp_path / "open", **OPTIONS) as store:
        end = store.put(reput.Message("T", b"acknowledged")).end_offset
        shutil.copytree(tmp_path / "open", root)
    with open(root / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(end)
        file.write(SIZE_AND_MAGIC.pack(FILE_SIZE - end, BLANK_MAGIC))
    (root / "commitlog" / f"{FILE_SIZE:020d}").write_bytes(bytes(FILE_SIZE))

    assert bodies(root, "w") == [b"acknowledged"]  # and it is closed again
    assert bodies(root, "r") == [b"acknowledged"]
    assert bodies(root, "w") == [b"acknowledged"]
