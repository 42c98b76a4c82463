"""What the commands of docs/spark-jobs.md load; its snippets run in `test_recipes`."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")


def test_the_list_of_commands_loads_neither_spark_nor_arrow():
    code = "import reput_spark.cli, sys; print({'pyspark', 'pyarrow'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"
