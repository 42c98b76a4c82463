"""Parquet files of a log hold its messages, each once, and are seen when they are complete."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from commands import cli_runner
from exportedstores import make_store, read_back
from sparkstores import fill, messages_of

from reput_arrow.codederrors import CodedError
from reput_arrow.export.exporter.exportjob import export
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as command
from reput_tools.offline import LocalEngine

SPLIT = 1 << 16
DAY = 86_400_000


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("export") / "store")


def test_every_message_is_there_once_under_its_topic_and_day(made, tmp_path):
    target = tmp_path / "parquet"

    done = export(str(made), str(target), LocalEngine(1), split_size=SPLIT)

    found = read_back(target).to_pylist()
    messages = messages_of(made)
    assert done.message_count == len(messages) == 1_200
    assert [row["body"] for row in found] == [message.body for message in messages]
    assert [dict(row["properties"]) for row in found] == [each.properties for each in messages]
    assert [row["topic"] for row in found] == [message.topic for message in messages]
    assert [str(row["day"])[:10] for row in found] == [
        str(row["store_timestamp"])[:10] for row in found
    ]
    files = sorted(target.rglob("*.parquet"))
    assert len(files) == done.file_count > 6
    assert sum(path.stat().st_size for path in files) == done.written_size
    assert {path.parent.name for path in files} >= {"day=2023-12-31", "day=2024-01-01"}
    assert (target / "_SUCCESS").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["parquet"]
    column = pq.ParquetFile(files[0]).metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"


def test_columns_may_be_chosen(made, tmp_path):
    export(str(made), str(tmp_path / "out"), LocalEngine(1), columns=["topic", "physical_offset"])

    table = read_back(tmp_path / "out")

    assert set(table.column_names) == {"topic", "day", "physical_offset"}
    assert table.num_rows == 1_200
    with pytest.raises(CodedError, match=r"REPUT_OPTION.*nonsense"):
        export(str(made), str(tmp_path / "other"), LocalEngine(1), columns=["nonsense"])


def test_many_files_at_once_stay_within_their_memory(made, tmp_path, monkeypatch):
    from reput_arrow.export.exporter import taskfiles as module

    monkeypatch.setattr(module, "GROUP_SIZE", 20_000)
    monkeypatch.setattr(module, "HELD_SIZE", 30_000)

    export(str(made), str(tmp_path / "out"), LocalEngine(1), split_size=1 << 20)

    assert read_back(tmp_path / "out").num_rows == 1_200


def test_a_relative_place_is_one_of_the_callers(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    engine = LocalEngine(1)
    run = engine.run

    def elsewhere(work, tasks, told):
        monkeypatch.chdir("/")  # where executors are is their own affair
        return run(work, tasks, told)

    engine.run = elsewhere

    export(str(made), "out", engine)

    assert read_back(tmp_path / "out").num_rows == 1_200


def test_what_is_there_already_stays_as_it_is(made, tmp_path):
    (tmp_path / "out").mkdir()

    with pytest.raises(CodedError, match="exists already"):
        export(str(made), str(tmp_path / "out"), LocalEngine(1))

    assert list((tmp_path / "out").iterdir()) == []


def test_damage_is_refused_and_leaves_nothing_or_is_left_out(tmp_path):
    root = tmp_path / "store"
    fill(root)
    places = [message.physical_offset for message in messages_of(root)]
    with open(root / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(places[3] + 4)
        file.write(b"\xff")

    with pytest.raises(CodedError, match=r"split 0 \[0, \d+\) of .*commitlog"):
        export(str(root), str(tmp_path / "out"), LocalEngine(1), split_size=SPLIT)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]

    done = export(
        str(root), str(tmp_path / "out"), LocalEngine(1), split_size=SPLIT, corrupt="skip"
    )
    assert read_back(tmp_path / "out").num_rows == len(places) - 1
    assert (done.message_count, done.damage_count) == (len(places) - 1, 1)


def test_a_body_that_does_not_match_its_checksum_is_damage_if_it_is_exported(tmp_path):
    root = tmp_path / "store"
    fill(root)
    wrong = messages_of(root)[3]
    path, body = root / "commitlog" / f"{0:020d}", bytes(wrong.body)
    data = bytearray(path.read_bytes())
    data[data.index(body, wrong.physical_offset)] ^= 1
    path.write_bytes(data)
    whole = [each.queue_offset for each in messages_of(root)]

    with pytest.raises(CodedError, match="checksum"):
        export(str(root), str(tmp_path / "out"), LocalEngine(1), split_size=SPLIT)
    done = export(str(root), str(tmp_path / "left"), LocalEngine(1), corrupt="skip")
    without = export(str(root), str(tmp_path / "numbers"), LocalEngine(1), columns=["queue_id"])

    assert (done.message_count, done.damage_count) == (len(whole) - 1, 1)
    assert (without.message_count, without.damage_count) == (len(whole), 0)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_command_says_that_something_was_left_out(tmp_path, form):
    fill(tmp_path / "store")
    places = [message.physical_offset for message in messages_of(tmp_path / "store")]
    with open(tmp_path / "store" / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(places[3] + 4)
        file.write(b"\xff")
    target = str(tmp_path / "out")

    done = cli_runner().invoke(
        command,
        ["export", str(tmp_path / "store"), target, "--jobs", "1", "--corrupt", "skip", *form],
    )

    assert done.exit_code == ExitCode.DAMAGED, done.output
    assert "1 damaged place left out" in done.stderr
    if form:
        assert json.loads(done.stdout)["damage_count"] == 1


def test_an_attempt_that_outlives_its_job_leaves_nothing(made, tmp_path):
    engine = LocalEngine(1)
    run, late = engine.run, []

    def note(work, tasks, told):
        late.append(lambda: work(tasks[0], lambda size: None))
        return run(work, tasks, told)

    engine.run = note
    export(str(made), str(tmp_path / "out"), engine)

    with pytest.raises(CodedError, match="the export is over"):
        late[0]()

    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_place_that_cannot_rename_is_refused_before_anything_is_read(made, monkeypatch):
    from reput_arrow.export.exporter import exportjob as module

    class Bucket:
        type_name = "s3"

    monkeypatch.setattr(module, "place_of", lambda target: (Bucket(), "bucket/out"))

    with pytest.raises(CodedError, match="cannot rename"):
        export(str(made), "s3://bucket/out", LocalEngine(1))
