"""JSON lines and CSV say what the messages say; directories are by what was asked for."""

from __future__ import annotations

import base64
import csv
import gzip
import json

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sparkstores import fill, messages_of

import reput
from reput_arrow import scan
from reput_arrow.codederrors import CodedError
from reput_arrow.export.exporter.exportjob import export
from reput_arrow.export.exporter.jsontexts import json_lines
from reput_tools.offline import LocalEngine

TEXT = st.text(max_size=8)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "number": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
            "text": st.none() | TEXT,
            "words": st.lists(TEXT, max_size=3),
            "map": st.dictionaries(TEXT, TEXT, max_size=3),
            'name "quoted"\n': st.none() | st.integers(0, 9),
        }
    ),
    max_size=6,
)
SCHEMA = pa.schema(
    {
        "number": pa.int64(),
        "text": pa.string(),
        "words": pa.list_(pa.field("element", pa.string(), nullable=False)),
        "map": pa.map_(pa.string(), pa.string()),
        'name "quoted"\n': pa.int32(),
    }
)


@given(rows=ROWS, first=st.integers(0, 3))
def test_json_by_columns_is_what_json_by_rows_is(rows, first):
    given_rows = [{**row, "map": list(row["map"].items())} for row in rows]
    batch = pa.RecordBatch.from_pylist(given_rows, SCHEMA).slice(first)

    lines = json_lines(batch).decode().split("\n")

    assert [json.loads(line) for line in lines[:-1]] == rows[first:]
    assert lines[-1] == ""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("forms") / "store"
    fill(root, 100)
    with reput.open(root, plugins=()) as opened:
        opened.put(reput.Message("strange", b"\xff\xfe binary", properties={"a": 'x"\n,\x1f'}))
        opened.put(reput.Message("strange", 'a "quoted",\r\nbody\x07 é'.encode(), keys=["k", "l"]))
    return root


def files_of(target, pattern):
    return sorted(path for path in target.rglob(pattern) if not path.name.startswith("_"))


def body_of(row):
    text = row["body"]
    return base64.b64decode(text) if row["body_encoding"] == "base64" else text.encode()


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_json_lines_hold_every_field_of_every_message(store, tmp_path, compression):
    done = export(
        str(store),
        tmp_path / "out",
        LocalEngine(1),
        form="jsonl",
        partition_by=(),
        compression=compression,
    )

    (path,) = files_of(tmp_path / "out", "*.jsonl*")
    text = path.read_bytes()
    text = gzip.decompress(text) if compression == "gzip" else text
    rows = [json.loads(line) for line in text.splitlines()]
    messages = messages_of(store)
    assert done.message_count == len(rows) == len(messages) == 102
    for row, message in zip(rows, messages, strict=True):
        assert body_of(row) == message.body
        assert row["properties"] == message.properties
        assert row["keys"] == list(message.keys)
        assert row["tags"] == message.tags
        assert row["store_timestamp"] == message.store_timestamp
        assert (row["topic"], row["physical_offset"]) == (message.topic, message.physical_offset)


def test_csv_has_words_and_properties_as_text(store, tmp_path):
    columns = ["topic", "physical_offset", "keys", "properties", "body"]
    export(
        str(store), tmp_path / "out", LocalEngine(1), form="csv", partition_by=(), columns=columns
    )

    (path,) = files_of(tmp_path / "out", "*.csv")
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    messages = messages_of(store)
    assert list(rows[0]) == [*columns, "body_encoding"]
    for row, message in zip(rows, messages, strict=True):
        assert body_of(row) == message.body
        assert json.loads(row["properties"]) == message.properties
        assert row["keys"].split() == list(message.keys)


def test_only_what_was_asked_for_is_written(store, tmp_path):
    messages = messages_of(store)
    since = messages[40].store_timestamp
    wanted = [m for m in messages if m.topic == "topic-1" and m.queue_id != 2]
    wanted = [m for m in wanted if m.store_timestamp >= since]

    done = export(
        str(store), tmp_path / "out", LocalEngine(1), topic="topic-1", queue=[0, 1], since=since
    )

    found = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
    assert done.message_count == len(wanted) > 0
    assert sorted(found["physical_offset"].to_pylist()) == [m.physical_offset for m in wanted]


def test_a_condition_chooses_messages(store, tmp_path):
    pytest.importorskip("reput_filter")

    done = export(str(store), tmp_path / "out", LocalEngine(1), where="weight = 3")

    found = sum(m.properties.get("weight") == "3" for m in messages_of(store))
    assert done.message_count == found == 10


@pytest.mark.parametrize("parts", [("queue",), ("day", "hour"), ("topic", "queue", "day"), ()])
def test_directories_are_by_what_was_asked_for(store, tmp_path, parts):
    export(str(store), tmp_path / "out", LocalEngine(1), partition_by=parts)

    names = {"queue": "queue_id"}
    for path in files_of(tmp_path / "out", "*.parquet"):
        directories = path.relative_to(tmp_path / "out").parts[:-1]
        assert [each.partition("=")[0] for each in directories] == [
            names.get(part, part) for part in parts
        ]
    messages = messages_of(store)
    found = ds.dataset(tmp_path / "out", partitioning="hive").to_table()
    rows = {row["physical_offset"]: row for row in found.to_pylist()}
    assert len(rows) == found.num_rows == len(messages)
    assert [rows[m.physical_offset]["queue_id"] for m in messages] == [m.queue_id for m in messages]


def test_no_topic_leads_out_of_the_target(tmp_path):
    # Only a damaged or a forged log has such a topic; a put refuses it.
    source = tmp_path / "store"
    config = {"commitlog": {"file_size": 16_384}}
    with reput.open(source, plugins=(), config=config) as opened:
        opened.put(reput.Message("AAAAAAAAA", b"x"))
    (path,) = (source / "commitlog").iterdir()
    path.write_bytes(path.read_bytes().replace(b"AAAAAAAAA", b"../../out"))

    export(str(source), tmp_path / "deep" / "er" / "out", LocalEngine(1), partition_by=("topic",))

    assert sorted(each.name for each in tmp_path.iterdir()) == ["deep", "store"]
    assert scan(source).table()["topic"].to_pylist() == ["../../out"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"form": "avro"}, "parquet, jsonl, csv"),
        ({"partition_by": ("color",)}, "topic, queue, day, hour"),
        ({"partition_by": ("day", "day")}, "twice"),
        ({"columns": ("topic",), "partition_by": ("topic",)}, "no column is left"),
        ({"compression": "snappy", "form": "csv"}, "none, gzip, zstd"),
        ({"corrupt": "report"}, "fail, skip"),
        ({"since": "soon"}, "since"),
        ({"where": "a ="}, "where"),
    ],
)
def test_an_option_that_cannot_be_is_refused(store, tmp_path, options, match):
    with pytest.raises(CodedError, match=match):
        export(str(store), tmp_path / "out", LocalEngine(1), **options)

    assert list(tmp_path.iterdir()) == []
