"""Messages from Arrow columns: what a log gives, a put takes back, and it is the same."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput.record import Encoder, pack_host, parse_properties, prepare_columns
from reput_arrow import (
    COLUMNS,
    INPUT_COLUMNS,
    check_schema,
    columns_of,
    hosts_of,
    inputcolumns,
    times_of,
)
from reput_arrow import to_arrow as arrow_of

# The way for single messages takes what looks like names of the store's own.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x02"), max_size=8).filter(
    lambda text: "INNER_" not in text and "__CRC32#" not in text
)
NAME = st.sampled_from(["a", "TAGS", "KEYS", "UNIQ_KEY", "é"]) | TEXT.filter(
    lambda name: name and "\x01" not in name
)
WORD = TEXT.filter(lambda word: word and " " not in word)
ROW = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["orders", "payments", "%RETRY%" + "x" * 130]),
        "body": st.binary(max_size=20),
        "queue_id": st.none() | st.integers(0, 3),
        "tags": st.none() | TEXT,
        "keys": st.none() | st.lists(WORD, max_size=3),
        "uniq_key": st.none() | TEXT,
        "properties": st.none() | st.dictionaries(NAME, st.none() | TEXT, max_size=4),
        "flag": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
        "sys_flag": st.none() | st.sampled_from([0, 1, 4, 8, 12]),
        "reconsume_times": st.none() | st.integers(0, 9),
        "born_timestamp": st.none() | st.integers(-(1 << 40), 1 << 50),
    }
)
KINDS = {
    "topic": pa.string(),
    "body": pa.binary(),
    "queue_id": pa.int32(),
    "tags": pa.string(),
    "keys": pa.list_(pa.string()),
    "uniq_key": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "flag": pa.int32(),
    "sys_flag": pa.int32(),
    "reconsume_times": pa.int16(),
    "born_timestamp": pa.timestamp("us", "UTC"),
}


def batch_of(rows, names=tuple(KINDS)):
    """Rows as they come from a DataFrame."""
    columns = {name: [row[name] for row in rows] for name in names}
    if "properties" in columns:
        columns["properties"] = [
            None if each is None else list(each.items()) for each in columns["properties"]
        ]
    if "born_timestamp" in columns:
        columns["born_timestamp"] = [
            None if each is None else each * 1_000 for each in columns["born_timestamp"]
        ]
    fields = [pa.array(column, KINDS[name]) for name, column in columns.items()]
    return pa.RecordBatch.from_arrays(fields, names=list(names))


def message_of(row):
    """The message that a row means, said once more and one by one."""
    properties = {
        name: value for name, value in (row["properties"] or {}).items() if value is not None
    }
    front = {}
    for name, value in [
        ("KEYS", " ".join(row["keys"] or ()) or None),
        ("TAGS", row["tags"]),
        ("UNIQ_KEY", row["uniq_key"]),
    ]:
        if name not in properties:
            front[name] = value
        elif name == "KEYS" and properties[name].split() == (value or "").split():
            pass  # the same words
        elif value is None:
            del properties[name]
        else:
            properties[name] = value
    return reput.Message(
        row["topic"],
        row["body"],
        queue_id=row["queue_id"] or 0,
        properties={**front, **properties},
        flag=row["flag"] or 0,
        sys_flag=row["sys_flag"] or 0,
        born_timestamp=row["born_timestamp"],
        reconsume_times=row["reconsume_times"] or 0,
    )


def bytes_of(prepared):
    """Records of all rows, as if each were alone at the beginning of a log."""
    zeros = np.zeros(len(prepared), np.int64)
    return prepared.encode(slice(None), zeros, zeros, 77)


@pytest.mark.costly
@given(st.lists(ROW, min_size=1, max_size=6))
def test_rows_become_the_messages_that_they_mean(rows):
    encoder = Encoder()
    expected = b"".join(encoder.encode(message_of(row), 0, 0, 77) for row in rows)

    found = prepare_columns(columns_of(batch_of(rows)), encoder)

    assert bytes_of(found) == expected


@pytest.mark.parametrize("plain", [False, True], ids=["lists of keys", "plain keys"])
@given(st.lists(ROW, min_size=3, max_size=6), st.integers(0, 2), st.integers(0, 3))
def test_a_slice_of_a_batch_is_only_its_rows(plain, rows, first, count):
    count = min(count, len(rows) - first)

    def made(rows):
        batch = batch_of(rows)
        if not plain:
            return batch
        words = [None if row["keys"] is None else " ".join(row["keys"]) for row in rows]
        column = batch.schema.get_field_index("keys")
        return batch.set_column(column, "keys", pa.array(words, pa.string()))

    columns = columns_of(made(rows).slice(first, count))

    assert len(columns) == count
    again = made(rows[first : first + count])
    assert columns.to_messages() == columns_of(again).to_messages()


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("case", ["basic", "v6", "batch", "transaction", "delay"])
def test_what_java_wrote_comes_back_the_same(case, unit, golden_store):
    with reput.open(golden_store(case), "r", plugins=()) as store:
        for batch in store.scan():
            columns = columns_of(arrow_of(batch, unit=unit))

            for row, message in enumerate(columns.to_messages()):
                view = batch.message(row)
                assert message.topic == view.topic
                assert message.body == view.body
                # Java writes empty tags, which read as none.
                properties = parse_properties(message.properties)
                assert list(properties.items()) == list(view.properties.items())
                assert message.queue_id == view.queue_id
                assert message.flag == view.flag
                assert message.sys_flag == view.sys_flag & ~0x30
                assert message.born_timestamp == view.born_timestamp
                assert message.reconsume_times == view.reconsume_times


def one(**columns):
    """A batch of one row or more."""
    given = {"topic": ["T"], "body": [b"x"], **columns}
    return pa.RecordBatch.from_pydict(given)


def test_keys_may_be_one_text():
    found = columns_of(one(keys=["k1  k2"])).to_messages()

    assert found == [
        reput.Message("T", b"x", 0, properties=b"KEYS\x01k1  k2\x02", born_timestamp=None)
    ]


def test_spaces_between_words_stay_as_they_were():
    batch = one(
        keys=pa.array([["k1", "k2"]]),
        properties=pa.array([[("KEYS", " k1   k2 ")]], pa.map_(pa.string(), pa.string())),
    )

    assert columns_of(batch).to_messages()[0].properties == b"KEYS\x01 k1   k2 \x02"


@pytest.mark.parametrize("spaces", [" ", "  "])
def test_keys_without_a_word_stay_what_they_were(spaces):
    batch = one(
        keys=pa.array([[]], pa.list_(pa.string())),
        properties=pa.array([[("KEYS", spaces)]], pa.map_(pa.string(), pa.string())),
    )

    assert columns_of(batch).to_messages()[0].properties == f"KEYS\x01{spaces}\x02".encode()


def test_a_column_decides_for_its_property():
    kind = pa.map_(pa.string(), pa.string())
    batch = one(
        topic=["T", "T"],
        body=[b"x", b"y"],
        tags=pa.array(["new", None]),
        properties=pa.array([[("a", "1"), ("TAGS", "old")]] * 2, kind),
    )

    texts = [message.properties for message in columns_of(batch).to_messages()]

    assert texts == [b"a\x011\x02TAGS\x01new\x02", b"a\x011\x02"]


def test_the_checksum_of_another_record_is_left_out():
    kind = pa.map_(pa.string(), pa.string())
    batch = one(properties=pa.array([[("a", "1"), ("__CRC32#", "0123456789")]], kind))

    assert columns_of(batch).to_messages()[0].properties == b"a\x011\x02"


@pytest.mark.parametrize(
    "body", [pa.array(["ä"]), pa.array(["ä"], pa.large_string()), pa.array(["ä".encode()])]
)
def test_a_body_may_be_text(body):
    assert columns_of(one(body=body)).to_messages()[0].body == "ä".encode()


@pytest.mark.parametrize(
    "topics", [["ab", "ab"], ["ab", "ba"], ["a", "aba"], ["aba", "b"], ["", ""], ["ä", "ä"]]
)
def test_rows_have_the_topics_of_the_batch(topics):
    batch = one(topic=["x", *topics, "yz"], body=[b""] * 4).slice(1, 2)

    assert [message.topic for message in columns_of(batch).to_messages()] == topics


def test_columns_of_other_types_of_the_same_meaning():
    batch = one(
        topic=pa.array(["T"]).dictionary_encode(),
        keys=pa.array([["k"]], pa.large_list(pa.large_string())),
        flag=pa.nulls(1),
        tags=pa.nulls(1),
        queue_id=pa.array([7], pa.uint8()),
    )

    (message,) = columns_of(batch).to_messages()

    assert (message.topic, message.properties) == ("T", b"KEYS\x01k\x02")
    assert (message.queue_id, message.flag) == (7, 0)


@pytest.mark.parametrize(
    ("column", "ms"),
    [
        (pa.array([1_234], pa.int64()), 1_234),
        (pa.array([np.datetime64(1, "s")], pa.timestamp("s")), 1_000),
        (pa.array([-1], pa.timestamp("us", "UTC")), -1),  # the ms in which it is
        (pa.array([1_999_999], pa.timestamp("ns", "Europe/Berlin")), 1),
        (pa.nulls(1), None),
    ],
)
def test_times_are_ms_whatever_their_unit(column, ms):
    batch = one(born_timestamp=column)

    assert times_of(batch, "born_timestamp").to_pylist() == [ms]
    assert columns_of(batch).to_messages()[0].born_timestamp == ms


def test_a_time_beyond_milliseconds_is_refused():
    batch = one(born_timestamp=pa.array([1 << 60], pa.timestamp("s")))

    with pytest.raises(reput.errors.MessageIllegalError, match=r"born_timestamp: row 0"):
        columns_of(batch)


def test_hosts_by_row():
    batch = one(
        topic=["T"] * 4,
        body=[b"x"] * 4,
        born_host=["10.0.0.1:80", None, "[::1]:9", "10.0.0.1:80"],
    )

    hosts, rows = hosts_of(batch, "born_host")

    assert hosts == [pack_host("10.0.0.1", 80), pack_host("::1", 9)]
    assert rows.tolist() == [0, -1, 1, 0]
    assert hosts_of(batch, "store_host") is None
    assert times_of(batch, "store_timestamp") is None


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:port", "name:80", "10.0.0.1:99999", ""])
def test_what_is_no_host_is_refused(text):
    with pytest.raises(reput.errors.MessageIllegalError):
        hosts_of(one(born_host=[text]), "born_host")


def test_no_rows_are_no_messages():
    assert len(columns_of(one().slice(0, 0))) == 0


def test_every_column_of_a_log_may_come_in():
    assert {column.name for column in COLUMNS} == {column.name for column in INPUT_COLUMNS}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"bodies": [1]},
            "column 'bodies' is not a column of a message; known columns: topic, body,",
        ),
        ({"queue_id": ["1"]}, "column 'queue_id' has type string; number expected"),
        ({"properties": [{"a": "b"}]}, "'properties' has type struct.*texts by name expected"),
        ({"born_timestamp": [dt.date(2026, 1, 1)]}, "'born_timestamp' has type date32.*time"),
        ({"keys": [[1]]}, "'keys' has type list.*words expected"),
    ],
)
def test_a_column_that_cannot_be_taken_is_named(columns, said):
    with pytest.raises(ValueError, match=said):
        columns_of(one(**columns))


def test_what_a_message_needs_must_be_there():
    with pytest.raises(ValueError, match="no column 'body'; there may be: topic, body"):
        check_schema(pa.schema({"topic": pa.string()}))
    twice = pa.schema([("topic", pa.string()), ("body", pa.binary()), ("topic", pa.string())])
    with pytest.raises(ValueError, match="'topic' occurs twice"):
        check_schema(twice)


def test_further_columns_of_the_callers_are_passed_over():
    batch = one(store=["a"])

    assert len(columns_of(batch, others=("store",))) == 1
    with pytest.raises(ValueError, match="'store'"):
        columns_of(batch)


MAP = pa.map_(pa.string(), pa.string())


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"topic": ["T", None]}, "topic: row 1: a value, not null"),
        ({"body": [b"x", None]}, "body: row 1: a value, not null"),
        ({"keys": [["a"], ["b", "c d"]]}, "keys: row 1: a space inside a key.*'c d'"),
        ({"tags": ["a", "b\x02"]}, "TAGS: row 1: the character 0x02"),
        ({"properties": pa.array([[], [("", "v")]], MAP)}, "properties: row 1: a name"),
        ({"properties": pa.array([[], [("a\x01", "v")]], MAP)}, "properties: row 1: a name"),
        ({"properties": pa.array([[], [("a", "\x02")]], MAP)}, "a: row 1: the character 0x02"),
        ({"flag": pa.array([0, (1 << 64) - 1], pa.uint64())}, "flag"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_named(columns, said):
    batch = one(**{"topic": ["T", "T"], "body": [b"x", b"y"], **columns})

    with pytest.raises(reput.errors.MessageIllegalError, match=said):
        columns_of(batch)


def test_text_that_is_not_utf8_is_refused():
    offsets = pa.py_buffer(np.array([0, 1], np.int32))
    broken = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(b"\xff"))

    for name in ("topic", "tags"):
        with pytest.raises(reput.errors.MessageIllegalError):
            columns_of(one(**{name: broken}))


def test_large_batches_of_one_topic_are_seen_and_leave_nothing_in_memory():
    inputcolumns._multiples.cache_clear()
    topics = pa.array(["x", *["orders"] * 20_000, "Orders"])

    assert inputcolumns._topics(topics[1:20_001]) == "orders"
    assert inputcolumns._topics(topics[1:]) == [*["orders"] * 20_000, "Orders"]
    assert inputcolumns._multiples.cache_info().currsize == 0
    assert inputcolumns._topics(topics[1:100]) == "orders"
    assert inputcolumns._topics(topics[:100]) == ["x", *["orders"] * 99]
    assert inputcolumns._multiples.cache_info().currsize == 2
