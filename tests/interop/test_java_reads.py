"""Apache RocketMQ's store opens what reput wrote."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from java_store import JavaStore, Row
from samples import (
    CASES,
    LIGHT_QUEUES,
    LIGHT_QUEUES_CASE,
    Case,
    consume_queue_files,
    expected,
    in_order,
    listed,
    queues_of,
    read_all,
    without_record_crc,
)

COUNT = 700  # about 300 KB: five files of the log, three of the fullest queue
START = 1_800_000_000_000
WRITER = Path(__file__).with_name("killed_writer.py")

Stored = tuple[Path, list[Row]]
"""A store and what every message in it must be, queue after queue."""


def write_and_close(path: Path, name: str, count: int) -> list[Row]:
    case = CASES[name]
    with case.open(path) as store:
        return [expected(case, *put) for put in case.write(store, count)]


def write_and_be_killed(path: Path, name: str, count: int, *, acknowledged: int) -> list[Row]:
    """Kill the writer with SIGKILL when it has answered for that many messages."""
    command = [sys.executable, str(WRITER), str(path), name, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        lines = list(itertools.islice(writer.stdout, acknowledged))
        writer.send_signal(signal.SIGKILL)
        # What it answered before the signal reached it counts as well; the last line may be cut.
        lines += [line for line in writer.stdout if line.endswith("\n")]
        assert writer.wait() == -signal.SIGKILL
    return [row_of(line) for line in lines]


def row_of(line: str) -> Row:
    row = json.loads(line)
    hosts = {name: tuple(row[name]) for name in ("born_host", "store_host")}
    return {**row, **hosts, "body": bytes.fromhex(row["body"])}


ENDINGS: dict[str, Callable[[Path, str, int], list[Row]]] = {
    "closed": write_and_close,
    "killed": lambda path, name, count: write_and_be_killed(path, name, count, acknowledged=count),
}


@pytest.fixture(
    scope="session",
    params=itertools.product(CASES, ENDINGS),
    ids=lambda param: "-".join(param),
)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    name, ending = request.param
    path = tmp_path_factory.mktemp("written") / "store"
    return path, in_order(ENDINGS[ending](path, name, COUNT))


@pytest.fixture
def stored(tmp_path: Path, java: JavaStore, written: Stored) -> Stored:
    """A copy of a store, as Java changes what it opens."""
    path, rows = written
    if has_long_topics(rows) and not java.writes_record_version_2:
        pytest.skip(f"RocketMQ {java.version} takes records of version 2 for damage")
    return Path(shutil.copytree(path, tmp_path / "store")), rows


@pytest.fixture(params=["one-at-a-time", "batches", "transactions"])
def closed(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Case, list[Row]]:
    """A store that reput closed."""
    rows = write_and_close(tmp_path / "store", request.param, COUNT)
    return tmp_path / "store", CASES[request.param], in_order(rows)


def has_long_topics(rows: list[Row]) -> bool:
    return any(len(row["topic"]) > 127 for row in rows)


def sizes_of(rows: list[Row]) -> dict[tuple[str, int], tuple[int, int]]:
    """Min and max queue offset of each queue that holds ``rows``."""
    queues: dict[tuple[str, int], tuple[int, int]] = {}
    for row in rows:
        queue = row["topic"], row["queue_id"]
        queues[queue] = 0, max(row["queue_offset"] + 1, queues.get(queue, (0, 0))[1])
    return queues


def commit_log_file_count(path: Path) -> int:
    return len(list((path / "commitlog").iterdir()))


# --------------------------------------------------------------------------- reading


def test_java_returns_every_message_at_its_queue_offset(java: JavaStore, stored: Stored):
    path, rows = stored

    dump = java.dump(path)

    assert commit_log_file_count(path) >= 4
    assert in_order(without_record_crc(dump.messages)) == listed(rows)
    assert dump.queues == sizes_of(listed(rows))
    assert dump.unread == []
    assert dump.min_physical_offset == 0
    assert dump.max_physical_offset == max(row["physical_offset"] + row["size"] for row in rows)


def test_java_accepts_the_checksum_of_whole_records(java: JavaStore, tmp_path: Path):
    if not java.checks_record_crc:
        pytest.skip(f"RocketMQ {java.version} knows no checksum of whole records")
    rows = write_and_be_killed(tmp_path / "store", "record-crc", COUNT, acknowledged=COUNT)

    dump = java.dump(tmp_path / "store", "--record-crc")

    assert in_order(without_record_crc(dump.messages)) == in_order(rows)


# One file and no more: Java corrects the min offset within the first file of a queue only.
@pytest.mark.parametrize("trimmed_count", [0, 1])
def test_java_and_reput_answer_alike_at_and_beyond_the_ends(
    java: JavaStore, closed: tuple[Path, Case, list[Row]], tmp_path: Path, trimmed_count: int
):
    path, case, _ = closed
    for file in sorted((path / "commitlog").iterdir())[:trimmed_count]:
        file.unlink()
    theirs = java.dump(Path(shutil.copytree(path, tmp_path / "theirs")))

    with case.open(path) as store:
        assert queues_of(store) == theirs.queues
        assert any(low > 0 for low, _ in theirs.queues.values()) == (trimmed_count > 0)
        for row in theirs.reads:
            result = store.read(row["topic"], row["queue_id"], row["offset"], max_count=32)
            assert result.status.name == row["status"]
            assert len(result) == row["message_count"]
            assert result.min_queue_offset == row["min_offset"]
            assert result.max_queue_offset == row["max_offset"]
            if row["status"] != "OFFSET_OVERFLOW_BADLY" or java.sends_overflow_to_the_end:
                assert result.next_queue_offset == row["next_begin_offset"]


def test_java_and_reput_find_the_same_queue_offsets_by_time(java: JavaStore, tmp_path: Path):
    if not java.knows_time_boundaries:
        pytest.skip(f"RocketMQ {java.version} takes the nearest message, by the files' own times")
    path, case, tick = tmp_path / "store", CASES["one-at-a-time"], itertools.count()
    with case.open(path, clock=lambda: START + next(tick) // 4 * 3) as store:
        for _ in case.write(store, COUNT):
            pass

    times = java.dump(path, "--times").times

    with case.open(path) as store:
        assert len(times) > COUNT
        for row in times:
            where = row["topic"], row["queue_id"], row["timestamp"]
            assert store.offset_by_time(*where, boundary="lower") == row["lower"], where
            assert store.offset_by_time(*where, boundary="upper") == row["upper"], where


# --------------------------------------------------------------------------- deriving


def test_java_derives_the_same_consume_queues(
    java: JavaStore, closed: tuple[Path, Case, list[Row]]
):
    path, *_ = closed
    ours = consume_queue_files(path)
    shutil.rmtree(path / "consumequeue")

    java.dump(path)

    assert any(name.endswith("2000") for name in ours)
    assert consume_queue_files(path) == ours


def test_light_queues_are_the_same_to_java(java: JavaStore, tmp_path: Path):
    path, case = tmp_path / "store", LIGHT_QUEUES_CASE
    with case.open(path) as store:
        for _ in case.write(store, COUNT):
            pass
        assert store.wait_dispatched(60)
        queues = queues_of(store)
    ours = consume_queue_files(path)
    shutil.rmtree(path / "consumequeue")

    dump = java.dump(path, "--light-queues")

    assert set(LIGHT_QUEUES) < {topic for topic, _ in queues}
    assert dump.queues == queues
    assert consume_queue_files(path) == ours


def test_java_leaves_the_consume_queues_of_a_closed_store_as_they_are(
    java: JavaStore, closed: tuple[Path, Case, list[Row]]
):
    path, *_ = closed
    ours = consume_queue_files(path)

    java.dump(path)

    assert consume_queue_files(path) == ours


# --------------------------------------------------------------------------- crashing


@pytest.mark.parametrize("acknowledged", [1, 200, 650])
@pytest.mark.parametrize("name", ["one-at-a-time", "batches"])
def test_java_has_every_message_that_was_acknowledged_before_a_kill(
    java: JavaStore, tmp_path: Path, name: str, acknowledged: int
):
    path = tmp_path / "store"
    rows = write_and_be_killed(path, name, 100_000, acknowledged=acknowledged)

    dump = java.dump(path)

    found = {row["physical_offset"]: row for row in dump.messages}
    assert len(rows) >= acknowledged
    assert [found.get(row["physical_offset"]) for row in rows] == rows
    assert dump.unread == []


# --------------------------------------------------------------------------- taking turns


@pytest.mark.shows("turns")
def test_a_store_may_change_hands_again_and_again(java: JavaStore, tmp_path: Path):
    path = tmp_path / "store"
    case = CASES["one-at-a-time"]
    rows: list[Row] = []

    for turn, ending in enumerate(itertools.chain(*itertools.repeat(["closed", "killed"], 2))):
        with case.open(path) as store:
            puts = case.write(store, 150, seed=turn)
            rows += [expected(case, *put) for put in puts]
        killed = ["--kill"] if ending == "killed" else []
        rows += told_by_java(java.write(path, "plain", 150, "--seed", str(turn), *killed))

    with case.open(path) as store:
        assert in_order(read_all(store)) == in_order(rows)
    assert in_order(java.dump(path).messages) == in_order(rows)


def told_by_java(rows: list[Row]) -> list[Row]:
    """Rows of Java's writes without what only its writes tell."""
    return [
        {k: v for k, v in row.items() if k not in ("status", "tags", "tags_code")} for row in rows
    ]
