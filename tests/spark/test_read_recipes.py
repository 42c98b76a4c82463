"""The recipes of the page run as they stand there, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reput

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
PARTS = PAGE.read_text(encoding="utf-8").partition("## Recipes")[2].partition("\n## ")[0]
RECIPES = re.findall(r"```python\n(.*?)```", PARTS, re.DOTALL)


@pytest.fixture
def orders(tmp_path):
    """Makes the store, and a recipe one that means it: Spark works in another directory."""
    with reput.open(tmp_path / "orders-store", plugins=()) as store:
        for number in range(3):
            message = reput.Message(
                "orders",
                b"order %d" % number,
                tags="created",
                keys=f"k{number}",
                properties={"amount": str(100 * number), "region": "eu"},
            )
            store.put(message)
    return lambda text: text.replace("orders-", f"{tmp_path}/orders-")


@pytest.mark.parametrize("number", range(len(RECIPES)))
def test_a_recipe_of_the_page_runs(number, spark, orders, capsys):
    pytest.importorskip("reput_filter")
    names = {"spark": spark}
    # What stands in one is there for those behind it.
    exec("from reput_spark import read", names)

    exec(compile(orders(RECIPES[number]), f"{PAGE.name}, recipe {number}", "exec"), names)

    said = capsys.readouterr().out
    assert said.startswith("+-") or "parquet" in RECIPES[number]
    if "filter=" in RECIPES[number]:
        assert "k2" in said
        assert "k1" not in said


def test_there_are_recipes_and_each_is_short():
    assert len(RECIPES) >= 7
    assert all(len(recipe.splitlines()) <= 3 for recipe in RECIPES)


def test_the_start_of_the_page_runs(spark, orders, capsys):
    (start,) = re.findall(r"```python\n(.*?)```", PAGE.read_text().partition("## ")[0], re.DOTALL)

    exec(orders(start), {})

    assert "orders|" in capsys.readouterr().out
