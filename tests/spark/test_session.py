"""Sessions: quiet, with this Python, and with settings that the user has the last word on."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from reput_spark import session as sessions
from reput_spark.session import prepare_environment

pytest.importorskip("pyspark")


class Builder:
    """Notes what a session would be made with, in place of Spark's builder."""

    def __init__(self):
        self.settings = {}
        self.registered = []
        self.dataSource = self

    def master(self, master):
        return self.config("master", master)

    def appName(self, name):  # noqa: N802 - Spark's name
        return self.config("name", name)

    def config(self, key, value):
        self.settings[key] = value
        return self

    def getOrCreate(self):  # noqa: N802 - Spark's name
        return self

    def register(self, source):
        self.registered.append(source)


@pytest.fixture
def builder(monkeypatch):
    from pyspark.sql import SparkSession

    made = Builder()
    monkeypatch.setattr(SparkSession, "builder", made)
    monkeypatch.setattr(sessions, "find_java", lambda: "/java")
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return made


def test_a_local_session_knows_the_format_and_this_python(builder):
    from reput_spark.source import ReputDataSource

    sessions.local_session("local[2]")

    assert builder.registered == [ReputDataSource]
    assert builder.settings["master"] == "local[2]"
    assert builder.settings["spark.driver.host"] == "127.0.0.1"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["JAVA_HOME"] == "/java"


def test_a_session_on_a_cluster_is_reached_from_elsewhere(builder):
    sessions.local_session("spark://host:7077")

    assert "spark.driver.host" not in builder.settings
    assert "PYSPARK_PYTHON" not in os.environ
    assert "SPARK_LOCAL_IP" not in os.environ


def test_the_users_python_stays(builder, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/other/python")

    prepare_environment()

    assert os.environ["PYSPARK_PYTHON"] == "/other/python"


def test_the_users_settings_win_and_java_options_are_added_up(builder):
    config = {
        "spark.ui.enabled": "true",
        "spark.driver.extraJavaOptions": "-Dmine=1",
        "spark.driver.memory": "3g",
    }

    sessions.local_session(quick=True, config=config)

    settings = builder.settings
    assert (settings["spark.ui.enabled"], settings["spark.driver.memory"]) == ("true", "3g")
    options = shlex.split(settings["spark.driver.extraJavaOptions"])
    assert options[-1] == "-Dmine=1"
    assert "-XX:TieredStopAtLevel=1" in options
    (quiet,) = (each for each in options if each.startswith("-Dlog4j2.configurationFile=file:///"))
    assert os.path.exists(quiet.partition("file://")[2])
    sessions.local_session(quiet=False)
    assert "spark.driver.extraJavaOptions" in builder.settings  # of the call before
    fresh = sessions._settings(is_local=True, quick=False, quiet=False)
    assert "spark.driver.extraJavaOptions" not in fresh


def test_a_failing_job_says_at_most_three_lines_beside_the_exception(tmp_path):
    """In a process of its own, as only a new JVM shows what starting one says."""
    program = tmp_path / "program.py"
    program.write_text(
        "from reput_spark import local_session, code_of\n"
        "spark = local_session('local[1]', quick=True)\n"
        "try:\n"
        "    spark.read.format('reput').load('/nothing/there').count()\n"
        "except Exception as error:\n"
        "    print(code_of(error))\n"
        "print(spark.range(5).count())\n"
        "spark.stop()\n"
    )
    try:
        prepare_environment()
    except sessions.SparkReputError as error:
        pytest.skip(str(error))

    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=200, cwd=tmp_path
    )

    assert done.stdout.split() == ["NO_LOG", "5"], done.stderr
    assert len(done.stderr.splitlines()) <= 3, done.stderr
