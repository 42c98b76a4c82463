"""The notebook runs from its first cell to its last, and holds nothing of whoever ran it."""

from __future__ import annotations

import json
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "docs" / "notebooks" / "explore.ipynb"
NOTEBOOK = json.loads(PATH.read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_every_cell_runs(spark, capsys):
    names = {}

    for number, cell in enumerate(CODE):
        if "end" not in cell["metadata"].get("tags", ()):  # there it stops the session of all tests
            exec(compile("".join(cell["source"]), f"{PATH.name}, code {number}", "exec"), names)

    said = capsys.readouterr().out
    assert "60,000 sound messages, 0 damages" in said
    counted = names["counted"]["topics"].agg({"messages": "sum"}).first()[0]
    assert counted == names["messages"].count() == 60_000
    spark.catalog.clearCache()
    names["directory"].cleanup()
    spark.catalog.dropTempView("messages")


def test_no_cell_holds_what_somebody_saw():
    assert [cell["outputs"] for cell in CODE] == [[]] * len(CODE)
    assert {cell["execution_count"] for cell in CODE} == {None}
    assert len(CODE) >= 8
