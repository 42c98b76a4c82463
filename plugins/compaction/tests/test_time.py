"""Searches by time in compacted queues, whose messages may be older than the whole log."""

from __future__ import annotations

import pytest

import reput
from reput_testing import ManualClock, QuickDisk

BASE = 1_700_000_000_000
pytestmark = pytest.mark.sizes(compaction={"log_file_size": 1200, "queue_file_size": 200})


def open_store(root, clock, mode="w"):
    named = {
        "plugins": ["compaction", "consumequeue"],
        "config": {"commitlog": {"file_size": 4096}, "compaction": {"topics": ["t"]}},
    }
    return reput.open(
        root,
        mode,
        clock=clock,
        threads=False,
        disk=QuickDisk(),
        **(named if mode == "w" else {}),
    )


def stored(store, clock, times):
    for number, now in enumerate(times):
        clock.now = BASE + now
        store.put(reput.Message("t", b"x" * 200, keys=f"k{number}"))
    store.wait_dispatched()
    store.flush()


def check(store, times, kept):
    for timestamp in range(-1, max(times) + 2):
        later = [at for at in kept if times[at] >= timestamp]
        until = [at for at in kept if times[at] <= timestamp]
        ask = BASE + timestamp
        assert store.offset_by_time("t", 0, ask) == (later[0] if later else kept[-1] + 1)
        assert store.offset_by_time("t", 0, ask, "upper") == (until[-1] if until else kept[0])


@pytest.mark.parametrize("times", [range(40), [*range(20, 40), *range(20)]])
@pytest.mark.costly
def test_messages_that_only_the_compacted_queue_has_are_found(tmp_path, times):
    clock, times = ManualClock(), list(times)
    with open_store(tmp_path, clock) as store:
        stored(store, clock, times)
        store.plugin("compaction").compact()
        store.trim_log(store.log.file_offsets[-1])
        assert store.log.min_physical_offset > 0

        check(store, times, range(40))
        with open_store(tmp_path, clock, "r") as reader:
            check(reader, times, range(40))


def test_only_kept_messages_count(tmp_path):
    clock = ManualClock()
    with open_store(tmp_path, clock) as store:
        for number in range(12):
            clock.now = BASE + number
            store.put(reput.Message("t", b"x", keys=f"k{number % 3}"))
        store.wait_dispatched()
        store.plugin("compaction").compact()

        check(store, list(range(12)), [9, 10, 11])


def test_topics_and_queues_that_are_not_compacted(tmp_path):
    clock = ManualClock(BASE)
    with open_store(tmp_path, clock) as store:
        store.put(reput.Message("other", b""))
        store.wait_dispatched()

        assert store.offset_by_time("other", 0, BASE + 1) == 1
        assert store.offset_by_time("t", 5, BASE) == 0
