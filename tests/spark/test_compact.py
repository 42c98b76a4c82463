"""Compactions by tasks of Spark, and by the same tasks in processes of this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
from click.testing import CliRunner

pytest.importorskip("reput_compaction")
pytest.importorskip("pyspark")

from compactedstores import files_of, many, open_store, put

import reput
from reput.errors import PluginError, StoreLockedError, StoreNotFoundError
from reput_cli.root import reput as command
from reput_rebuild.engine import LocalEngine
from reput_spark import SparkReputError
from reput_spark.jobs.compact import compact, compact_with
from reput_spark.jobs.engine import SparkEngine
from reput_testing import ManualClock

OLD = "compaction/compactionLog/t/0/00000000000000000000"


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A store with something to compact, and the files that the plugin's own run leaves."""
    directory = tmp_path_factory.mktemp("compact")
    with open_store(directory / "store", ManualClock()) as store:
        put(store, many(400, 40))
    shutil.copytree(directory / "store", directory / "done")
    with reput.open(directory / "done", threads=False) as store:
        store.plugin("compaction").compact()
    return directory / "store", compacted_files(directory / "done")


@pytest.fixture
def root(closed, tmp_path):
    shutil.copytree(closed[0], tmp_path / "store")
    return tmp_path / "store"


def compacted_files(root):
    return {name: data for name, data in files_of(root).items() if "compaction" in name}


def test_spark_leaves_the_files_that_the_plugin_s_own_run_leaves(spark, closed, root):
    told = []

    done = compact(
        spark, root, split_size=5_000, progress=lambda done, total: told.append((done, total))
    )

    assert compacted_files(root) == closed[1]
    assert [each.queue_id for each in done if each.topic == "u"] == [0, 1, 2]
    assert sum(each.messages_before for each in done) == 400
    assert told[-1][0] == told[-1][1] > 0
    assert not (root / "reput/compacting").exists()


def test_a_task_that_fails_names_split_and_file_and_nothing_was_changed(spark, root):
    with open(root / OLD, "r+b") as file:
        file.seek(20)
        file.write(b"\xff" * 8)  # the queue offset of the first record
    logs = {name: data for name, data in compacted_files(root).items() if "Log/" in name}

    with pytest.raises(SparkReputError) as caught:
        compact(spark, root, ["t"], split_size=5_000)

    text = str(caught.value)
    assert text.startswith("[REPUT_DAMAGED] split 0, [0, ")
    assert f"{root / OLD}, byte 0: the record is not the one that its unit names" in text
    after = compacted_files(root)
    # Files that were being written were closed for it, and say so behind their messages.
    assert after.keys() >= logs.keys()
    with reput.open(root, threads=False) as store:
        assert [view.queue_offset for view in store.read("t", 1, 0, 5)] == [0, 1, 2, 3, 4]
    assert not (root / "reput/compacting").exists()


class Killing(SparkEngine):
    """Kills, in each round, the process of one task when that has done its work."""

    marks = ""

    def run(self, work, tasks, told=lambda size: None):
        marks = self.marks

        def work_and_die(task, report):
            answer = work(task, report)
            try:
                os.close(os.open(f"{marks}/{type(task).__name__}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return super().run(work_and_die, tasks, told)


def test_processes_that_are_killed_change_nothing(spark, closed, root, tmp_path):
    engine = Killing(spark)
    engine.marks = str(tmp_path / "marks")
    os.mkdir(engine.marks)

    compact_with(engine, root, split_size=20_000)

    assert len(os.listdir(engine.marks)) == 4
    assert compacted_files(root) == closed[1]


def test_only_named_topics_are_compacted_and_known_ones(closed, root):
    with LocalEngine(1) as engine:
        done = compact_with(engine, root, ["u"])
        with pytest.raises(ValueError, match="'v' is not compacted; those that are: t, u"):
            compact_with(engine, root, ["v"])

    assert {each.topic for each in done} == {"u"}
    assert compacted_files(root) != closed[1]


def test_what_is_no_closed_store_with_compacted_topics_is_refused(root, tmp_path):
    engine = LocalEngine(1)
    with pytest.raises(StoreNotFoundError):
        compact_with(engine, tmp_path / "nothing")
    with pytest.raises(SparkReputError, match=r"OPTION.*s3://bucket/store: a compaction writes"):
        compact_with(engine, "s3://bucket/store")
    reput.open(tmp_path / "plain", plugins=[]).close()
    with pytest.raises(PluginError, match="it has no compacted topics"):
        compact_with(engine, tmp_path / "plain")
    with reput.open(root, threads=False), pytest.raises(StoreLockedError):
        compact_with(engine, root)


def test_the_store_may_be_named_from_where_one_is(closed, root, monkeypatch):
    monkeypatch.chdir(root.parent)

    compact_with(LocalEngine(1), root.name)

    assert compacted_files(root) == closed[1]
    assert os.listdir(root.parent) == ["store"]


def test_the_command_prints_what_became_of_each_queue(root):
    result = CliRunner().invoke(
        command, ["spark", "compact", str(root), "t", "--jobs", "1", "--json"]
    )

    queues = json.loads(result.stdout)["queues"]
    assert result.exit_code == 0
    assert [(each["topic"], each["queue_id"]) for each in queues] == [("t", 0), ("t", 1), ("t", 2)]
    again = CliRunner().invoke(command, ["spark", "compact", str(root), "t", "--jobs", "1"])
    assert (again.exit_code, again.stdout) == (0, "nothing to compact\n")
    wrong = CliRunner().invoke(command, ["spark", "compact", str(root), "v", "--jobs", "1"])
    assert wrong.exit_code == 3
    assert "'v' is not compacted" in wrong.stderr
