"""A stream into a store that is cut off anywhere, again and again: each row is there once."""

from __future__ import annotations

import itertools
import os
import random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sinkrows import FILE_SIZE, QUERY, bodies_of, options_of, rows_of, sink_of

import reput
from reput.files import Disk
from reput_spark.writer import putter
from reput_spark.writer.reconciliation.rowmatching import found_rows
from reput_spark.writer.segments import TaskFacts, write_segment
from reput_testing import PowerCuts
from reput_testing.casebudget import is_soak
from reput_testing.disks.simulateddisk import SimulatedDisk

COUNTS = (4, 3)
TWINS = 2
"""Rows of each batch that cannot be told apart."""


class Query:
    """A query over and over from where its checkpoint stands, as Spark runs it."""

    def __init__(self, root, disk, done=0, stamp="false"):
        self.root, self.disk, self.done, self.stamp = str(root), disk, done, stamp
        self.attempts = itertools.count(1)

    def batch(self):
        """Run the next batch: its tasks, its commit, and the note that it is done."""
        segments = []
        for partition, count in enumerate(COUNTS):
            facts = TaskFacts(QUERY, self.done, partition, next(self.attempts))
            twins = rows_of(self.done, partition, TWINS, twins=True)
            batches = [rows_of(self.done, partition, count), twins]
            options = options_of(self.root, stamp=self.stamp)
            segments.append(write_segment(batches, options, facts, self.disk))
        # Clocks may stand still; what others put in the meantime was born later all the same.
        now = 1_000 + self.done
        sink_of(self.root, disk=self.disk, now=lambda: now, stamp=self.stamp).commit(
            segments, self.done
        )
        self.done += 1


def all_rows(batch_count):
    return sorted(
        body.as_py().decode()
        for batch_id, (partition, count) in itertools.product(range(batch_count), enumerate(COUNTS))
        for batch in (
            rows_of(batch_id, partition, count),
            rows_of(batch_id, partition, TWINS, twins=True),
        )
        for body in batch.column("body")
    )


def put_as_another(root, disk, batch_id, rows):
    """Put what a row looks like, too; only one property tells it from the row itself."""
    with reput.open(
        root, plugins=(), disk=disk, threads=False, config={"commitlog": {"file_size": FILE_SIZE}}
    ) as store:
        for partition, number in rows:
            row = rows_of(batch_id, partition, 4)
            message = {name: row.column(name)[number].as_py() for name in row.schema.names}
            store.put(reput.Message(**message, properties={"by": "other"}))
            twin = rows_of(batch_id, partition, 1, twins=True).column("body")[0].as_py()
            store.put(reput.Message("payments", twin, properties={"by": "other"}))


def directory_in(disk):
    return os.path.join(disk.directory, "store")


# --------------------------------------------------------------------------- one crash


@pytest.mark.shows("spark-rows")
@pytest.mark.proof
@pytest.mark.parametrize("stamp", ["false", "true"])
def test_wherever_the_power_goes_each_row_is_there_once_in_the_end(tmp_path, stamp):
    cuts = PowerCuts(tmp_path, most=12, random_count=2, tries=25)
    disk = cuts.disk()
    query = Query(directory_in(disk), disk, stamp=stamp)
    disk.note = lambda: query.done
    for _ in range(2):
        query.batch()
    disk.points.append(disk.now("the end"))

    def check(state, directory):
        again = Query(directory / "store", Disk(), done=state.point.note, stamp=stamp)
        while again.done < 3:
            again.batch()
        assert sorted(bodies_of(again.root)) == all_rows(3)

    cuts.try_all(disk.points, check)

    cuts.check_tried(at_least=20)


def test_a_commit_that_ended_in_front_of_its_end_is_finished_in_the_order_it_had(tmp_path):
    disk = SimulatedDisk(tmp_path)
    query = Query(directory_in(disk), disk)
    query.batch()
    query.batch()
    whole = bodies_of(query.root)
    points = [each for each in disk.points if each.operation.endswith("committed.json.new")]

    point = points[-1]
    later = SimulatedDisk.after_kill(point, tmp_path / "later")
    again = Query(directory_in(later), later, done=1)
    again.batch()

    assert bodies_of(again.root) == whole


# --------------------------------------------------------------------------- any sequence of them


