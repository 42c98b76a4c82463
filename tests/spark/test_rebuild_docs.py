"""The recipes of docs/spark-jobs.md, run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import reput

pytest.importorskip("pyspark")

PAGE = Path(__file__).parents[2] / "docs" / "spark-jobs.md"


def test_every_recipe_runs_in_order_twice(spark, tmp_path, capsys):
    with reput.open(tmp_path / "store", plugins=["consumequeue", "index"]) as store:
        store.put_many(
            [reput.Message("orders", b"%d" % number, keys=f"k{number}") for number in range(50)]
        )
    with reput.open(tmp_path / "prices", plugins=[]) as store:
        store.put_many([reput.Message("prices", b"1", keys=f"k{n % 3}") for n in range(9)])
    recipes = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(recipes) == 8
    for _ in range(2):
        names = {"spark": spark}
        for recipe in recipes:
            # Where Spark itself is told a place, it is one of the JVM's.
            recipe = re.sub(r'"(store|parquet|by-spark)"', rf'"{tmp_path}/\1"', recipe)
            recipe = recipe.replace('(spark, "prices"', f'(spark, "{tmp_path}/prices"')
            exec(compile(recipe, str(PAGE), "exec"), names)  # the page is ours

        assert "50 sound messages, 0 damages\n" in capsys.readouterr().out
        assert names["prices"].count() == 3
        assert [each.message_count for each in names["built"]] == [50, 50]
        assert names["report"].count() == 0
        assert names["counted"]["topics"].collect()[0].messages == 50
        assert spark.read.parquet(str(tmp_path / "parquet")).count() == 50
        assert spark.read.parquet(str(tmp_path / "by-spark")).count() == 50
    spark.catalog.clearCache()


def test_the_list_of_commands_loads_neither_spark_nor_arrow():
    code = "import reput_spark.cli, sys; print({'pyspark', 'pyarrow'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"
