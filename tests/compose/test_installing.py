"""Texts that say how to install something name folders of a checkout: no index has reput."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest

from reput.installhints import extra_needed, install_command, install_extra, install_missing
from reput_tools.cli.missingcommands import how_to_get

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


_CALL = re.compile(
    r"""(?:install_extra\(|extra_needed\([^,]+,[^,]+,)\s*["'](\w+)["'],\s*["'](\w+)["']\)"""
)
NAMED = sorted({call for path in SOURCES for call in _CALL.findall(path.read_text())})


@pytest.mark.parametrize(("name", "extra"), [*NAMED, ("server", "grpc")])
def test_an_extra_that_a_source_names_exists(name, extra):
    command = install_extra(name, extra)

    folder = "core" if name == "core" else f"extras/{name}"
    assert command.startswith(f"pip install './{folder}[{extra}]'")
    if name == "core":  # computed when it is installed
        offered = metadata("reput").get_all("Provides-Extra")
    else:
        text = (ROOT / folder / "pyproject.toml").read_text()
        offered = tomllib.loads(text)["project"]["optional-dependencies"]
    assert extra in offered


def test_the_sources_name_the_extras_of_these_distributions():
    assert {name for name, _ in NAMED} == {"arrow", "core", "spark", "tools", "web"}


def test_what_is_missing_names_its_extra_for_a_checkout_and_for_the_one_wheel():
    text = extra_needed("reput metrics", "prometheus_client", "tools", "prometheus")

    assert text == (
        "reput metrics needs prometheus_client, a part of reput-tools[prometheus]: pip install "
        "'./extras/tools[prometheus]' (in a checkout of reput), "
        "or, for the wheel reput_all, reput_all-….whl[prometheus]"
    )


def test_no_source_names_a_distribution_that_an_index_would_look_up():
    by_name = re.compile(r"pip install ['\"]?reput[\w-]*")

    found = [
        f"{path.relative_to(ROOT)}: {words}"
        for path in SOURCES
        for words in by_name.findall(path.read_text())
    ]

    assert SOURCES
    assert found == []


# The tools have the command line itself: none of their commands can be missing.
WITH_COMMANDS = [path for path in PROJECTS if path.parent.name != "tools"]


@pytest.mark.parametrize("path", WITH_COMMANDS, ids=lambda path: path.parent.name)
def test_a_missing_command_names_its_distribution_and_what_that_needs(path):
    project = tomllib.loads(path.read_text())["project"]
    commands = [
        each.split()[0] for each in project.get("entry-points", {}).get("reput.commands", {})
    ]
    folder = f"./{path.parent.relative_to(ROOT).as_posix()}"
    own = {"reput", "reput-tools", project["name"]}
    needed = {re.split("[<>=]", each)[0] for each in project["dependencies"]}
    others = [each for each in needed - own if each.startswith("reput-")]

    for command in commands:
        text = how_to_get(command)

        assert text is not None
        assert text.startswith(f"reput {command} is part of {project['name']}: pip install ")
        assert re.search(rf"{folder}['\[ ]", text.replace("'", ""))
        for other in others:
            assert f"/{other.removeprefix('reput-')} " in text


@pytest.mark.parametrize(
    ("module", "folder"),
    [
        ("reput_aio", "./extras/aio"),
        ("reput_table.schema", "./extras/table"),
        ("reput_client", "./extras/client"),
        ("reput_x", None),
    ],
)
def test_only_a_missing_module_of_ours_has_a_command(module, folder):
    command = install_missing(module)

    assert command == (folder and install_command(module.partition(".")[0].removeprefix("reput_")))
    assert folder is None or folder in (command or "")
