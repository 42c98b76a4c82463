"""Questions by key in another process beside a writer that recovers, or that died doing so."""

from __future__ import annotations

import pytest
from besidewriters import killed, look_between, open_still

import reput
from reput.files import Disk
from reput.log import ProgressEntry, StateFile

pytestmark = pytest.mark.shows("readers-beside")

PLUGINS = ["index"]
CONFIG = {
    "commitlog": {"file_size": 1 << 16},
    "index": {"slots_per_file": 7, "items_per_file": 6},
}
COUNT = 17


class Life:
    """A store of messages with two keys each: one of its own, one that they share."""

    def __init__(self):
        self.starts = []

    def put(self, count):
        def work(store):
            for _ in range(count):
                keys = f"own{len(self.starts)} shared"
                self.starts.append(store.put(reput.Message("T", b"x", keys=keys)).physical_offset)

        return work

    def check(self, reader):
        for key, expected in [
            ("shared", self.starts),
            *((f"own{place}", [self.starts[place]]) for place in (0, 5, COUNT - 1)),
        ]:
            for oldest_first in (False, True):
                found = reader.query("T", key, oldest_first=oldest_first)
                offsets = [message.physical_offset for message in found]
                assert offsets == sorted(offsets, reverse=not oldest_first)
                assert set(offsets) <= set(expected)
                # Below that place all were looked at.
                assert set(offsets) >= {each for each in expected if each < found.indexed_to}


@pytest.mark.parametrize("flushed", [0, 4, 12])
@pytest.mark.costly
def test_a_question_is_answered_as_far_as_the_answer_says(tmp_path, flushed):
    life = Life()
    root = killed(
        tmp_path / "store",
        tmp_path / "killed",
        CONFIG,
        PLUGINS,
        life.put(flushed),
        life.put(COUNT - flushed),
    )

    def mend(disk):
        with open_still(root, CONFIG, PLUGINS, disk) as store:
            store.wait_dispatched()

    assert look_between(root, tmp_path / "copies", PLUGINS, mend, life.check) > 20


@pytest.mark.costly
def test_items_that_were_flushed_behind_the_progress_are_cut_without_a_wrong_header(tmp_path):
    """The kill falls between the plugin's flush and the record of its progress."""
    life = Life()
    root = tmp_path / "killed"
    killed(tmp_path / "store", root, CONFIG, PLUGINS, life.put(4), life.put(COUNT - 4))
    progress = ProgressEntry(StateFile.of(str(root), Disk()), "index").load()
    with open_still(root, CONFIG, PLUGINS) as store:
        store.wait_dispatched()
    (root / "reput" / "state").unlink()
    ProgressEntry(StateFile.of(str(root), Disk()), "index").save(progress)
    (root / "abort").touch()

    def mend(disk):
        with open_still(root, CONFIG, PLUGINS, disk) as store:
            store.wait_dispatched()

    assert look_between(root, tmp_path / "copies", PLUGINS, mend, life.check) > 20
