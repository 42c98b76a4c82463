"""Readers beside a writer that mends a store, stopped between every two of its file operations."""

from __future__ import annotations

import traceback

import reput
from reput.log import ProgressEntry, StateFile
from reput.status import ReadStatus
from reput_testing import ManualClock, QuickDisk
from reput_testing.crashes.killpoints import KillPoints, copy_store


def open_still(root, config, plugins, disk=None, clock=None):
    """A writer that does everything on this thread, in the same order each time."""
    return reput.open(
        root,
        plugins=plugins,
        config=config,
        threads=False,
        clock=clock or ManualClock(),
        disk=disk or QuickDisk(),
    )


def killed(root, into, config, plugins, fill, unflushed):
    """A store that was killed: ``fill`` was flushed, ``unflushed`` was dispatched only."""
    with open_still(root, config, plugins) as store:
        fill(store)
        store.wait_dispatched()
        store.flush()
        unflushed(store)
        store.wait_dispatched()
        copy_store(root, into)
    return into


def look_between(root, copies, plugins, work, check, most=None):
    """Let ``work`` change a store, and readers look at it in front of each operation and behind.

    One reader was opened before; others are opened on what each operation leaves, as if the writer
    had been killed there.

    Args:
        root: the store.
        copies: a directory for copies of it.
        plugins: names, for the readers.
        work: changes the store, with the disk that it is given.
        check: called with a reader.
        most: how many moments to open readers at, as for `KillPoints.check_each`.

    Returns:
        How many moments there were.
    """
    errors = []
    with reput.open(root, "r", plugins=plugins) as before:
        check(before)

        def look():
            try:
                check(before)
            except Exception:
                number = len(disk.points)
                errors.append(f"before operation {number}:\n{traceback.format_exc()}")

        disk = KillPoints(root, copies, note=look)
        with disk.watching():
            work(disk)
        if errors:
            raise AssertionError(f"{len(errors)} times, first {errors[0]}")

    def look_anew(copy, point):
        with reput.open(copy, "r", plugins=plugins) as reader:
            check(reader)
            check(reader)  # now it has seen the files

    disk.check_each(look_anew, most)
    return len(disk.points)


def vouched(root, plugin):
    """How far a plugin's recorded progress reaches; 0 without one."""
    recorded = ProgressEntry(StateFile.of(root, QuickDisk()), plugin).load()
    return 0 if recorded is None else recorded.physical_offset


def check_queue(reader, topic, queue_id, ends, body, first=0):
    """Ask for each place of a queue whose messages are all sound, as consumers there do.

    Args:
        reader: the store.
        topic: the queue's.
        queue_id: the queue's.
        ends: by queue offset, where each message's record ends.
        body: what the message at a place says.
        first: place of the first of them.
    """
    count = first + len(ends)
    for at in range(first, count + 1):
        promised = vouched(reader.root, "consumequeue")
        answer = reader.read(topic, queue_id, at)
        assert answer.holes == (), (at, answer)
        if answer.status is ReadStatus.FOUND:
            assert answer.queue_offsets[0] == at, (at, answer)
            assert [m.body for m in answer] == [body(place) for place in answer.queue_offsets]
            assert answer.next_queue_offset == answer.queue_offsets[-1] + 1, (at, answer)
        else:
            assert answer.status is ReadStatus.OFFSET_OVERFLOW_ONE, (at, answer)
            assert answer.next_queue_offset == at, (at, answer)
            assert at == count or ends[at - first] > promised, (at, promised, answer)
