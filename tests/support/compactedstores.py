"""Stores with compacted topics for the tests of jobs, and what two ways of compacting make of them.

Not a test module.
"""

from __future__ import annotations

import shutil

import reput
from reput_compaction import CompactionPlugin
from reput_testing import ManualClock, QuickDisk, snapshot


def open_store(root, clock=None, disk=None, sizes=(1200, 200), **options):
    """Open a store that is compacted.

    Args:
        root: its directory.
        clock: ms since the epoch.
        disk: file operations.
        sizes: bytes of a file of records and of a file of units.
        options: of the plugin.
    """
    values = {"log_file_size": sizes[0], "queue_file_size": sizes[1]}
    kind = type("SizedPlugin", (CompactionPlugin,), values)
    return reput.open(
        root,
        plugins=[kind.from_section("compaction", {"topics": ["t", "u"], **options})],
        config={"commitlog": {"file_size": 1 << 16}},
        threads=False,
        clock=clock or ManualClock(),
        disk=disk or QuickDisk(),
    )


def put(store, entries):
    """Put (key, body, queue id) or (key, body, queue id, topic)."""
    store.put_many(
        [
            reput.Message(more[0] if more else "t", body, queue, keys=key)
            for key, body, queue, *more in entries
        ]
    )
    store.wait_dispatched()
    store.flush()


def many(count, keys, topics=("t", "u")):
    """Messages of all queues, each key now and then, one of ten deleted."""
    for number in range(count):
        body = b"" if number % 10 == 9 else b"value %d" % number * (number % 7 + 1)
        yield (
            f"key-{number * 7919 % keys}",
            body,
            number % 3,
            topics[number % 5 % len(topics)],
        )


def files_of(root):
    """Every file of a store but for those that say when they were written."""
    found = snapshot(root)
    times = ("checkpoint", "lock", "reput/state")
    return {name: data for name, data in found.items() if name not in times}


def both(root, clock, engine, split_size=1_000, **options):
    """What the plugin's own run makes of a closed store, and what a job makes of it.

    Returns:
        Results of the run, results of the job, files behind the one, files behind the other.
    """
    other = f"{root}-by-tasks"
    shutil.copytree(root, other)
    with open_store(root, clock, **options) as store:
        alone = store.plugin("compaction").compact()
    with open_store(other, clock, **options) as store:
        tasks = store.plugin("compaction").compact(engine=engine, split_size=split_size)
    files = files_of(root), files_of(other)
    shutil.rmtree(root)
    shutil.move(other, root)
    return alone, tasks, *files
