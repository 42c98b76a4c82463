"""Stamps: a property by which each row is known."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sinkrows import QUERY, bodies_of, expected, options_of, rows_of, segments_of, sink_of

import reput
from reput.files import Disk
from reput.record import Columns
from reput_arrow import columns_of
from reput_spark import SparkReputError
from reput_spark.writer.reconciliation.stamps import (
    STAMP,
    prefix_of,
    stamp_size,
    stamped,
    stamped_rows,
)
from reput_spark.writer.segments import TaskFacts, write_segment
from reput_testing.disks.failingdisk import FaultyDisk

CONFIG = {"commitlog": {"file_size": 65_536}}
MAP = pa.map_(pa.string(), pa.string())


def stamps_of(root):
    with reput.open(root, "r", plugins=()) as store:
        return [
            message.properties.get(STAMP)
            for batch in store.scan()
            for message in map(batch.message, range(len(batch)))
        ]


def test_rows_of_a_batch_are_numbered_in_the_order_in_which_they_are_put(tmp_path):
    for batch_id in (0, 1):
        segments = segments_of(tmp_path, batch_id, stamp="true")
        sink_of(tmp_path, stamp="true").commit(segments, batch_id)

    assert bodies_of(tmp_path) == expected(0, 1)
    assert stamps_of(tmp_path) == [f"{QUERY}:{batch}:{row}" for batch in (0, 1) for row in range(8)]


def test_without_the_option_no_row_has_a_stamp(tmp_path):
    sink_of(tmp_path).commit(segments_of(tmp_path, 0), 0)

    assert stamps_of(tmp_path) == [None] * 8


PROPERTIES = st.dictionaries(
    st.text("ab_", min_size=1, max_size=3) | st.sampled_from([STAMP, f"my_{STAMP}"]),
    st.text("xy:0", min_size=1, max_size=4),
    max_size=3,
)


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(PROPERTIES, min_size=1, max_size=6),
    first=st.integers(0, 1 << 40),
    taken=st.data(),
)
def test_a_stamp_is_one_property_more_and_finds_its_row(tmp_path_factory, rows, first, taken):
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["T"] * len(rows),
            "body": [b""] * len(rows),
            "properties": pa.array([list(each.items()) for each in rows], MAP),
        }
    )
    prefix = prefix_of("q", 7)

    messages = stamped(columns_of(batch), prefix, first).to_messages()

    there = taken.draw(st.sets(st.integers(0, len(rows) - 1)))
    with reput.open(tmp_path_factory.mktemp("log"), plugins=(), config=CONFIG) as store:
        store.put(reput.Message("before", b""))
        start = store.log.max_physical_offset
        for row in sorted(there):
            store.put(messages[row])
        store.put(reput.Message("T", b"", properties={STAMP: f"q:71:{first}"}))
        store.put(reput.Message("T", b"", properties={STAMP: f"{prefix}x"}))
        found = stamped_rows(store.log, start, prefix, first, len(rows))
        views = [batch.message(row) for batch in store.scan(start) for row in range(len(batch))]
    assert set(found.nonzero()[0].tolist()) == there
    for row, view in zip(sorted(there), views, strict=False):
        own = {name: text for name, text in rows[row].items() if name != STAMP}
        assert dict(view.properties) == own | {STAMP: f"{prefix}{first + row}"}


def test_rows_without_properties_get_one():
    columns = stamped(Columns(topic="T", body=[b"", b""]), "q:0:", 5)

    assert [each.properties for each in columns.to_messages()] == [
        b"reput_stamp\x01q:0:5\x02",
        b"reput_stamp\x01q:0:6\x02",
    ]


@pytest.mark.parametrize("fault", range(1, 120, 7))
def test_a_disk_that_fails_anywhere_loses_no_row_and_puts_none_twice(tmp_path, fault):
    sink_of(tmp_path, stamp="true").commit(segments_of(tmp_path, 0, stamp="true"), 0)
    segments = segments_of(tmp_path, 1, stamp="true")
    try:
        sink_of(tmp_path, stamp="true", disk=FaultyDisk(fault)).commit(segments, 1)
    except (OSError, reput.ReputError):
        sink_of(tmp_path, stamp="true").abort(segments, 1)

    # The batch comes again, and its commit goes on as it began, whatever is asked for by now.
    sink_of(tmp_path).commit(segments_of(tmp_path, 1, (8,), attempt=8), 1)

    assert sorted(bodies_of(tmp_path)) in (
        sorted(expected(0, 1)),
        sorted([*expected(0), *expected(1, counts=(8,))]),
    )


def test_a_plugin_that_changes_rows_hides_none_that_has_a_stamp(tmp_path):
    segments = segments_of(tmp_path, 0, stamp="true")
    disk = FaultyDisk(1, operations={"rename"}, below="committed.json")
    with pytest.raises(OSError, match=r"committed\.json"):
        sink_of(tmp_path, disk=disk, stamp="true").commit(segments, 0)
    with reput.open(tmp_path, "r", plugins=()) as store:
        put = [m for batch in store.scan() for m in map(batch.message, range(len(batch)))]
    changed = tmp_path / "changed"
    with reput.open(changed, plugins=(), config={"commitlog": {"file_size": 4_096}}) as store:
        for each in put[:5]:
            properties = {STAMP: each.properties[STAMP], "masked": "yes"}
            store.put(reput.Message("other", b"changed", properties=properties))
    (tmp_path / "reput" / "spark").rename(changed / "reput" / "spark")

    sink_of(changed, stamp="true").commit(segments_of(changed, 0, attempt=8, stamp="true"), 0)

    assert bodies_of(changed) == ["changed"] * 5 + expected(0)[5:]


@pytest.mark.parametrize(("size", "fits"), [(32_767 - 100, True), (32_767 - 10, False)])
def test_a_row_has_room_for_its_stamp_or_is_refused_by_its_task(tmp_path, size, fits):
    text = "x" * (size - len("n") - 2)
    rows = rows_of(0, 0, 1).append_column("properties", pa.array([[("n", text)]], MAP))
    rows = rows.drop_columns(["keys"])
    options = options_of(tmp_path, stamp="true", file_size=str(1 << 20))
    facts = TaskFacts("q", 0, 0, 0)

    if not fits:
        with pytest.raises(SparkReputError, match=r"\[REPUT_ROW\].*with its stamp"):
            write_segment([rows], options, facts, Disk())
        return
    segment = write_segment([rows], options, facts, Disk())
    sink_of(tmp_path, stamp="true", file_size=str(1 << 20)).commit([segment], 0)
    assert stamps_of(tmp_path) == ["q:0:0"]
    assert len(f"{STAMP}=q:0:0;") <= stamp_size("q")
