"""Stores that RocketMQ 4.8 left when it was killed: opened as it opens them, or better."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from openstores import reads

import reput

pytestmark = pytest.mark.shows("rocketmq-crash")

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "rocketmq-4.8.0"

CASES = [
    "crash-clean-tail",
    "crash-torn-record",
    "crash-torn-properties",
    "crash-log-behind-queues",
    "crash-no-derived",
    "crash-bit-flip",
    "crash-garbage-tail",
]
BETTER = {"crash-bit-flip", "crash-torn-properties"}
AS_ROCKETMQ = {"commitlog": {"recovery": "rocketmq"}}
ROWS_OF_READS = ("status", "next_begin_offset", "min_offset", "max_offset", "physical_offsets")


def _open(root, config=None):
    store = reput.open(root, plugins={"consumequeue"}, config=config)
    assert store.wait_dispatched(30)
    return store


def _queue_row(store, topic, queue_id):
    queue = store.plugin_objects["consumequeue"].queues[topic, queue_id]
    found, place = [], queue.min_offset
    while place < queue.max_offset:
        units = queue.files.read(place, queue.max_offset - place)
        found += [list(map(int, unit)) for unit in units.tolist()]
        place += len(units)
    return {"units": found, "min_offset": queue.min_offset, "max_offset": queue.max_offset}


def _get_row(store, row):
    answer = store.read(row["topic"], row["queue_id"], row["offset"], row["max_count"])
    next_offset = answer.next_queue_offset
    if row["status"] == "OFFSET_OVERFLOW_BADLY" and row["min_offset"] == 0:
        next_offset = row["next_begin_offset"]  # 4.8 begins anew there; 5.x and we say the end
    return {
        "status": answer.status.name,
        "next_begin_offset": next_offset,
        "min_offset": answer.min_queue_offset,
        "max_offset": answer.max_queue_offset,
        "physical_offsets": [message.physical_offset for message in answer],
    }


def _compare(store, case, golden_rows):
    (log,) = golden_rows(case, "log")
    assert store.log.min_physical_offset == log["min_physical_offset"]
    assert store.log.max_physical_offset == log["max_physical_offset"]
    rows = [row for row in golden_rows(case, "queue") if row["max_offset"]]
    assert len(rows) == len(store.queues()) > 0
    for row in rows:
        found = _queue_row(store, row["topic"], row["queue_id"])
        assert found == {name: row[name] for name in found}, row["topic"]
    reads = golden_rows(case, "get")
    assert len(reads) > 10
    for row in reads:
        assert _get_row(store, row) == {name: row[name] for name in ROWS_OF_READS}


@pytest.mark.parametrize(
    ("case", "config"),
    [
        *((case, AS_ROCKETMQ) for case in CASES),
        *((case, None) for case in CASES if case not in BETTER),
    ],
)
def test_a_killed_store_opens_as_java_opens_it(case, config, golden_store, golden_rows):
    with _open(golden_store(case), config) as store:
        _compare(store, case, golden_rows)


def _all_reads(store):
    messages, holes = {}, {}
    for info in store.queues():
        queue = info.topic, info.queue_id
        for answer in reads(store, *queue):
            messages.update({message.physical_offset: message for message in answer})
            holes.update({(*queue, hole.queue_offset): hole for hole in answer.holes})
    return messages, holes


def _written(case):
    with gzip.open(GOLDEN / case / "written.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["kind"] == "put"]


def test_a_flipped_bit_costs_its_own_record_and_none_behind_it(golden_store, golden_rows):
    case = "crash-bit-flip"
    written = _written(case)
    (log,) = golden_rows(case, "log")
    lost = written[-3]
    assert lost["physical_offset"] == log["max_physical_offset"]  # where Java cuts

    with _open(golden_store(case)) as store:
        messages, holes = _all_reads(store)
        (loss,) = store.losses()

    expected = [row for row in written if row is not lost]
    assert sorted(messages) == [row["physical_offset"] for row in expected]
    assert all(messages[row["physical_offset"]].body.hex() == row["body"] for row in expected)
    assert (loss.start_offset, loss.topic, loss.queue_id, loss.queue_offset) == (
        lost["physical_offset"],
        lost["topic"],
        lost["queue_id"],
        lost["queue_offset"],
    )
    # A hole only where one of the two messages behind it is in the same queue.
    assert set(holes) <= {(lost["topic"], lost["queue_id"], lost["queue_offset"])}


def test_a_record_whose_properties_were_torn_is_not_believed(golden_store, golden_rows):
    case = "crash-torn-properties"
    written = _written(case)

    with _open(golden_store(case)) as store:
        messages, holes = _all_reads(store)
        (loss,) = store.losses()

    assert sorted(messages) == [row["physical_offset"] for row in written[:-1]]
    assert holes == {}
    assert (loss.reason, loss.action) == ("TORN", "cut")
    assert loss.start_offset == written[-1]["physical_offset"]
