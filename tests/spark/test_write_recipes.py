"""The recipes of the page about writing run as they stand there, one after the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from writtenstores import table_of

import reput
from reput_arrow import INPUT_COLUMNS
from reput_export.writing.options import WRITE_OPTIONS
from reput_rebuild.engine import LocalEngine

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-writing.md"
TEXT = PAGE.read_text(encoding="utf-8")


def recipes_in(text):
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def part(title):
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_page_runs_from_its_start_to_its_end(spark, tmp_path, capsys):
    # As it is meant, but with small files, and where the test is: Spark works elsewhere.
    config = {"commitlog": {"file_size": 1 << 20, "preallocate": False}}
    with reput.open(tmp_path / "orders-store", config=config):
        pass
    names = {}
    start, *recipes = recipes_in(TEXT)
    for recipe in [start.replace("local_session()", "session"), *recipes]:
        if "import_parquet" in recipe:
            from reput_spark.jobs.export import export

            export(str(tmp_path / "copied-store"), str(tmp_path / "orders-parquet"), LocalEngine(1))
        text = recipe.replace("64 << 20", "1 << 20")
        text = re.sub(r'"(\w+-(?:store|parquet))"', rf'"{tmp_path}/\1"', text)
        exec(compile(text, PAGE.name, "exec"), names.setdefault("all", {"session": spark}))
        names["all"].setdefault("spark", spark)

    said = capsys.readouterr().out.splitlines()
    assert said[0] == "1000 messages"
    assert re.fullmatch(r"100 messages at \d+", said[1])
    assert said[2] == "was there: True"
    assert table_of(tmp_path / "daily-store", ["topic"]).num_rows == 1_000
    (tagged,) = table_of(tmp_path / "tagged-store", ["keys", "tags"]).to_pylist()
    assert tagged == {"keys": ["k1", "k2"], "tags": "new"}
    bodies = table_of(tmp_path / "ordered-store", ["body"]).column("body").to_pylist()
    assert bodies == sorted(bodies)
    same = ["topic", "queue_id", "queue_offset", "body", "store_timestamp", "store_host"]
    copied = table_of(tmp_path / "copied-store", same)
    assert copied.num_rows == 1_100
    assert copied == table_of(tmp_path / "orders-store", same)
    assert copied == table_of(tmp_path / "imported-store", same)


def test_recipes_are_short():
    recipes = recipes_in(part("Recipes"))
    assert len(recipes) >= 7
    assert all(len(recipe.splitlines()) <= 3 for recipe in recipes)


@pytest.mark.parametrize("name", [column.name for column in INPUT_COLUMNS])
def test_every_column_is_on_the_page(name):
    assert f"`{name}`" in part("Columns")


@pytest.mark.parametrize("name", sorted(set(WRITE_OPTIONS) - {"path"}))
def test_every_option_is_on_the_page(name):
    assert f"| `{name}` |" in part("Options")


def test_the_logger_that_the_page_names_is_the_one_that_speaks():
    from reput_export.writing.publish import publishing, settling
    from reput_spark.writing import batch, earlier

    ((puts, copies),) = re.findall(r"logger below `([\w.]+)` \(for copies: `([\w.]+)`\)", TEXT)

    assert all(each.logger.name.startswith(f"{copies}.") for each in (publishing, settling))
    assert all(each.logger.name.startswith(f"{puts}.") for each in (batch, earlier))
