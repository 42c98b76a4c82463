"""Queue offsets at which a read begins and ends, queue by queue, as columns and as a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput.errors import ConfigError
from reput.record.layout import HEADER_DTYPE
from reput_arrow import schema_of
from reput_arrow.logs.discovery import find_logs
from reput_arrow.reader.queuebounds import QueueBounds
from reput_arrow.reader.readtasks import plan_tasks, read_task
from reput_arrow.reader.selection import Selection

COLUMNS = ["topic", "queue_id", "queue_offset"]
OFFSETS = st.dictionaries(
    st.sampled_from(["a", "b", "gone"]),
    st.dictionaries(st.integers(0, 3), st.integers(0, 12), max_size=3),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("bounds") / "store"
    config = {"commitlog": {"file_size": 4_096}}
    with reput.open(root, plugins=(), config=config) as opened:
        for number in range(90):
            opened.put(reput.Message("abc"[number % 3], b"x" * number, queue_id=number % 4))
    return root


def rows_of(store, **options):
    selection = Selection(paths=(str(store),), **options)
    return [
        tuple(row.values())
        for task in plan_tasks(selection)
        for batch in read_task(task, selection, schema_of(COLUMNS))
        for row in batch.to_pylist()
    ]


@given(starts=OFFSETS, ends=OFFSETS)
def test_bounds_are_those_of_each_queue(store, starts, ends):
    found = rows_of(store, bounds=QueueBounds(starts, ends))

    assert found == [
        (topic, queue, offset)
        for topic, queue, offset in rows_of(store)
        if topic in {*starts, *ends}
        and starts.get(topic, {}).get(queue, 0) <= offset < ends.get(topic, {}).get(queue, 99)
    ]


def test_a_group_goes_on_where_its_store_says(store, tmp_path):
    config = store / "config"
    config.mkdir()
    table = '{"offsetTable": {"a@shop": {0: 3, 1: 99}, "b@shop": {2: 0}, "c@other": {0: 1}}}'
    (config / "consumerOffset.json").write_text(table)

    found = rows_of(store, group="shop")

    assert found == [
        row
        for row in rows_of(store)
        if row[0] in "ab" and (row[:2] != ("a", 0) or row[2] >= 3) and row[:2] != ("a", 1)
    ]
    with pytest.raises(ConfigError, match=r"'nobody'.*other, shop"):
        rows_of(store, group="nobody")
    (place,) = find_logs([str(store)])
    assert QueueBounds.of_group("other", place).starts == {"c": {0: 1}}


def test_a_store_without_offsets_of_groups_is_told(tmp_path):
    with reput.open(tmp_path, plugins=()) as opened:
        opened.put(reput.Message("a", b"x"))

    with pytest.raises(ConfigError, match=r"consumerOffset.json, nor of any other group"):
        rows_of(tmp_path, group="shop")


def test_a_negative_queue_id_of_a_damaged_header_is_in_no_other_queue(tmp_path):
    config = {"commitlog": {"file_size": 4_096}}
    with reput.open(tmp_path, plugins=(), config=config) as opened:
        places = [opened.put(reput.Message(topic, b"x")) for topic in ("a", "a", "b")]
    with open(tmp_path / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(places[1].physical_offset + HEADER_DTYPE.fields["queue_id"][1])
        file.write((-1).to_bytes(4, signed=True))

    assert rows_of(tmp_path, bounds=QueueBounds(starts={"a": {-1: 1}, "b": {0: 1}})) == [
        ("a", 0, 0),
        ("a", -1, 1),
    ]
