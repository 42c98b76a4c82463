"""Texts that say how to install something name folders of a checkout: no index has reput."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from reput.installing import install_command, install_extra

ROOT = Path(__file__).parents[2]
PROJECTS = sorted(
    path
    for pattern in ("*/pyproject.toml", "extras/*/pyproject.toml", "plugins/*/pyproject.toml")
    for path in ROOT.glob(pattern)
)
SOURCES = sorted(
    path
    for pattern in ("*/src", "extras/*/src", "plugins/*/src", "native/src")
    for folder in ROOT.glob(pattern)
    for suffix in ("*.py", "*.rs")
    for path in folder.rglob(suffix)
)


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_each_distribution_is_installed_from_its_folder(path):
    project = tomllib.loads(path.read_text())["project"]
    name = project["name"].removeprefix("reput-") if project["name"] != "reput" else "core"

    command = install_command(name)

    folder = f"./{path.parent.relative_to(ROOT).as_posix()}"
    assert command == f"pip install {folder} (in a checkout of reput)"


@pytest.mark.parametrize(("name", "extra"), [("core", "compression"), ("spark", "jre")])
def test_an_extra_that_is_named_exists(name, extra):
    command = install_extra(name, extra)

    assert command.startswith(f"pip install './{name}[{extra}]'")
    project = tomllib.loads((ROOT / name / "pyproject.toml").read_text())["project"]
    assert extra in project["optional-dependencies"]


def test_no_source_names_a_distribution_that_an_index_would_look_up():
    by_name = re.compile(r"pip install ['\"]?reput[\w-]*")

    found = [
        f"{path.relative_to(ROOT)}: {words}"
        for path in SOURCES
        for words in by_name.findall(path.read_text())
    ]

    assert SOURCES
    assert found == []
