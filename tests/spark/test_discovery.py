"""Spark finds the format by itself: by the name of a module at the top."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import reput_spark


def test_the_module_has_the_source_under_the_name_that_spark_looks_for():
    pytest.importorskip("pyspark")
    import pyspark_reput
    from reput_spark.source.datasource import ReputDataSource

    assert pyspark_reput.DefaultSource is ReputDataSource
    assert "pyspark_reput" in {module.name for module in pkgutil.iter_modules()}
    with pytest.raises(AttributeError, match="no attribute 'Something'"):
        pyspark_reput.Something  # noqa: B018 - looking is all


@pytest.mark.parametrize("name", ["reput_spark", "pyspark_reput"])
def test_importing_costs_no_spark(name):
    program = (
        f"import sys, {name}; "
        "print([each for each in ('pyspark', 'py4j', 'pandas', 'reput_filter') "
        "if each in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.stdout.strip() == "[]", done.stderr


def test_one_room_has_all_that_spark_calls():
    root = Path(reput_spark.__file__).parent
    spark = re.compile(r"^ *from pyspark\.sql\.(?:streaming\.)?datasource import", re.MULTILINE)

    found = {
        path.relative_to(root).parts[0]
        for path in root.rglob("*.py")
        if spark.search(path.read_text(encoding="utf-8"))
    }

    assert found == {"source"}


def test_what_is_exported_is_there():
    assert all(hasattr(reput_spark, name) for name in reput_spark.__all__)


def test_a_session_that_nobody_told_finds_the_format(spark, plain_store):
    fresh = spark.newSession()  # which shares no registered format with the first one

    frame = fresh.read.format("reput").schema("topic string").load(str(plain_store))

    assert frame.count() == 400
