"""Apache RocketMQ's store opens a log in which reput has filled holes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from damaged_logs import killed
from java_store import COMMITLOG_SIZE, JavaStore, Row
from samples import CASES, consume_queue_files, expected, in_order

from reput.files import file_name

COUNT = 700
LOST = (100, 101, 102, 250, 400, 520)


def _without_lost_ones(path: Path, name: str) -> tuple[list[Row], list[Row]]:
    """Rows of a store in which some records were damaged and filled: those left, those lost.

    Among the lost ones is the last record of the first file, with the blank behind it.
    """
    case = CASES[name]
    with case.open(path) as store:
        rows = [expected(case, *put) for put in case.write(store, COUNT)]
    in_first = [row for row in rows if row["physical_offset"] < COMMITLOG_SIZE]
    border = max(in_first, key=lambda row: row["physical_offset"])
    lost = [*(rows[number] for number in LOST), border]
    killed(path)
    for row in lost:
        _overwrite(path, row["physical_offset"] + 60, b"\xdd" * 30)
    end = border["physical_offset"] + border["size"]
    _overwrite(path, end, b"\xdd" * (COMMITLOG_SIZE - end))
    with case.open(path) as store:
        assert store.wait_dispatched(30)
        assert len(store.losses()) >= 4
        assert {loss.action for loss in store.losses()} == {"filled"}
    return [row for row in rows if row not in lost], lost


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    base = offset - offset % COMMITLOG_SIZE
    with open(path / "commitlog" / file_name(base), "r+b") as file:
        file.seek(offset - base)
        file.write(data)


def _distinct(rows: list[Row]) -> list[Row]:
    return in_order({row["physical_offset"]: row for row in rows}.values())


@pytest.mark.shows("turns")
@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_java_returns_every_other_message_of_a_log_with_filled_holes(
    java: JavaStore, tmp_path: Path, ending: str
):
    path = tmp_path / "store"
    rows, lost = _without_lost_ones(path, "one-at-a-time")
    if ending == "killed":
        killed(path)  # so Java reads the whole log, what fills the holes included

    dump = java.dump(path)

    assert _distinct(dump.messages) == in_order(rows)
    assert dump.unread == []
    assert dump.max_physical_offset == max(row["physical_offset"] + row["size"] for row in rows)
    # Every message stands at its queue offset, and one that comes more than once stands for
    # messages that were lost in front of it.
    assert len(dump.messages) <= len(rows) + len(lost)


def test_java_builds_queues_from_a_log_with_filled_holes(java: JavaStore, tmp_path: Path):
    path = tmp_path / "store"
    rows, _ = _without_lost_ones(path, "one-at-a-time")
    killed(path)
    shutil.rmtree(path / "consumequeue")

    dump = java.dump(path)

    assert in_order(dump.messages) == in_order(rows)
    assert all("REPUT" not in topic for topic, _ in dump.queues)
    assert consume_queue_files(path)
