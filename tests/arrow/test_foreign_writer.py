"""Arrow reads a log beside a program that writes the size of a record before the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from foreignwriter import FILE_SIZE, ForeignWriter, foreign_store

from reput_arrow.logs.arrowdisk import LocalDisk
from reput_arrow.logs.growinglog import end_behind
from reput_arrow.logs.logopening import open_log
from reput_arrow.logs.logplace import LogPlace

pytestmark = pytest.mark.shows("incomplete-record")

SECOND = 1.0


class Clock:
    now = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()

    def sleep(self: LocalDisk, seconds: float) -> None:
        found.now += seconds

    monkeypatch.setattr(LocalDisk, "monotonic", lambda self: found.now)
    monkeypatch.setattr(LocalDisk, "sleep", sleep)
    return found


def place_of(writer: ForeignWriter) -> LogPlace:
    return LogPlace(str(writer.root), str(writer.root / "commitlog"), FILE_SIZE)


def ends(writer: ForeignWriter, position: int) -> list[int]:
    """Where the log ends for a batch, for a quick batch, and for a stream at ``position``."""
    place, found = place_of(writer), []
    for quickly in (False, True):
        with open_log(place, quickly=quickly) as log:
            found.append(log.max_physical_offset)
    with open_log(place, 0) as log:
        found.append(end_behind(log, position))
    return found


def test_a_record_whose_last_bytes_are_missing_belongs_to_a_later_batch(
    tmp_path: Path, clock: Clock
):
    with foreign_store(tmp_path, 5) as writer:
        first, _ = writer.write(2)
        offset, data = writer.pieces.pop(0)
        for _ in writer.steps(offset, data[:-2]):
            pass
        before = ends(writer, first)
        for _ in writer.steps(offset, data):
            pass
        after = ends(writer, first)
        began = clock.now
        writer.write(1)
        for _ in writer.steps(*writer.pieces[0]):
            pass
        found = ends(writer, first)

    assert before == [offset] * 3
    assert after == [offset + len(data)] * 3
    assert min(found) > after[0]
    assert clock.now - began <= 3 * (SECOND + 0.1)


def test_a_log_that_nobody_writes_is_read_without_a_wait(tmp_path: Path, clock: Clock):
    with foreign_store(tmp_path, 3) as writer:
        first, _, last = writer.write(3)
    began = clock.now

    found = ends(writer, first)

    assert min(found) > last
    assert clock.now == began
