"""Sessions: quiet, with this Python, and with settings that the user has the last word on."""

from __future__ import annotations

import os
import shlex

import pytest
from sparkstores import forged_store

from reput_spark import code_of, read
from reput_spark.session import localsession as sessions
from reput_spark.session.localsession import prepare_environment
from reput_spark.session.workerpython import worker_python

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException, PythonException


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
def builder(monkeypatch, tmp_path):
    from pyspark.sql import SparkSession

    made = Builder()
    monkeypatch.setattr(SparkSession, "builder", made)
    monkeypatch.setattr(sessions, "find_java", lambda: "/java")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return made


def test_a_local_session_knows_the_format_and_this_python(builder):
    from reput_spark.source.datasource import ReputDataSource

    sessions.local_session("local[2]")

    assert builder.registered == [ReputDataSource]
    assert builder.settings["master"] == "local[2]"
    assert builder.settings["spark.driver.host"] == "127.0.0.1"
    assert os.environ["PYSPARK_PYTHON"] == worker_python(os.environ)
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


def test_a_failing_job_says_nothing_beside_the_exception(started, tmp_path):
    _, at = forged_store(tmp_path / "store", before=400)
    before = started.said.read_text()

    with pytest.raises(AnalysisException) as refused:
        started.session.read.format("reput").load("/nothing/there").count()
    with pytest.raises(PythonException) as failed:
        read(started.session, tmp_path / "store", split_size=at - 20).count()

    assert (code_of(refused.value), code_of(failed.value)) == ("NO_LOG", "DAMAGED")
    assert started.said.read_text() == before
    assert len(started.at_start.splitlines()) <= 3, started.at_start
