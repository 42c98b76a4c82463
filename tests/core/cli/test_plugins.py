from __future__ import annotations

from importlib import metadata

import attrs
import pytest

import reput
from reput.cli.exitcodes import ExitCode
from reput.cli.plugindocs import hooks_of, options_of, summary_of


@attrs.frozen(kw_only=True)
class ShelfConfig:
    """Options of the plugin ``shelf``."""

    book_count: int = 7
    """Books on one shelf; more than
    this bends it."""
    colour: str = "red"
    tags: tuple[str, ...] = attrs.field(factory=tuple)
    """Labels."""


@attrs.define(eq=False)
class ShelfPlugin(reput.Plugin):
    """Keeps books.

    And dust.
    """

    config_type = ShelfConfig
    runs_after = frozenset({"filter"})

    config: ShelfConfig

    @reput.hookimpl
    def reput_dispatch(self, batch):
        """Take the batch."""

    @reput.hookimpl
    def reput_open(self, context):
        """Learn the place."""

    def reput_unmarked(self):
        """Is no hook."""


@pytest.fixture
def offered(monkeypatch):
    found: list[metadata.EntryPoint] = []
    monkeypatch.setattr(
        metadata, "entry_points", lambda group: found if group == "reput.plugins" else []
    )
    return found


def test_options_have_their_defaults_and_docstrings() -> None:
    options = [
        (option.name, option.default, option.description) for option in options_of(ShelfPlugin)
    ]

    assert options == [
        ("book_count", 7, "Books on one shelf; more than this bends it."),
        ("colour", "red", ""),
        ("tags", (), "Labels."),
    ]


def test_hooks_come_in_life_cycle_order() -> None:
    assert hooks_of(ShelfPlugin) == ["reput_open", "reput_dispatch"]


def test_the_summary_is_the_first_line() -> None:
    assert summary_of(ShelfPlugin) == "Keeps books."


def test_installed_plugins_are_listed_with_what_they_do(run, offered, monkeypatch) -> None:
    entry_point = metadata.EntryPoint("shelf", f"{__name__}:ShelfPlugin", "reput.plugins")
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda self: ShelfPlugin)
    offered.append(entry_point)

    people = run("plugins")
    (document,) = run("plugins", "--json").json["installed"]

    assert document["name"] == "shelf"
    assert document["summary"] == "Keeps books."
    assert document["hooks"] == ["reput_open", "reput_dispatch"]
    assert document["runs_after"] == ["filter"]
    assert document["options"][0] == {
        "name": "book_count",
        "type": "int",
        "default": 7,
        "description": "Books on one shelf; more than this bends it.",
    }
    assert "Keeps books." in people.out
    assert "open, dispatch" in people.out
    assert "book_count  7 " in people.out


def test_a_plugin_that_cannot_be_loaded_is_listed_with_the_reason(run, offered) -> None:
    offered.append(metadata.EntryPoint("gone", "no_such_module_here:Plugin", "reput.plugins"))

    outcome = run("plugins", "--json")

    assert outcome.code == ExitCode.OK
    (document,) = outcome.json["installed"]
    assert "no_such_module_here" in document["error"]
    assert "'gone'" in outcome.err


def test_no_plugin_says_what_to_install(run, offered) -> None:
    assert "pip install reput-consumequeue" in run("plugins").out
    assert run("plugins", "--json").json == {"installed": []}


def test_a_store_without_plugins_says_so(run, plain_store) -> None:
    path = plain_store()

    assert run("plugins", path).out == f"The store at {path} uses no plugins.\n"
    assert run("plugins", path, "--json").json == {"path": str(path), "plugins": []}


def test_a_store_whose_plugin_is_not_installed_says_which(run, plain_store) -> None:
    path = plain_store()
    manifest = path / "reput" / "manifest.json"
    manifest.write_text(
        manifest.read_text(encoding="utf-8").replace('"plugins": []', '"plugins": ["missing"]'),
        encoding="utf-8",
    )

    outcome = run("plugins", path)

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "'missing'" in outcome.err