@pytest.mark.shows("spark-rows")
@pytest.mark.proof
@settings(
    max_examples=120 if is_soak() else 10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    crashes=st.lists(
        st.tuples(
            st.floats(0, 1),  # where in the life of the process
            st.integers(0, 1 << 16),  # what of it is left
            st.booleans(),  # whether the machine lost power, or only the process died
            st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=2),
        ),
        min_size=1,
        max_size=4,
    ),
    stamp=st.sampled_from(["false", "true"]),
    step=st.sampled_from([1, 1 << 28]),
)
def test_any_sequence_of_crashes_leaves_each_row_once(crashes, stamp, step, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(putter, "_STEP_SIZE", step)
        _after_crashes(crashes, stamp, tmp_path_factory.mktemp("crashes"))


def _after_crashes(crashes, stamp, tmp_path):
    disk = SimulatedDisk(_made(tmp_path / "0"))
    done, others = 0, 0
    for number, (where, seed, is_power_cut, rows) in enumerate(crashes):
        query = Query(directory_in(disk), disk, done, stamp)
        disk.points.clear()
        disk.note = lambda query=query: query.done
        query.batch()
        query.batch()
        point = disk.points[int(where * (len(disk.points) - 1))]
        done = point.note
        directory = tmp_path / f"{number + 1}"
        if is_power_cut:
            states = list(itertools.islice(point.states(most=8, random_count=2), 64))
            random.Random(seed).choice(states).materialize(directory)
            disk = SimulatedDisk(directory)
        else:
            disk = SimulatedDisk.after_kill(point, directory)
        if rows:
            put_as_another(directory_in(disk), disk, done, rows)
            others += 2 * len(rows)

    query = Query(directory_in(disk), disk, done, stamp)
    while query.done < done + 2:
        query.batch()

    assert sorted(bodies_of(query.root)) == all_rows(query.done)
    assert len(bodies_of(query.root, of_others=True)) <= others


def _made(directory):
    directory.mkdir()
    return directory


# --------------------------------------------------------------------------- what is compared


def in_log(root, rows, born, put):
    """Which of ``rows`` are found in a log in which ``put`` were put."""
    with reput.open(root, plugins=(), config={"commitlog": {"file_size": 65_536}}) as store:
        store.put(reput.Message("before", b""))
        start = store.log.max_physical_offset
        for message in put:
            store.put(message)
        return found_rows([rows], born, store.log, store.log.encoder, start).tolist()


def message(topic, body, queue_id=0, born=7, **fields):
    return reput.Message(topic, body, queue_id=queue_id, born_timestamp=born, **fields)


ROWS = pa.RecordBatch.from_pydict(
    {"topic": ["A", "A", "B", "A", "A"], "body": [b"1", b"2", b"1", b"1", b"1"]}
)


@pytest.mark.parametrize(
    ("put", "found"),
    [
        ([], [False] * 5),
        ([("A", b"1")], [True, False, False, False, False]),
        ([("A", b"2"), ("A", b"1"), ("A", b"1")], [True, True, False, True, False]),
        ([("B", b"1"), ("C", b"1"), ("A", b"3")], [False, False, True, False, False]),
        ([("A", b"1", 1), ("A", b"2", 0, 8)], [False] * 5),
    ],
)
def test_rows_are_found_by_topic_queue_body_and_birth(tmp_path, put, found):
    assert in_log(tmp_path, ROWS, 7, [message(*each) for each in put]) == found


def test_what_stands_aside_is_found_and_its_delivery_is_no_row_of_its_own(tmp_path):
    parked = message("SCHEDULE", b"1", 3, properties={"REAL_TOPIC": "A", "REAL_QID": "0"})
    delivered = message("A", b"1", 0, properties={"REAL_TOPIC": "A", "REAL_QID": "0"})

    found = in_log(tmp_path, ROWS, 7, [parked, delivered])

    assert found == [True, False, False, False, False]


def test_rows_of_a_rare_kind_are_found_as_well(tmp_path):
    rows = ROWS.append_column(
        "properties", pa.array([{"INNER_MULTI_DISPATCH": "%LMQ%a"}] * 5, _MAP)
    )
    options = options_of(tmp_path / "store")
    segment = write_segment([rows], options, TaskFacts(QUERY, 0, 0, 0), Disk())
    sink_of(tmp_path / "store").commit([segment], 0)

    with reput.open(tmp_path / "store") as store:
        log = store.log
        found = found_rows([rows], 1_700_000_000_000, log, log.encoder, log.min_physical_offset)

    assert found.tolist() == [True] * 5


_MAP = pa.map_(pa.string(), pa.string())


def test_rows_that_a_plugin_put_aside_are_not_put_again(tmp_path):
    pytest.importorskip("reput_schedule")
    rows = ROWS.append_column("properties", pa.array([{"DELAY": "3"}] * 5, _MAP))
    disk = SimulatedDisk(_made(tmp_path / "disk"))
    root = directory_in(disk)
    segment = write_segment(
        [rows], options_of(root, plugins="schedule,consumequeue"), TaskFacts(QUERY, 0, 0, 0), disk
    )
    sink_of(root, disk=disk, plugins="schedule,consumequeue").commit([segment], 0)
    points = [each for each in disk.points if each.operation.endswith("committed.json.new")]

    later = SimulatedDisk.after_kill(points[0], tmp_path / "later")
    sink_of(directory_in(later), disk=later).commit([segment], 0)

    assert sorted(bodies_of(directory_in(later))) == ["1", "1", "1", "1", "2"]
