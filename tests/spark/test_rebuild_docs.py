"""What the commands of docs/spark-jobs.md load and refuse; its snippets run in `test_recipes`."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from reput_tools.cli.root import reput as command

pytest.importorskip("pyspark")


def test_the_list_of_commands_loads_neither_spark_nor_arrow():
    code = "import reput_spark.command, sys; print({'pyspark', 'pyarrow'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


def test_a_file_is_no_store_to_rebuild(tmp_path):
    file = tmp_path / "file"
    file.write_text("of somebody")

    found = CliRunner().invoke(command, ["spark", "rebuild", str(file)])

    assert found.exit_code == 2
    assert f"'{file}' is a file" in found.stderr
    assert file.read_text() == "of somebody"
