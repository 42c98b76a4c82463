"""The notebook of DataFrames runs, prints what it says, and draws what the page shows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOK = json.loads((HERE / "dataframes.ipynb").read_text(encoding="utf-8"))
NEEDED = (
    "duckdb",
    "matplotlib",
    "polars",
    "reput_tools.cli",
    "reput_consumequeue",
    "reput_arrow.export",
)


@pytest.fixture
def render(monkeypatch):
    for name in (*NEEDED, "reput_filter"):
        pytest.importorskip(name)
    monkeypatch.syspath_prepend(str(HERE))
    import render

    yield render
    del sys.modules["render"]


def test_every_cell_prints_and_draws_what_is_kept_of_it(render, recwarn):
    results = render.run(NOTEBOOK)

    cells = render.cells_of(NOTEBOOK)
    for cell, (said, drawn) in zip(cells, results, strict=True):
        kept = ["".join(output["text"]) for output in cell["outputs"] if "text" in output]
        assert "".join(kept) == said
        pictures = [output for output in cell["outputs"] if "data" in output]
        assert len(pictures) == (drawn is not None)
    drawn = [svg for _, svg in results if svg is not None]
    assert len(drawn) == len(render.FIGURES)
    assert all(svg.count("<path") > 10 for svg in drawn)


def test_the_page_shows_the_figures_of_the_notebook():
    names = ["dataframes-tags.svg", "dataframes-pace.svg", "dataframes-amounts.svg"]
    kept = [
        "".join(output["data"]["image/svg+xml"])
        for cell in NOTEBOOK["cells"]
        for output in cell.get("outputs", [])
        if "data" in output
    ]

    assert kept == [(HERE.parent / "images" / name).read_text(encoding="utf-8") for name in names]


def test_the_notebook_says_nothing_of_who_ran_it():
    text = json.dumps(NOTEBOOK)

    assert "/tmp/" not in text
    assert "/home/" not in text
    assert {cell.get("execution_count") for cell in NOTEBOOK["cells"]} == {None}
