"""Workers run this Python, with what is installed in it and without Spark's copies of it."""

from __future__ import annotations

import os
import subprocess
import sys

import attrs
import pytest

pytest.importorskip("pyspark")

import pyspark

from reput_spark.jobs.sparkengine import SparkEngine
from reput_spark.session.workerpython import worker_python


@attrs.frozen
class One:
    size: int = 1


HOME = os.path.dirname(pyspark.__file__)


def started(command, path, *arguments):
    """What a Python that Spark starts says its path is, in ``PYTHONPATH`` and beyond."""
    environment = {"PATH": os.defpath}
    if path is not None:
        environment["PYTHONPATH"] = path
    code = "import os, sys; print(sys.executable, os.environ.get('PYTHONPATH'), *sys.argv[1:])"
    asked = [command, "-c", code, *arguments]
    return subprocess.run(asked, env=environment, capture_output=True, text=True, check=True).stdout


def test_sparks_copies_are_left_out_and_nothing_else(tmp_path):
    command = worker_python({"HOME": str(tmp_path)})
    jar = f"{HOME}/jars/spark-core_2.13-4.1.4.jar"
    given = [f"{HOME}/python/lib/pyspark.zip", "/mine/*", jar, "/its own", f"{HOME}/else"]

    said = started(command, ":".join(given), "a b", "*")

    assert said == f"{sys.executable} /mine/*:/its own:{HOME}/else a b *\n"
    assert command.startswith(f"{tmp_path}/.cache/reput-spark/python-")
    assert started(command, f"{HOME}/python/lib/py4j.zip") == f"{sys.executable} None\n"
    assert started(command, None) == f"{sys.executable} None\n"


def test_the_workers_of_a_session_import_what_is_installed(spark):
    def imported(task, report):  # goes to the worker by value
        import sys

        import pyspark

        return pyspark.__file__, sys.executable, sys.prefix

    (found,) = SparkEngine(spark).run(imported, [One()])

    assert found == (pyspark.__file__, sys.executable, sys.prefix)


def test_without_a_directory_of_ones_own_it_is_this_python(tmp_path):
    (tmp_path / "file").write_text("no directory")
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "reput-spark").mkdir()
    (tmp_path / "open" / "reput-spark").chmod(0o777)

    for home in ("file", "open"):
        assert worker_python({"XDG_CACHE_HOME": str(tmp_path / home)}) == sys.executable
    assert worker_python({}) == sys.executable


def test_another_spark_keeps_its_own_pyspark(tmp_path):
    variables = {"HOME": str(tmp_path), "SPARK_HOME": "/opt/spark"}

    assert worker_python(variables) == sys.executable
    assert worker_python({**variables, "SPARK_HOME": HOME}) != sys.executable
