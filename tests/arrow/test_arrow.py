"""Batches in Arrow say what the messages say, one by one."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput_arrow import COLUMNS, schema_of, to_arrow
from reput_testing import SmallLog

NAMES = [column.name for column in COLUMNS]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=12)
NAME = st.sampled_from(["a", "TAGS", "KEYS", "UNIQ_KEY", "region", "é"]) | TEXT.filter(bool)


def facts_of(view):
    """What a row must say of a message, but for times."""
    return {
        "topic": view.topic,
        "queue_id": view.queue_id,
        "queue_offset": view.queue_offset,
        "physical_offset": view.physical_offset,
        "size": view.size,
        "tags": view.tags,
        "tags_code": view.tags_code,
        "keys": list(view.keys),
        "uniq_key": view.unique_key,
        "properties": sorted(view.properties.items()),
        "body": view.body,
        "body_crc": view.body_crc,
        "flag": view.flag,
        "sys_flag": view.sys_flag,
        "born_host": host(view.born_host),
        "store_host": host(view.store_host),
        "reconsume_times": view.reconsume_times,
        "prepared_transaction_offset": view.prepared_transaction_offset,
        "msg_id": view.msg_id,
    }


def host(pair):
    address, port = pair
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def time_of(ms, unit):
    return pa.scalar(ms * {"ms": 1, "us": 1_000}[unit], pa.timestamp(unit, "UTC"))


def assert_says_the_same(batch, unit="ms"):
    table = to_arrow(batch, unit=unit)
    table.validate(full=True)
    assert table.schema == schema_of(unit=unit)
    rows = table.drop_columns(["born_timestamp", "store_timestamp"]).to_pylist()
    views = [batch.message(row) for row in range(len(batch))]
    for row in rows:
        row["properties"] = sorted(row["properties"])
    assert rows == [facts_of(view) for view in views]
    for name in ("born_timestamp", "store_timestamp"):
        found = table.column(NAMES.index(name))
        assert list(found) == [time_of(getattr(view, name), unit) for view in views]


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("case", ["basic", "v6", "batch", "transaction", "delay"])
def test_stores_that_java_wrote(case, unit, golden_store):
    with reput.open(golden_store(case), "r", plugins=()) as store:
        for batch in store.scan():
            assert_says_the_same(batch, unit)


@given(st.lists(st.tuples(st.binary(max_size=40), st.dictionaries(NAME, TEXT, max_size=4))))
@pytest.mark.costly
def test_any_properties_and_bodies(messages):
    log = SmallLog(65_536)
    for body, properties in messages:
        log.append(reput.Message("T", body, properties=properties))

    for batch in log.scan():
        assert_says_the_same(batch)


@given(st.lists(st.binary(max_size=30).filter(lambda text: not text.endswith(b"\0")), min_size=1))
def test_any_bytes_for_a_property_text(texts):
    log = SmallLog(65_536)
    for text in texts:
        log.append(reput.Message("T", b"x", properties=text))

    for batch in log.scan():
        assert_says_the_same(batch)


@pytest.mark.parametrize(
    "text",
    [
        b"a\x01b\x01c\x02",  # a value that holds the separator
        b"a\x01b\x02a\x01c\x02",  # one name twice
        b"a\x01b",  # the last end is missing
        b"\x01b\x02",  # no name
        b"a\x01\x02",  # no value
        b"a\x02b\x01c\x02",
        b"KEYS\x01 k1   k2 \x02",
        b"KEYS\x01  \x02",
        b"TAGS\x01\xff\xfe\x02",  # not UTF-8
        b"\xff\x01a\x02\xfe\x01b\x02",  # two names that both read as U+FFFD
        "KEYS\x01k1\u00a0k2\x02".encode(),  # a space that is not ASCII's
        b"TAGS\x01a\x02KEYS\x01k\x02TAGS\x01b\x02",
    ],
)
def test_texts_that_only_other_programs_write(text):
    log = SmallLog(65_536)
    for each in (b"a\x01b\x02", text, b""):
        log.append(reput.Message("T", b"x", properties=each))

    for batch in log.scan():
        assert_says_the_same(batch)


def test_nothing_but_a_space_parts_keys():
    log = SmallLog()
    log.append(reput.Message("T", b"x", keys=["a\tb", "x\u3000y", "\u00a0"]))
    log.append(reput.Message("T", b"x", keys="  p  q "))
    batches = log.scan()
    batch = next(batches)

    for columns in (["keys"], ["keys", "properties"]):
        found = to_arrow(batch, columns).column("keys").to_pylist()
        assert found == [["a\tb", "x\u3000y", "\u00a0"], ["p", "q"]]
    assert [list(batch.message(row).keys) for row in (0, 1)] == found


def test_a_tags_code_that_a_plugin_has_put_in_its_place_is_the_one_that_comes():
    log = SmallLog()
    log.append(reput.Message("T", b"x", tags="a"))
    batches = log.scan()
    batch = next(batches).with_columns({"tags_code": np.array([7])})

    assert to_arrow(batch, ["tags_code"]).to_pylist() == [{"tags_code": 7}]
    assert to_arrow(batch, ["tags_code", "properties"]).column("tags_code").to_pylist() == [7]


def test_columns_come_as_they_are_asked_for():
    log = SmallLog()
    log.append(reput.Message("T", b"x"))
    batches = log.scan()
    batch = next(batches)

    table = to_arrow(batch, ["body", "topic"])

    assert table.to_pylist() == [{"body": b"x", "topic": "T"}]
    assert to_arrow(batch, schema_of(["queue_id"])).to_pylist() == [{"queue_id": 0}]
    assert to_arrow(batch, []).num_rows == 1


def test_a_column_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ValueError, match=r"'bodies'.*topic"):
        schema_of(["bodies"])


def test_a_copy_outlives_the_batch(tmp_path):
    config = {"commitlog": {"file_size": 1 << 20}}
    with reput.open(tmp_path, plugins=(), config=config) as store:
        store.put_many([reput.Message("T", b"%d" % number) for number in range(20_000)])
        tables = [to_arrow(batch) for batch in store.scan()]

    bodies = [body for table in tables for body in table.column("body").to_pylist()]
    assert bodies == [b"%d" % number for number in range(20_000)]


def test_times_beyond_arrows_are_null():
    log = SmallLog()
    log.append(reput.Message("T", b"x", born_timestamp=(1 << 62) + 1))
    log.append(reput.Message("T", b"y", born_timestamp=0))
    batches = log.scan()
    batch = next(batches)

    born = to_arrow(batch, ["born_timestamp"], unit="us").column(0).to_pylist()

    assert born == [None, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]


def test_every_column_is_explained():
    assert all(column.about for column in COLUMNS)
    assert len(set(NAMES)) == len(NAMES)


def test_the_page_lists_every_column():
    page = (Path(__file__).resolve().parents[2] / "docs" / "arrow.md").read_text(encoding="utf-8")

    section = page.partition("\n## Columns\n")[2].partition("\n## ")[0]

    assert [name for name in NAMES if f"`{name}`" not in section] == []


def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    page = (Path(__file__).resolve().parents[2] / "docs" / "arrow.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    config = {"commitlog": {"file_size": 65_536}}
    with reput.open("orders-store", plugins=(), config=config) as store:
        store.put(reput.Message("orders", b"first", tags="paid", keys=["k1", "k2"]))
    names = {}

    exec(code, names)

    (row,) = names["table"].drop_columns(["store_timestamp"]).to_pylist()
    assert row == {
        "topic": "orders", "queue_id": 0, "tags": "paid", "keys": ["k1", "k2"], "body": b"first"
    }  # fmt: skip
