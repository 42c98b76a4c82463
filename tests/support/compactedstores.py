"""Stores with compacted topics for the tests of jobs, and what two ways of compacting make of them.

Not a test module.
"""

from __future__ import annotations

import shutil

import reput
from reput_testing import ManualClock, QuickDisk, snapshot

SIZES = {"topics": ["t", "u"], "log_file_size": 1200, "queue_file_size": 200}


def open_store(root, clock=None, disk=None, **options):
    config = {
        "commitlog": {"file_size": 1 << 16, "preallocate": False},
        "compaction": {**SIZES, **options},
    }
    return reput.open(
        root,
        plugins=["compaction"],
        config=config,
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
    times = ("checkpoint", "lock", "reput/plugins/compaction.json")
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
