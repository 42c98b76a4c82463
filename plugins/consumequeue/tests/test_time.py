"""Queue offsets by store time: first message at a time or later, last at a time or earlier."""

from __future__ import annotations

import bisect
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
from reput.files import FilePool
from reput_consumequeue.layout import UNIT_SIZE, pre_blank_units
from reput_consumequeue.queue.consumequeue import ConsumeQueue
from reput_consumequeue.queue.recovery import correct_min_offset, recover
from reput_consumequeue.reader.timesearch import offset_by_time
from reput_consumequeue.recordfiles import FileSet
from reput_testing import QuickDisk

SMALL = {"commitlog": {"file_size": 4096}, "consumequeue": {"units_per_file": 4}}


class Log:
    """Store times by physical offset, 100 bytes to each record; lost below the minimum."""

    def __init__(self, times, min_physical_offset=0):
        self.times = times
        self.min_physical_offset = min_physical_offset

    def store_timestamp_at(self, physical_offset):
        number, rest = divmod(physical_offset, 100)
        return self.times[number] if rest == 0 and 0 <= number < len(self.times) else -1


def _queue(root, first, count, units_per_file):
    """A queue whose first message is ``first``; message n's record begins at 100 n."""
    directory = root / "T" / "0"
    directory.mkdir(parents=True, exist_ok=True)
    base = first - first % units_per_file
    data = pre_blank_units(first - base)
    data += b"".join(struct.pack(">qiq", 100 * n, 100, 0) for n in range(count))
    size = units_per_file * UNIT_SIZE
    for start in range(0, len(data), size):
        path = directory / f"{base * UNIT_SIZE + start:020d}"
        path.write_bytes(data[start : start + size].ljust(size, b"\0"))
    disk = QuickDisk()
    shared = FileSet(disk, FilePool(disk, 2), units_per_file, writable=False)
    queue = ConsumeQueue("T", 0, str(directory), shared)
    queue.files.load()
    recover(queue, clean=True)
    return queue


@pytest.mark.parametrize("units_per_file", [2, 3, 4, 10])
@pytest.mark.parametrize(
    ("timestamp", "lower", "upper"),
    [(200, 4, 3), (100, 1, 3), (50, 1, None), (400, 6, 5), (300, 4, 5), (99, 1, None)],
)
def test_the_vectors_of_the_description(tmp_path, units_per_file, timestamp, lower, upper):
    log = Log([100, 100, 100, 300, 300])
    queue = _queue(tmp_path, 1, 5, units_per_file)
    correct_min_offset(queue, 0)

    assert offset_by_time(queue, log, timestamp, "lower") == lower
    # Where no file begins early enough the answer is 0, brought up to the queue's minimum.
    assert offset_by_time(queue, log, timestamp, "upper") == (1 if upper is None else upper)


@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(st.sampled_from([0, 0, 1, 2, 7]), min_size=1, max_size=16),
    first=st.integers(0, 9),
    units_per_file=st.integers(2, 6),
    lost=st.integers(0, 8),
)
def test_both_boundaries_are_those_of_a_sorted_list(
    tmp_path_factory, steps, first, units_per_file, lost
):
    times = [1_000 + sum(steps[: n + 1]) for n in range(len(steps))]
    lost = min(lost, len(times) - 1)
    log = Log(times, 100 * lost)
    queue = _queue(tmp_path_factory.mktemp("q"), first, len(times), units_per_file)
    correct_min_offset(queue, log.min_physical_offset)
    low, known = first + lost, times[lost:]
    assert (queue.min_offset, queue.max_offset) == (low, first + len(times))

    for timestamp in range(times[0] - 1, times[-1] + 2):
        lower = offset_by_time(queue, log, timestamp, "lower")
        upper = offset_by_time(queue, log, timestamp, "upper")

        assert lower == low + bisect.bisect_left(known, timestamp)
        if known[0] <= timestamp:
            assert upper == low + bisect.bisect_right(known, timestamp) - 1
        else:
            assert upper in (0, low)


@pytest.mark.parametrize("count", [4, 8])
def test_a_last_file_without_units_changes_nothing(tmp_path, count):
    queue = _queue(tmp_path, 0, count, 4)
    (tmp_path / "T" / "0" / f"{count * UNIT_SIZE:020d}").write_bytes(bytes(4 * UNIT_SIZE))
    queue.files.load()
    recover(queue, clean=True)
    log = Log([100 * n for n in range(count)])

    assert queue.max_offset == count
    for number in range(count):
        assert offset_by_time(queue, log, 100 * number, "lower") == number
        assert offset_by_time(queue, log, 100 * number, "upper") == number
        assert offset_by_time(queue, log, 100 * number + 1, "upper") == number
    assert offset_by_time(queue, log, 10_000, "lower") == count


def test_a_queue_that_nobody_knows_and_one_without_messages_answer_0(tmp_path):
    with reput.open(tmp_path, plugins=["consumequeue"], config=SMALL, disk=QuickDisk()) as store:
        store.put(reput.Message("T", b""))
        store.wait_dispatched(10)

        for boundary in ("lower", "upper"):
            assert store.offset_by_time("T", 1, 0, boundary) == 0
            assert store.offset_by_time("Other", 0, 0, boundary) == 0
            assert store.offset_by_time("T", -1, 0, boundary) == 0


def test_a_queue_whose_messages_are_all_gone_answers_with_its_end(tmp_path):
    queue = _queue(tmp_path, 0, 5, 4)
    correct_min_offset(queue, 10_000)
    log = Log([1] * 5, 10_000)

    assert offset_by_time(queue, log, 0, "lower") == 5
    assert offset_by_time(queue, log, 2, "upper") == 5
