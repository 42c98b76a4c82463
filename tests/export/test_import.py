"""What was exported comes back: the same messages in the same order, from every form."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import cli_runner
from hypothesis import given
from hypothesis import strategies as st
from sparkstores import fill, messages_of
from writtenstores import table_of

import reput
from reput_arrow.codederrors import CodedError
from reput_arrow.export.exporter.exportjob import export
from reput_arrow.export.importer import inputrows as rows
from reput_arrow.export.importer import merge
from reput_arrow.export.importer.importjob import import_
from reput_arrow.export.importer.inputfiles import Source
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as command
from reput_tools.offline import LocalEngine

# Where records begin is the new log's own; Java writes empty tags, which read as none.
OWN = {"physical_offset", "size", "msg_id"}
FORMS = ["parquet", "jsonl", "csv"]
FILE_SIZE = 1 << 16


def assert_same(after, before, but=()):
    assert after.num_rows == before.num_rows > 0
    for name in set(before.column_names) - OWN - set(but):
        assert after[name].to_pylist() == before[name].to_pylist(), name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", ["basic", "v6", "transaction"])
def test_what_java_wrote_comes_back(case, form, golden_store, tmp_path):
    root = golden_store(case)
    export(str(root), tmp_path / "out", LocalEngine(1), form=form)

    done = import_(tmp_path / "out", tmp_path / "store", dispatch=False, file_size=FILE_SIZE)

    before, after = table_of(root), table_of(tmp_path / "store")
    assert done.record_count == before.num_rows
    assert_same(after, before)


@pytest.mark.parametrize("form", FORMS)
def test_increments_of_several_stores_come_back_one_store_after_another(
    form, tmp_path, monkeypatch
):
    monkeypatch.setattr(rows, "BATCH_ROWS", 7)
    stores, out = tmp_path / "stores", tmp_path / "out"
    fill(stores / "a", 60)
    export(str(stores), out, LocalEngine(1), form=form, incremental=True)
    fill(stores / "b", 50)
    fill(stores / "a", 30, first=60)
    export(str(stores), out, LocalEngine(1), form=form, incremental=True)

    import_(out, tmp_path / "store", dispatch=False, file_size=FILE_SIZE)

    names = ["topic", "queue_id", "body", "properties", "store_timestamp"]
    found = table_of(tmp_path / "store", names).to_pylist()
    each = [table_of(stores / name, names).to_pylist() for name in ("a", "b")]
    assert found in (each[0] + each[1], each[1] + each[0])


def test_the_new_store_has_queues(tmp_path):
    pytest.importorskip("reput_consumequeue")
    fill(tmp_path / "old")
    export(str(tmp_path / "old"), tmp_path / "out", LocalEngine(1))

    import_(tmp_path / "out", tmp_path / "store")

    messages = [m for m in messages_of(tmp_path / "old") if (m.topic, m.queue_id) == ("topic-1", 1)]
    with reput.open(tmp_path / "store") as store:
        found = store.read("topic-1", 1, 0, max_count=100)
        assert [message.body for message in found] == [message.body for message in messages]


@pytest.mark.parametrize("dispatch", [True, False])
def test_the_new_store_has_the_sizes_of_one_that_is_opened(dispatch, tmp_path):
    pytest.importorskip("reput_consumequeue")
    fill(tmp_path / "old")
    export(str(tmp_path / "old"), tmp_path / "out", LocalEngine(1))
    reput.open(tmp_path / "opened").close()

    import_(tmp_path / "out", tmp_path / "store", dispatch=dispatch)

    sizes = [path.stat().st_size for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert sum(sizes) < 4 << 20
    before = table_of(tmp_path / "old", ["body"])
    assert table_of(tmp_path / "store", ["body"]) == before
    with reput.open(tmp_path / "opened") as opened, reput.open(tmp_path / "store") as store:
        assert (store.config.grows, store.config.file_size) == (True, opened.config.file_size)
        store.put_many([reput.Message("more", b"x" * 100_000) for _ in range(5)])
        store.wait_dispatched()
    assert table_of(tmp_path / "store", ["body"]).num_rows == before.num_rows + 5


# --------------------------------------------------------------------------- order


@given(data=st.data())
def test_files_are_merged_by_their_offsets(data):
    offsets = sorted(data.draw(st.sets(st.integers(0, 300), max_size=60)))
    files = {}
    for offset in offsets:
        files.setdefault(data.draw(st.integers(0, 4)), []).append(offset)
    size = data.draw(st.integers(1, 5))
    sources = [
        Source(None, str(number), 100, "", {}, "", data.draw(st.integers(0, numbers[0])))
        for number, numbers in files.items()
    ]
    sources.sort(key=lambda source: source.first_offset)
    told = []

    def few(source):
        numbers = files[int(source.path)]
        for first in range(0, len(numbers), size):
            part = numbers[first : first + size]
            yield pa.table({"physical_offset": part}), 100 * (first + len(part)) // len(numbers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "rows_of", few)
        tables = list(merge.merged(sources, told.append))

    found = [offset for table in tables for offset in table["physical_offset"].to_pylist()]
    assert found == offsets
    assert told == sorted(told)
    assert not told or told[-1] == 100 * len(files)


def test_files_that_are_not_in_order_are_told(tmp_path):
    rows = {"topic": ["T", "T"], "body": [b"a", b"b"], "physical_offset": [9, 4]}
    pq.write_table(pa.table(rows), tmp_path / "x.parquet")

    with pytest.raises(CodedError, match="not in the order"):
        import_(tmp_path / "x.parquet", tmp_path / "store")

    assert not (tmp_path / "store").exists()


# --------------------------------------------------------------------------- of other writers


def bodies_in(root):
    return table_of(root, ["topic", "body"]).to_pylist()


def test_rows_of_others_come_as_they_stand(tmp_path):
    (tmp_path / "out").mkdir()
    lines = [{"topic": "T", "body": "é"}, {"topic": "U", "body": "AP8=", "body_encoding": "base64"}]
    (tmp_path / "out" / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    (tmp_path / "out" / "b.csv").write_text('body,topic\n"two\nlines",T\n')
    table = pa.table({"topic": pa.array(["007"], pa.large_string()), "body": ["x"]})
    pq.write_table(table, tmp_path / "out" / "c.parquet")
    (tmp_path / "out" / "_SUCCESS").write_text("")
    (tmp_path / "out" / "notes.txt").write_text("no rows")

    import_(tmp_path / "out", tmp_path / "store", dispatch=False, file_size=FILE_SIZE)

    assert bodies_in(tmp_path / "store") == [
        {"topic": "T", "body": "é".encode()},
        {"topic": "U", "body": b"\0\xff"},
        {"topic": "T", "body": b"two\nlines"},
        {"topic": "007", "body": b"x"},
    ]


def test_what_cat_prints_can_be_imported(tmp_path):
    pytest.importorskip("reput_consumequeue")
    config = {"commitlog": {"file_size": FILE_SIZE}}
    with reput.open(tmp_path / "old", config=config) as store:
        for number in range(5):
            store.put(reput.Message("T", b"%d" % number, keys=["k"], properties={"a": "b"}))
    printed = cli_runner().invoke(command, ["cat", str(tmp_path / "old"), "T", "--json"])
    (tmp_path / "cat.jsonl").write_bytes(printed.stdout_bytes)

    import_(tmp_path / "cat.jsonl", tmp_path / "store", dispatch=False, file_size=FILE_SIZE)

    assert_same(table_of(tmp_path / "store"), table_of(tmp_path / "old"))


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("x.jsonl", '{"topic": "T", "body": "x"}\n{"topic": ', "line 2: not valid JSON"),
        ("x.jsonl", "[1]\n", "no object"),
        (
            "x.jsonl",
            '{"topic": "T", "body": "x", "color": 1}\n',
            "'color' is not a column of a message",
        ),
        ("x.jsonl", '{"topic": "T", "body": 7}\n', "body is not text"),
        ("x.jsonl", '{"topic": "T", "body": "x", "body_encoding": "rot13"}\n', "rot13"),
        ("x.jsonl", '{"topic": "T", "body": "%", "body_encoding": "base64"}\n', "line 1: body"),
        ("x.jsonl", '{"topic": "T", "body": "x", "queue_id": "one"}\n', "queue_id"),
        ("x.jsonl", '{"body": "x"}\n', "topic"),
        ("x.csv", "topic,body\nT\n", "x.csv"),
        ("x.csv", 'topic,body,properties\nT,x,"[1]"\n', "JSON object"),
        ("x.csv", "topic,body,queue_id\nT,x,one\n", "x.csv"),
        ("x.parquet", "PAR1 but no more", "x.parquet"),
        ("topic=T/queue_id=one/x.jsonl", '{"body": "x"}\n', "no number"),
    ],
)
def test_what_is_no_message_is_told_and_leaves_no_store(tmp_path, name, text, match):
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)

    with pytest.raises(CodedError, match=match):
        import_(tmp_path / "out", tmp_path / "store")

    assert not (tmp_path / "store").exists()


def test_a_store_is_not_imported_over(tmp_path):
    fill(tmp_path / "store", 3)
    (tmp_path / "x.jsonl").write_text('{"topic": "T", "body": "x"}\n')

    with pytest.raises(CodedError, match="never overwritten"):
        import_(tmp_path / "x.jsonl", tmp_path / "store")

    assert len(messages_of(tmp_path / "store")) == 3


def test_the_command_says_what_it_did_and_what_is_missing(tmp_path):
    fill(tmp_path / "old", 20)
    out, store = str(tmp_path / "out"), str(tmp_path / "store")
    export(str(tmp_path / "old"), out, LocalEngine(1))

    done = cli_runner().invoke(command, ["import", out, store, "--json"])
    again = cli_runner().invoke(command, ["import", out, store])
    nothing = cli_runner().invoke(command, ["import", f"{out}-not", f"{store}-other"])

    assert json.loads(done.stdout)["record_count"] == 20
    assert again.exit_code == ExitCode.UNAVAILABLE
    assert nothing.exit_code == ExitCode.NOT_FOUND
    assert "files that end in .parquet" in nothing.stderr
    assert "REPUT_" not in again.stderr + nothing.stderr
