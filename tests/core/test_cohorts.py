"""Plugins that stand close to each other, behind the log's end, read it together."""

from __future__ import annotations

import pytest

import reput
from reput.files.system.disk import Disk
from reput_testing.crashes.storeinternals import store_internals

pytestmark = pytest.mark.sizes(commitlog={"window_size": 8192})

WINDOW = 8_192
RECORD = 992  # bytes, of a message of 900
OFFSETS = list(range(0, 200 * RECORD, RECORD))
CONFIG = {
    "commitlog": {"file_size": 1 << 20},
    "dispatch": {"retry_count": 0},
}


class CountingDisk(Disk):
    """Counts the bytes that are read into windows."""

    def __init__(self):
        self.read_size = 0

    def read_into(self, descriptor, buffer, position):
        count = super().read_into(descriptor, buffer, position)
        self.read_size += count
        return count


class NotesPlugin(reput.Plugin):
    """Notes where its batches begin; when opened again wants all from one message on once more."""

    def __init__(self, number):
        super().__init__(None)
        self.again = OFFSETS[number]
        self.begin([])

    def begin(self, batches, *, fails=False):
        """Note everything anew, into that list."""
        self.batches, self.seen, self.fails = batches, [], fails

    @reput.hookimpl
    def reput_recover(self, progress):
        return min(progress, self.again)

    @reput.hookimpl
    def reput_dispatch(self, batch):
        if self.fails:
            raise ValueError("broken")
        self.batches.append(batch.start_offset)
        self.seen += batch.physical_offset.tolist()


def notes(name, number):
    """A plugin that begins again at the message of that number."""
    return type(f"{name.capitalize()}Plugin", (NotesPlugin,), {"name": name})(number)


def open_with(path, plugins, disk=None):
    return reput.open(path, plugins=plugins, config=CONFIG, disk=disk, threads=False)


@pytest.fixture
def written(tmp_path):
    """``written(plugins)``: a closed log of many windows, which they have seen; their notes."""

    def write(*plugins):
        with open_with(tmp_path, plugins) as store:
            receipts = store.put_many([reput.Message("T", b"x" * 900)] * len(OFFSETS))
        assert receipts.physical_offsets.tolist() == OFFSETS
        batches = []
        for each in plugins:
            each.begin(batches)
        return batches

    return write


def caught_up(path, *plugins):
    """Bytes that are read until everybody has seen everything."""
    disk = CountingDisk()
    with open_with(path, plugins, disk) as store:
        before = disk.read_size
        assert store.wait_dispatched(60)
        return disk.read_size - before


def test_one_that_is_close_behind_is_waited_for(tmp_path, written):
    ahead, behind = notes("ahead", 20), notes("behind", 19)
    batches = written(ahead, behind)

    read_size = caught_up(tmp_path, ahead, behind)

    assert (ahead.seen, behind.seen) == (OFFSETS[20:], OFFSETS[19:])
    assert batches[:3] == [OFFSETS[19], OFFSETS[20], OFFSETS[20]]
    # Each window ends in a part of a record, which the next one begins with.
    assert read_size < 1.2 * RECORD * len(behind.seen)


def test_of_several_each_is_waited_for_by_the_next(tmp_path, written):
    plugins = [notes(f"p{number}", number) for number in (8, 2, 5)]
    batches = written(*plugins)

    caught_up(tmp_path, *plugins)

    begun = [OFFSETS[number] for number in (2, 5, 5, 8, 8, 8)]
    assert batches[:6] == begun
    assert [each.seen for each in plugins] == [OFFSETS[8:], OFFSETS[2:], OFFSETS[5:]]


def test_one_that_is_far_behind_is_not_waited_for(tmp_path, written):
    ahead, behind = notes("ahead", 150), notes("behind", 0)
    batches = written(ahead, behind)

    caught_up(tmp_path, ahead, behind)

    assert batches[:2] == [OFFSETS[150], 0]
    assert (ahead.seen, behind.seen) == (OFFSETS[150:], OFFSETS)


def test_what_was_read_ahead_for_one_is_not_lost_to_another_far_behind(tmp_path, written):
    ahead, behind = notes("ahead", 50), notes("behind", 0)
    written(ahead, behind)

    read_size = caught_up(tmp_path, ahead, behind)

    assert (ahead.seen, behind.seen) == (OFFSETS[50:], OFFSETS)
    assert read_size < 1.2 * RECORD * (len(ahead.seen) + len(behind.seen))


def test_close_to_the_end_nobody_is_waited_for(tmp_path, written):
    ahead, behind = notes("ahead", -2), notes("behind", -3)
    batches = written(ahead, behind)

    caught_up(tmp_path, ahead, behind)

    assert batches == [OFFSETS[-2], OFFSETS[-3], OFFSETS[-2]]


def test_while_messages_arrive_nobody_is_waited_for(tmp_path, written):
    ahead, behind = notes("ahead", 20), notes("behind", 19)
    batches = written(ahead, behind)

    with open_with(tmp_path, [ahead, behind]) as store:
        store_internals(store).loop.feed.limit()
        store.put(reput.Message("T", b"new"))
        store_internals(store).loop.shared.step()

    assert batches[:2] == [OFFSETS[20], OFFSETS[19]]
    assert (ahead.seen[:-1], behind.seen[:-1]) == (OFFSETS[20:], OFFSETS[19:])


@pytest.mark.usefixtures("quiet")
def test_one_that_fails_close_behind_is_not_waited_for(tmp_path, written):
    ahead, behind = notes("ahead", 20), notes("behind", 19)
    written(ahead, behind)
    behind.begin([], fails=True)

    caught_up(tmp_path, ahead, behind)

    assert (ahead.seen, behind.seen) == (OFFSETS[20:], [])
