"""Run `dataframes.ipynb`, and keep in it what its cells print and draw: ``python render.py``.

The figures are written as SVG files, too, which `docs/dataframes.md` shows. Everything comes out
the same in each run, as long as the notebook and the libraries are the same.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NOTEBOOK = HERE / "dataframes.ipynb"
IMAGES = HERE.parent / "images"
FIGURES = ("dataframes-tags.svg", "dataframes-pace.svg", "dataframes-amounts.svg")
"""Names of the figures, in the order of the cells."""


def run(notebook: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Run all cells of code, and return what each prints, and the SVG that it draws."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "reput", "svg.fonttype": "none", "font.size": 9})
    names: dict[str, Any] = {}
    found: list[tuple[str, str | None]] = []
    for number, cell in enumerate(cells_of(notebook)):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}, code {number}", "exec"), names)
        drawn = None
        if plt.get_fignums():
            drawn = _svg_of(plt.gcf())
            plt.close("all")
        found.append((said.getvalue(), drawn))
    return found


def _svg_of(figure: Any) -> str:
    """Return a figure as SVG, with its title for those who do not see it."""
    drawn = io.StringIO()
    title = figure.axes[0].get_title()
    figure.savefig(drawn, format="svg", metadata={"Title": title, "Date": None, "Creator": None})
    return drawn.getvalue().replace("<svg ", '<svg role="img" ', 1)


def cells_of(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the cells of code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs_of(said: str, drawn: str | None) -> list[dict[str, Any]]:
    """Return what a cell has said and drawn as a notebook keeps it."""
    outputs: list[dict[str, Any]] = []
    if said:
        lines = said.splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if drawn is not None:
        data = {"image/svg+xml": drawn.splitlines(keepends=True)}
        outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
    return outputs


def main() -> None:
    """Run the notebook, and write it and its figures."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    results = run(notebook)
    figures = iter(FIGURES)
    for cell, (said, drawn) in zip(cells_of(notebook), results, strict=True):
        cell["outputs"] = outputs_of(said, drawn)
        if drawn is not None:
            (IMAGES / next(figures)).write_text(drawn, encoding="utf-8")
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
