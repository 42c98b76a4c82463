"""The page about the move names what is there now; it is deleted with this file."""

from __future__ import annotations

import importlib
import re
import tomllib

import pytest
from pages import ROOT, text_of


def rows_of(title):
    """Rows of the table in a section of the page, each as the codes in its cells."""
    section = text_of("docs/moved.md").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
    return [[re.findall(r"`([^`]+)`", cell) for cell in row] for row in rows]


def module_of(name):
    if name.startswith("reput_spark.jobs.sparkengine"):
        pytest.importorskip("pyspark")
    return importlib.import_module(name)


@pytest.mark.parametrize(("old", "new"), [(row[0][0], row[1][0]) for row in rows_of("Packages")])
def test_a_package_is_where_the_page_says_and_no_longer_where_it_was(old, new):
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(old)

    module_of(new)


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [tuple(cell[0] for cell in row) for row in rows_of("Classes and functions")],
)
def test_a_package_lists_the_new_name_and_not_the_old_one(package, old, new):
    listed = module_of(package).__all__

    assert new in listed
    assert old not in listed


def test_the_page_names_every_hook_of_the_tools():
    source = (ROOT / "extras/tools/src/reput_tools/offline/hookspecs.py").read_text("utf-8")
    hooks = set(re.findall(r"^def reput_tools_(\w+)", source, re.MULTILINE))

    named = set()
    for old, new in rows_of("Hooks"):
        ends = new if len(old) == len(new) else old
        named |= {re.sub(r"^(?:reput_offline_|reput_tools_|…_)", "", each) for each in ends}

    assert named == hooks - {"wrong_entries"}  # newer than the names of the page


def test_every_new_distribution_and_extra_is_there():
    projects = {}
    for path in ROOT.glob("*/*/pyproject.toml"):
        project = tomllib.loads(path.read_text("utf-8")).get("project", {"name": ""})
        projects[project["name"]] = project
    new = [code for row in rows_of("Distributions and extras") for code in row[1]]

    for name, extra in (re.fullmatch(r"([\w-]+)(?:\[(\w+)\])?", code).groups() for code in new):
        if name == "reput":
            assert f"reput-{extra}" in projects
        else:
            assert extra is None or extra in projects[name]["optional-dependencies"]
