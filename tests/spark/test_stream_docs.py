"""The page about streams: its recipes run as they stand there, its tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reput
from reput_spark.reading.stream.options import STREAM_OPTIONS
from reput_spark.writing.options import SINK_OPTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-streaming.md"
TEXT = PAGE.read_text(encoding="utf-8")
RECIPES = re.findall(
    r"```python\n(.*?)```", TEXT.partition("## Recipes")[2].partition("\n## ")[0], re.DOTALL
)


@pytest.fixture
def orders(tmp_path):
    """Makes the stores, and a recipe one that means them: Spark works in another directory."""
    config = {"commitlog": {"file_size": 65_536, "preallocate": False}}
    reput.open(tmp_path / "orders-copy", plugins=(), config=config).close()
    with reput.open(tmp_path / "orders-store", plugins=(), config=config) as store:
        for number in range(3):
            store.put(reput.Message("orders", b"order %d" % number, tags="created"))
    return lambda text: text.replace("orders-", f"{tmp_path}/orders-")


@pytest.mark.parametrize("number", range(len(RECIPES)))
def test_a_recipe_of_the_page_runs(number, spark, orders, tmp_path):
    names = {"spark": spark, "checkpoint": str(tmp_path / "checkpoint")}
    exec("from reput_spark import read_stream", names)

    try:
        exec(compile(orders(RECIPES[number]), f"{PAGE.name}, recipe {number}", "exec"), names)
        found = written(spark, tmp_path)
    finally:
        for query in spark.streams.active:
            query.stop()

    ticks = [("ticks", b"0"), ("ticks", b"1"), ("ticks", b"2")]
    assert sorted(found) == (ticks if "ticks" in RECIPES[number] else ORDERS)


ORDERS = [("orders", b"order 0"), ("orders", b"order 1"), ("orders", b"order 2")]


def written(spark, tmp_path):
    """Topics and bodies of what a recipe has put somewhere."""
    if (tmp_path / "orders-parquet").exists():
        rows = spark.read.parquet(str(tmp_path / "orders-parquet")).orderBy("physical_offset")
        return [(each.topic, b"order %d" % each.queue_offset) for each in rows.collect()]
    with reput.open(tmp_path / "orders-copy", "r", plugins=()) as store:
        messages = [batch.message(row) for batch in store.scan() for row in range(len(batch))]
    if messages:
        return [(each.topic, each.body) for each in messages]
    assert spark.table("counted").collect() == [("created", 3)]
    return ORDERS


def test_there_are_recipes_and_each_is_short():
    assert len(RECIPES) >= 6
    assert all(len(recipe.splitlines()) <= 3 for recipe in RECIPES)


def test_the_start_of_the_page_runs(spark, orders, tmp_path):
    (start,) = re.findall(r"```python\n(.*?)```", TEXT.partition("## ")[0], re.DOTALL)

    exec(orders(start), {})

    assert written(spark, tmp_path) == ORDERS


@pytest.mark.parametrize("options", [STREAM_OPTIONS, SINK_OPTIONS])
def test_the_page_has_every_option(options):
    for name, meaning in options.items():
        assert f"| `{name}` | {meaning} |" in TEXT
