"""Which rows of a batch are in the log already: rows that resemble each other, and what plugins do.

Bodies are equal or empty here, as those of tombstones are: only what a message says of itself tells
rows apart.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sinkrows import QUERY, options_of, sink_of

import reput
from reput.files import Disk
from reput_spark.writer.reconciliation import rowmatching
from reput_spark.writer.reconciliation.rowmatching import found_rows
from reput_spark.writer.segments import TaskFacts, write_segment
from reput_testing.disks.failingdisk import FaultyDisk

MAP = pa.map_(pa.string(), pa.string())
BORN = 7
CONFIG = {"commitlog": {"file_size": 65_536}}


def batch_of(rows):
    """Rows ``(body, key, tags, properties, flag, born)``."""
    names = ("body", "keys", "tags", "properties", "flag", "born_timestamp")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns["properties"] = pa.array([dict(each) for each in columns["properties"]], MAP)
    columns["born_timestamp"] = pa.array(columns["born_timestamp"], pa.int64())
    for name in ("keys", "tags"):
        columns[name] = pa.array(columns[name], pa.string())
    return pa.RecordBatch.from_pydict({"topic": ["A"] * len(rows), **columns})


def message_of(row, **changed):
    body, key, tags, properties, flag, born = row
    fields = {
        "keys": key,
        "tags": tags,
        "properties": dict(properties),
        "flag": flag,
        "born_timestamp": BORN if born is None else born,
    }
    return reput.Message("A", body, **fields | changed)


def delivered(row):
    """What becomes of a delayed row at last."""
    properties = {name: text for name, text in row[3] if name != "DELAY"}
    return message_of(row, properties=properties | {"REAL_TOPIC": "A", "REAL_QID": "0"})


def found_in(root, rows, put, plugins=()):
    """Which rows are found where those messages were put."""
    with reput.open(root, plugins=plugins, config=CONFIG, threads=False) as store:
        store.put(reput.Message("before", b""))
        start = store.log.max_physical_offset
        for message in put:
            store.put(message)
        return found_rows([batch_of(rows)], BORN, store.log, store.log.encoder, start).tolist()


ROW = st.tuples(
    st.sampled_from([b"", b"", b"x"]),
    st.sampled_from([None, "k0", "k1"]),
    st.sampled_from([None, "t"]),
    st.sampled_from([(), (("DELAY", "3"),), (("DELAY", "4"),), (("n", "1"),), (("n", "2"),)]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([None, None, 8]),
)


@pytest.mark.shows("spark-rows")
@pytest.mark.proof
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    rows=st.lists(st.tuples(ROW, st.booleans(), st.booleans()), min_size=1, max_size=12),
    others=st.lists(ROW, max_size=3),
)
def test_of_equal_rows_as_many_are_found_as_there_are(rows, others, tmp_path_factory):
    """Any rows are there, any others a hole has taken; delays are over, or are not."""
    pytest.importorskip("reput_schedule")
    there = [row for row, is_there, _ in rows if is_there]
    put = [message_of(row) for row in there]
    put += [message_of(row, born_timestamp=9) for row in others]
    over = [row for row, is_there, is_over in rows if is_there and is_over]
    with_delay = [row for row in over if row[3] and row[3][0][0] == "DELAY"]
    put += map(delivered, with_delay)

    found = found_in(
        tmp_path_factory.mktemp("log"),
        [row for row, _, _ in rows],
        put,
        ("schedule", "consumequeue"),
    )

    same = [_stated(row) for row, _, _ in rows]
    counted = Counter(each for each, is_found in zip(same, found, strict=True) if is_found)
    assert counted == Counter(map(_stated, there))


def _stated(row):
    return (*row[:5], BORN if row[5] is None else row[5])


def test_a_delivery_tells_of_its_row_where_the_record_it_came_from_was_lost(tmp_path):
    delayed = (b"", "k", None, (("DELAY", "3"),), 0, None)
    direct = (b"", "k", None, (), 0, None)

    found = found_in(tmp_path, [direct, delayed, delayed], [delivered(delayed)])

    assert found == [False, True, False]


def test_a_row_that_is_itself_a_delivery_is_found(tmp_path):
    """As of a copy of a whole store, what waits in it and what came out of that."""
    ends = (("REAL_TOPIC", "A"), ("REAL_QID", "0"))
    rows = [(b"", "k", None, ends, 0, None), (b"", "k", None, (), 0, None)]

    assert found_in(tmp_path, rows, [message_of(rows[0])]) == [True, False]


def test_a_property_that_a_plugin_gives_to_each_message_is_passed_over(tmp_path):
    row = (b"", "k", None, (("n", "1"),), 0, None)

    found = found_in(tmp_path, [row], [message_of(row, properties={"n": "1", "seen-by": "audit"})])

    assert found == [True]


def test_what_others_have_put_is_not_kept(tmp_path, monkeypatch):
    kept = []
    table_of = rowmatching._KeyTable.of
    monkeypatch.setattr(
        rowmatching._KeyTable,
        "of",
        lambda tables: kept.append(sum(map(len, tables))) or table_of(tables),
    )
    row = (b"", "k", None, (), 0, None)
    others = [(b"", f"other {number}", None, (), 0, None) for number in range(200)]

    assert found_in(tmp_path, [row], map(message_of, [*others, row])) == [True]

    assert kept == [1, 1]


# --------------------------------------------------------------------------- with a sink

DELAYS = {
    "level": {"DELAY": "18"},
    "a level that there is not": {"DELAY": "99"},
    "time": {"TIMER_DELIVER_MS": str(1 << 43)},
    "time that is over": {"TIMER_DELIVER_MS": "1"},
    "level and time": {"DELAY": "17", "TIMER_DELAY_SEC": "5000"},
    "transaction": {"TRAN_MSG": "true", "UNIQ_KEY": "u", "PGROUP": "g"},
}


@pytest.mark.parametrize("asked", DELAYS.values(), ids=DELAYS)
def test_a_commit_that_did_not_end_doubles_no_row_whatever_plugins_make_of_it(tmp_path, asked):
    plugins = "schedule,consumequeue"
    pytest.importorskip("reput_schedule")
    if "TRAN_MSG" in asked:
        pytest.importorskip("reput_transaction")
        plugins += ",transaction"
    rows = [(b"", f"k{number}", None, (), 0, None) for number in range(3)]
    rows += [(b"", "k1", None, tuple(asked.items()), 0, None)] * 2 + rows[:2]
    options = options_of(tmp_path, plugins=plugins)
    segment = write_segment([batch_of(rows)], options, TaskFacts(QUERY, 0, 0, 0), Disk())
    disk = FaultyDisk(1, operations={"rename"}, below="committed.json")

    with pytest.raises(OSError, match=r"committed\.json"):
        sink_of(tmp_path, plugins=plugins, disk=disk).commit([segment], 0)
    sink_of(tmp_path, plugins=plugins).commit([segment], 0)

    # The store may have made another level of what was asked for, and left out the time beside it.
    name = next(iter(asked))
    found = [(each.properties["KEYS"], name in each.properties) for each in records_in(tmp_path)]
    assert Counter(found) == Counter((row[1], row[3] != ()) for row in rows)


def records_in(root):
    with reput.open(root, "r", plugins=()) as store:
        return [batch.message(row) for batch in store.scan() for row in range(len(batch))]
