"""A log exported to Parquet and imported again holds the same messages in the same places."""

from __future__ import annotations

import importlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from writtenstores import FILE_SIZE, batch, bodies_of, table_of, write

import reput_spark
from reput_spark import SparkReputError
from reput_spark.command import engines
from reput_spark.jobs.export import export

# Where records begin is the new log's own; Java writes empty tags, which read as none.
OWN = {"physical_offset", "size", "msg_id"}


def exported(root, target, engine):
    export(str(root), str(target), engine)
    return target


@pytest.fixture
def engine():
    from reput_tools.offline import LocalEngine

    return LocalEngine(1)


@pytest.mark.parametrize("case", ["basic", "v6", "transaction", None], ids=str)
def test_what_was_exported_comes_back(case, spark, golden_store, plain_store, engine, tmp_path):
    root, file_size = (golden_store(case), 1 << 20) if case else (plain_store, 1 << 15)
    before = table_of(root)

    done = reput_spark.import_parquet(
        spark,
        exported(root, tmp_path / "parquet", engine),
        tmp_path / "store",
        file_size=file_size,
        dispatch=False,
    )

    after = table_of(tmp_path / "store")
    assert done.record_count == after.num_rows == before.num_rows
    assert (done.file_count > 1) == (case is None)  # written by several tasks
    for name in set(before.column_names) - OWN:
        assert after.column(name).to_pylist() == before.column(name).to_pylist(), name


def test_topics_of_digits_stay_text_and_queues_in_order_without_offsets_of_the_log(spark, tmp_path):
    rows = batch(
        topic=["007", "7", "007"],
        queue_id=pa.array([0, 0, 0], pa.int32()),
        queue_offset=pa.array([1, 0, 0], pa.int64()),
        body=[b"b", b"c", b"a"],
    )
    for topic in ("007", "7"):
        part = rows.filter(pa.array([name == topic for name in rows.column("topic").to_pylist()]))
        directory = tmp_path / "parquet" / f"topic={topic}" / "day=2026-01-31"
        directory.mkdir(parents=True)
        pq.write_table(pa.Table.from_batches([part.drop_columns("topic")]), directory / "x.parquet")

    reput_spark.import_parquet(
        spark, tmp_path / "parquet", tmp_path / "store", file_size=FILE_SIZE, dispatch=False
    )

    found = table_of(tmp_path / "store", ["topic", "queue_offset", "body"]).to_pylist()
    assert [(row["topic"], row["body"]) for row in found] == [
        ("007", b"a"),
        ("007", b"b"),
        ("7", b"c"),
    ]


def test_what_is_no_parquet_of_messages_is_refused(spark, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SparkReputError, match=r"\[REPUT_NO_LOG\].*nothing: no Parquet"):
        reput_spark.import_parquet(spark, tmp_path / "nothing", tmp_path / "store")
    pq.write_table(pa.table({"name": ["x"]}), tmp_path / "empty" / "x.parquet")
    with pytest.raises(SparkReputError, match="column 'name' is not a column of a message"):
        reput_spark.import_parquet(spark, tmp_path / "empty", tmp_path / "store")

    assert not (tmp_path / "store").exists()


def test_a_store_is_not_imported_over(spark, tmp_path):
    write(tmp_path / "store", [[batch(topic="T", body=[b"mine"])]])
    pq.write_table(pa.table({"topic": ["T"], "body": [b"x"]}), tmp_path / "x.parquet")

    with pytest.raises(SparkReputError, match="never overwritten"):
        reput_spark.import_parquet(spark, tmp_path / "x.parquet", tmp_path / "store")

    assert bodies_of(tmp_path / "store") == [b"mine"]


def test_an_import_with_a_name_may_come_again(spark, tmp_path):
    pq.write_table(pa.table({"topic": ["T"], "body": [b"x"]}), tmp_path / "x.parquet")
    options = {"file_size": FILE_SIZE, "dispatch": False, "write_id": "import-1"}

    runs = [
        reput_spark.import_parquet(spark, tmp_path / "x.parquet", tmp_path / "store", **options)
        for _ in range(2)
    ]

    assert [done.was_there for done in runs] == [False, True]
    assert bodies_of(tmp_path / "store") == [b"x"]


def test_the_command_says_what_it_did(spark, tmp_path, monkeypatch):
    class Shared:
        """The session of all tests, which no command may stop."""

        def __getattr__(self, name):
            return getattr(spark, name)

        def stop(self):
            self.stopped = True

    shared = Shared()
    command = importlib.import_module(
        "reput_spark.command.import_"
    )  # its name is the command's, too
    monkeypatch.setattr(engines, "session_of", lambda *_, **__: shared)
    pq.write_table(pa.table({"topic": ["T"], "body": [b"x"]}), tmp_path / "x.parquet")
    arguments = [str(tmp_path / "x.parquet"), str(tmp_path / "store"), "--file-size", "4096"]

    result = CliRunner().invoke(command.import_, arguments)

    assert result.exit_code == 0, result.output
    assert "store: 1 message in 1 file" in result.output
    assert shared.stopped
    assert bodies_of(tmp_path / "store") == [b"x"]


@pytest.mark.parametrize("given", [(), ("--follow-links",)])
def test_the_command_follows_links_only_where_it_is_told_to(tmp_path, monkeypatch, given):
    command = importlib.import_module("reput_spark.command.import_")
    asked = {}

    def note(session, source, store, **options):
        asked.update(options)
        raise SparkReputError("OPTION", "noted")

    class Session:
        def stop(self):
            pass

    monkeypatch.setattr(engines, "session_of", lambda *_, **__: Session())
    monkeypatch.setattr("reput_spark.jobs.importjob.import_parquet", note)

    CliRunner().invoke(command.import_, ["parquet", str(tmp_path / "store"), *given])

    assert asked["follow_links"] is bool(given)
