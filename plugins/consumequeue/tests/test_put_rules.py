"""Which units are added to a queue and where: RocketMQ's rules, against a model unit by unit."""

from __future__ import annotations

import logging
import struct
import tempfile
from pathlib import Path

import attrs
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reput.files import FilePool
from reput_consumequeue.layout import UNIT_SIZE
from reput_consumequeue.queue.consumequeue import ConsumeQueue
from reput_consumequeue.recordfiles import FileSet
from reput_testing import QuickDisk

BLANK = struct.pack(">qiq", 0, 0x7FFFFFFF, 0)


@attrs.define
class Model:
    """``ConsumeQueue#putMessagePositionInfo``, one unit at a time, in the words of its source."""

    units_per_file: int
    files: dict[int, bytearray] = attrs.field(factory=dict)  # by base, bytes
    wrote_position: int = 0  # in the last file
    min_offset: int = 0
    max_physical_offset: int = -1

    @property
    def max_offset(self):
        last = max(self.files, default=0)
        return (last + self.wrote_position) // UNIT_SIZE

    def put(self, physical_offset, size, tags_code, queue_offset):
        file_size = self.units_per_file * UNIT_SIZE
        if physical_offset + size <= self.max_physical_offset:
            return
        expected = queue_offset * UNIT_SIZE
        if not self.files:
            base = expected - expected % file_size
            self.files[base] = bytearray(file_size)
            for position in range(0, expected % file_size, UNIT_SIZE):
                self.files[base][position : position + UNIT_SIZE] = BLANK
            self.wrote_position = expected % file_size
            self.min_offset = queue_offset
        if queue_offset != 0 and expected < max(self.files) + self.wrote_position:
            return  # a repeat
        if self.wrote_position == file_size:
            self.files[max(self.files) + file_size] = bytearray(file_size)
            self.wrote_position = 0
        last = self.files[max(self.files)]
        unit = struct.pack(">qiq", physical_offset, size, tags_code)
        last[self.wrote_position : self.wrote_position + UNIT_SIZE] = unit
        self.wrote_position += UNIT_SIZE
        self.max_physical_offset = physical_offset + size


def _queue(root, units_per_file):
    disk = QuickDisk()
    shared = FileSet(disk, FilePool(disk, 4, write=True), units_per_file, writable=True)
    return ConsumeQueue("T", 0, f"{root}/T/0", shared)


def _append(queue, rows):
    """One run: ``(physical offset, size, tags code, queue offset)`` rows, offsets ascending."""
    data = b"".join(struct.pack(">qiq", *row[:3]) for row in rows)
    queue_offsets = np.array([row[3] for row in rows], np.int64)
    ends = np.array([row[0] + row[1] for row in rows], np.int64)
    consecutive = bool((np.diff(queue_offsets) == 1).all())
    queue.append_run(memoryview(data), queue_offsets, ends, consecutive=consecutive)


def _files(root):
    return {int(path.name): path.read_bytes() for path in Path(root).rglob("*") if path.is_file()}


def _compare(root, queue, model):
    assert _files(root) == {base: bytes(data) for base, data in model.files.items()}
    assert queue.max_offset == model.max_offset
    assert queue.min_offset == model.min_offset
    assert queue.max_physical_offset == model.max_physical_offset
    assert list(queue.files.bases) == sorted(base // UNIT_SIZE for base in model.files)


# What a record states about its place, seen from the queue's end: as it should be, a repeat, a gap,
# the first message once more, or anything.
STEPS = st.one_of(
    st.just(("next", 0)),
    st.just(("next", 0)),
    st.just(("next", 0)),
    st.tuples(st.just("back"), st.integers(1, 4)),
    st.tuples(st.just("gap"), st.integers(1, 9)),
    st.just(("at", 0)),
    st.tuples(st.just("at"), st.integers(0, 20)),
)


@settings(max_examples=150, deadline=None)
@given(
    units_per_file=st.integers(2, 7),
    first=st.sampled_from([0, 0, 1, 5, 13, 14, 300_001]),
    runs=st.lists(
        st.tuples(
            st.lists(st.tuples(STEPS, st.integers(91, 400)), min_size=1, max_size=9),
            st.integers(0, 3),
        ),
        max_size=6,
    ),
)
@example(2, 0, [([(("next", 0), 91)], 1), ([(("at", 0), 91)], 1)])
def test_runs_leave_the_files_and_extents_that_units_one_by_one_leave(units_per_file, first, runs):
    with tempfile.TemporaryDirectory() as root:
        queue, model = _queue(root, units_per_file), Model(units_per_file)
        expected, physical_offset = first, 0
        written = []
        for steps, replayed in runs:
            # A run begins with records that came before, as it does after a crash.
            rows = written[-replayed:] if replayed else []
            for (kind, count), size in steps:
                queue_offset = {
                    "next": expected,
                    "back": max(expected - count, 0),
                    "gap": expected + count,
                    "at": count,
                }[kind]
                rows.append((physical_offset, size, len(rows) - 3, queue_offset))
                physical_offset += size
                expected = max(expected, queue_offset) + (kind != "back")
            for row in rows:
                model.put(*row)
            written += rows[-len(steps) :]

            _append(queue, rows)

            _compare(root, queue, model)
            expected = model.max_offset
        queue.files.shared.pool.close()


def test_a_gap_is_closed_with_a_warning_that_names_the_queue(tmp_path, caplog):
    queue = _queue(tmp_path, 4)
    _append(queue, [(0, 100, 0, 0)])

    with caplog.at_level(logging.WARNING):
        _append(queue, [(100, 100, 0, 5)])

    assert queue.max_offset == 2
    (record,) = caplog.records
    assert record.getMessage() == "gap in queue topic=T queue_id=0 expected=1 found=5"


@pytest.mark.parametrize("state", ["all zero", "blanks cut short"])
def test_a_first_message_whose_blanks_a_crash_lost_is_written_at_its_place_again(tmp_path, state):
    """The file is there, its units are not: the queue is as empty as before it was made."""
    from reput_consumequeue.queue.recovery import recover

    queue = _queue(tmp_path, 5)
    _append(queue, [(100, 100, 0, 13)])
    (path,) = (tmp_path / "T" / "0").iterdir()
    whole = path.read_bytes()
    kept = 0 if state == "all zero" else UNIT_SIZE
    path.write_bytes(whole[:kept].ljust(len(whole), b"\0"))
    queue = _queue(tmp_path, 5)
    queue.files.load()
    recover(queue, clean=False)

    _append(queue, [(100, 100, 0, 13)])

    assert path.read_bytes() == whole
    assert (queue.min_offset, queue.max_offset) == (13, 14)


def test_a_negative_queue_offset_makes_no_file_of_a_negative_name(tmp_path):
    queue = _queue(tmp_path, 5)

    _append(queue, [(100, 100, 0, -3), (200, 100, 0, 0)])

    assert queue.max_offset == 1
    assert list(_files(tmp_path)) == [0]
