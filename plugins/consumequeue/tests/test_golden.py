"""Queues that RocketMQ 4.8 wrote: read as it read them, and built again to the same bytes."""

from __future__ import annotations

import bisect
import shutil

import numpy as np
import pytest

import reput
from reput_consumequeue.layout import UNIT_DTYPE, UNIT_SIZE
from reput_testing import snapshot

PLAIN = ["demo", "basic", "slow", "v6", "batch", "transaction"]
CASES = [*PLAIN, "trimmed", "delay", "ext"]
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def _open(root, mode="r", **options):
    return reput.open(root, mode, plugins={"consumequeue"}, **options)


def _units(store, row):
    plugin = store.plugin_objects["consumequeue"]
    queue = plugin.queues.get((row["topic"], row["queue_id"]))
    found = []
    if queue is not None:
        place = queue.min_offset
        while place < queue.max_offset:
            units = queue.files.read(place, queue.max_offset - place)
            found += [list(map(int, unit)) for unit in units.tolist()]
            place += len(units)
    return found


@pytest.mark.parametrize("mode", ["r", "w"])
@pytest.mark.parametrize("case", CASES)
def test_every_queue_has_the_extent_and_the_units_that_java_reads(
    case, mode, golden_store, golden_rows
):
    rows = golden_rows(case, "queue")

    with _open(golden_store(case), mode) as store:
        queues = {(info.topic, info.queue_id): info for info in store.queues()}
        for row in rows:
            info = queues.get((row["topic"], row["queue_id"]))
            extent = (0, 0) if info is None else (info.min_queue_offset, info.max_queue_offset)
            assert extent == (row["min_offset"], row["max_offset"]), row["topic"]
            assert _units(store, row) == row["units"]
        assert {(row["topic"], row["queue_id"]) for row in rows if row["max_offset"]} >= set(queues)


@pytest.mark.parametrize("case", CASES)
def test_every_read_is_answered_as_java_answers_it(case, golden_store, golden_rows):
    differ = []

    with _open(golden_store(case)) as store:
        for row in golden_rows(case, "get"):
            answer = store.read(row["topic"], row["queue_id"], row["offset"], row["max_count"])
            found = {
                "status": answer.status.name,
                "next_begin_offset": answer.next_queue_offset,
                "min_offset": answer.min_queue_offset,
                "max_offset": answer.max_queue_offset,
                "physical_offsets": [message.physical_offset for message in answer],
            }
            expected = {name: row[name] for name in found}
            if found != expected:
                differ.append((row, found))

    # 5.3.3 answers an offset far beyond the end with the end; 4.8 said 0 where the queue begins at
    # 0.
    changed = [
        row
        for row in golden_rows(case, "get")
        if row["status"] == "OFFSET_OVERFLOW_BADLY" and row["min_offset"] == 0
    ]
    assert [row for row, _ in differ] == changed
    for row, found in differ:
        assert found == {**_found(row), "next_begin_offset": row["max_offset"]}


def _found(row):
    names = ("status", "next_begin_offset", "min_offset", "max_offset", "physical_offsets")
    return {name: row[name] for name in names}


def _files(root):
    return snapshot(root, [root / "consumequeue"])


@pytest.mark.shows("rebuilt")
@pytest.mark.parametrize(
    ("case", "window_size"),
    # With small windows the large store takes long, and shows what the small ones show.
    [(case, size) for case in PLAIN for size in (4096, 1 << 20) if (case, size) != ("demo", 4096)],
)
def test_queues_built_again_from_the_log_are_javas_files_byte_for_byte(
    case, window_size, golden_store, monkeypatch
):
    monkeypatch.setattr(reput.CommitLogConfig, "window_size", window_size)
    root = golden_store(case)
    javas = _files(root)
    units = len(next(iter(javas.values()))) // UNIT_SIZE
    shutil.rmtree(root / "consumequeue")

    config = {"consumequeue": {"units_per_file": units}}
    with _open(root, "w", config=config) as store:
        assert store.wait_dispatched(60)

    assert _files(root) == javas


def test_delayed_messages_differ_in_their_tags_code_only(golden_store):
    # The deliver time in the units of the schedule topic is the schedule plugin's to compute.
    root = golden_store("delay")
    javas = _files(root)
    shutil.rmtree(root / "consumequeue")

    with _open(root, "w", config={"consumequeue": {"units_per_file": 100}}) as store:
        assert store.wait_dispatched(60)

    ours = _files(root)
    assert ours.keys() == javas.keys()
    for name, expected in javas.items():
        found, wanted = (np.frombuffer(data, UNIT_DTYPE) for data in (ours[name], expected))
        assert (found["physical_offset"] == wanted["physical_offset"]).all()
        assert (found["size"] == wanted["size"]).all()
        if SCHEDULE not in name:
            assert ours[name] == expected


def test_a_log_without_its_head_gives_queues_that_begin_pre_blank(golden_store):
    """Trimmed: what a rebuild can know are the units of records that are still there.

    Everything below is pre-blank, as RocketMQ writes it when the first message it sees is not
    message 0; from the queue's minimum on the bytes are the old files'.
    """
    root = golden_store("trimmed")
    javas = _files(root)
    with _open(root) as store:
        minima = {(q.topic, q.queue_id): q.min_queue_offset for q in store.queues()}
    shutil.rmtree(root / "consumequeue")
    with _open(root, "w", config={"consumequeue": {"units_per_file": 100}}) as store:
        assert store.wait_dispatched(60)
    ours = _files(root)

    blank = b"\0" * 8 + b"\x7f\xff\xff\xff" + b"\0" * 8
    for name, data in ours.items():
        _, topic, queue_id, file = name.split("/")
        first = int(file) // UNIT_SIZE
        for unit in range(100):
            found = data[unit * UNIT_SIZE : (unit + 1) * UNIT_SIZE]
            if first + unit < minima[topic, int(queue_id)]:
                assert found == blank
            else:
                assert found == javas[name][unit * UNIT_SIZE : (unit + 1) * UNIT_SIZE]


@pytest.mark.parametrize("case", ["slow", "trimmed", "basic"])
@pytest.mark.costly
def test_offsets_by_time_follow_the_rule_of_the_newest_release(case, golden_store, golden_rows):
    """LOWER: first message at the time or later; UPPER: last at the time or earlier, clamped.

    The ``by_time`` rows are 4.8's, which took the nearer neighbour in a file chosen by its
    modification time; they serve as times to ask for, and where a message of exactly that time is
    the only one, both rules agree.
    """
    agreed = 0
    with _open(golden_store(case)) as store:
        times = {}
        for row in golden_rows(case, "queue"):
            times[row["topic"], row["queue_id"]] = [
                store.log.store_timestamp_at(offset) for offset, _, _ in row["units"]
            ]
        for row in golden_rows(case, "by_time"):
            key, asked = (row["topic"], row["queue_id"]), row["timestamp"]
            info = next((q for q in store.queues() if (q.topic, q.queue_id) == key), None)
            low, high = (info.min_queue_offset, info.max_queue_offset) if info else (0, 0)
            known = times[key]

            lower = store.offset_by_time(*key, asked)
            upper = store.offset_by_time(*key, asked, "upper")

            assert lower == low + bisect.bisect_left(known, asked)
            if known and known[0] <= asked:
                assert upper == low + bisect.bisect_right(known, asked) - 1
            else:
                assert upper in (
                    0,
                    low,
                )  # no file begins early enough: 0, as the newest release says
            assert low <= lower <= high
            if case == "slow" and known.count(asked) == 1:
                assert lower == upper == row["offset"]
                agreed += 1
    assert agreed or case != "slow"
