"""Spark exports the same rows as processes of one machine, and leaves nothing where it fails."""

from __future__ import annotations

import os

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner
from exportedstores import make_store, read_back

from reput_spark import SparkReputError
from reput_spark.command import spark as spark_command
from reput_spark.jobs.export import export
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as command
from reput_tools.offline import LocalEngine

SPLIT = 1 << 16


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("export") / "store")


def test_processes_and_a_spark_exclude_each_other(made, tmp_path):
    arguments = ["export", str(made), str(tmp_path / "out"), "--jobs", "1", "--master", "local[1]"]

    done = CliRunner().invoke(spark_command, arguments)

    assert done.exit_code == ExitCode.USAGE
    assert "give one" in done.stderr
    assert not (tmp_path / "out").exists()


# --------------------------------------------------------------------------- on Spark


def test_spark_writes_the_same_rows_and_reads_them_back(spark, made, tmp_path):
    from reput_spark.jobs.sparkengine import SparkEngine

    here, there = tmp_path / "here", tmp_path / "there"
    export(str(made), str(here), LocalEngine(1), split_size=SPLIT)

    export(str(made), str(there), SparkEngine(spark), split_size=SPLIT)

    assert read_back(there).equals(read_back(here))
    frame = spark.read.parquet(str(there))
    assert frame.where("topic = '%RETRY%group'").count() == 400
    days = {str(row.day) for row in frame.select("day").distinct().collect()}
    assert {"2023-12-31", "2024-01-01"} <= days


def test_attempts_that_do_not_count_leave_no_row(spark, made, tmp_path):
    """The first attempt of every task writes all of its files, and then is lost."""
    from reput_spark.jobs.sparkengine import SparkEngine

    marks = tmp_path / "marks"
    marks.mkdir()
    engine = SparkEngine(spark)
    run = engine.run

    def losing(work, tasks, told):
        def lost_first(task, report):
            result = work(task, report)
            mark = marks / str(task.split.number)
            if not mark.exists():
                mark.touch()
                raise OSError("the executor was lost")
            return result

        return run(lost_first, tasks, told)

    engine.run = losing

    done = export(str(made), str(tmp_path / "out"), engine, split_size=SPLIT)

    assert len(list(marks.iterdir())) > 1
    assert read_back(tmp_path / "out").num_rows == 1_200
    assert len(list((tmp_path / "out").rglob("*.parquet"))) == done.file_count


def test_an_export_that_fails_on_spark_leaves_nothing(spark, made, tmp_path):
    from reput_spark.jobs.sparkengine import SparkEngine

    engine = SparkEngine(spark)
    run = engine.run

    def failing(work, tasks, told):
        def full(task, report):
            result = work(task, report)
            if task.split.number == 1:
                raise OSError("the disk is full")
            return result

        return run(full, tasks, told)

    engine.run = failing

    with pytest.raises(SparkReputError, match=r"split 1 \[\d+, \d+\) of .*the disk is full"):
        export(str(made), str(tmp_path / "out"), engine, split_size=SPLIT)

    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------- the command


def test_the_command_exports(made, tmp_path):
    target = tmp_path / "out"
    arguments = ["spark", "export", str(made), str(target), "--jobs", "1"]

    done = CliRunner().invoke(command, [*arguments, "--columns", "topic,queue_id"])
    again = CliRunner().invoke(command, arguments)

    assert done.exit_code == 0
    assert "1,200 messages in" in done.stdout
    assert again.exit_code == ExitCode.UNAVAILABLE
    assert ds.dataset(target, partitioning="hive").count_rows() == 1_200
    assert os.path.exists(target / "_SUCCESS")
