from __future__ import annotations

import importlib
import json
import sys
from importlib import metadata

import attrs
import pytest
from attrs.validators import in_
from statefiles import change_manifest

import reput
from reput.engine import ENGINE
from reput.plugin import discovery, integer_between
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.plugins.plugindocs import options_of


@attrs.frozen(kw_only=True)
class ShelfConfig:
    """Options of the plugin ``shelf``."""

    book_count: int = attrs.field(default=7, validator=integer_between(1, 1_000))
    """Books on one ``shelf``; more than
    this bends it.

    Raise it when books
    are thin.
    """
    colour: str = "red"
    """Paint.

    Of all sides.

    Change it when the wall is red."""
    wood: str = attrs.field(default="oak", validator=in_(("oak", "pine")))
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
    monkeypatch.setattr(metadata, "entry_points", lambda: metadata.EntryPoints(found))
    monkeypatch.setattr(discovery, "_state_of_path", object)  # another one each time
    return found


def test_options_have_defaults_values_and_docstrings() -> None:
    found = {each.name: (each.default, each.values) for each in options_of(ShelfConfig)}
    texts = {each.name: (each.description, each.when) for each in options_of(ShelfConfig)}
    assert found == {
        "book_count": (7, "1 to 1,000"),
        "colour": ("red", "a string"),
        "wood": ("oak", '``"oak"`` or ``"pine"``'),
        "tags": ((), "a list of strings"),
    }
    assert texts == {
        "book_count": (
            "Books on one ``shelf``; more than this bends it.",
            "Raise it when books are thin.",
        ),
        "colour": ("Paint. Of all sides.", "Change it when the wall is red."),
        "wood": ("", ""),
        "tags": ("Labels.", ""),
    }


def test_what_plugins_report_is_in_words(run, tmp_path) -> None:
    pytest.importorskip("reput_retention")
    path = tmp_path / "store"
    reput.open(path, plugins=["retention"]).close()

    lines = [line.split() for line in run("plugins", path).out.splitlines()]

    assert ["is_active", "no"] in lines
    assert ["config.unseen", "keep"] in lines
    assert ["holds", "-"] in lines


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
        "values": "1 to 1,000",
        "description": "Books on one shelf; more than this bends it.",
        "when": "Raise it when books are thin.",
    }
    assert "Keeps books." in people.out
    assert "open, dispatch" in people.out
    assert "book_count  7 " in people.out
    assert "bends it. Raise it when books are thin." in people.out


def test_a_plugin_that_cannot_be_loaded_is_listed_with_the_reason(run, offered) -> None:
    offered.append(metadata.EntryPoint("gone", "no_such_module_here:Plugin", "reput.plugins"))

    outcome = run("plugins", "--json")

    assert outcome.code == ExitCode.OK
    (document,) = outcome.json["installed"]
    assert "no_such_module_here" in document["error"]
    assert "'gone'" in outcome.err


def test_no_plugin_says_what_to_install(run, offered) -> None:
    assert "pip install ./plugins/consumequeue" in run("plugins").out
    document = run("plugins", "--json").json
    assert (document.keys(), document["installed"]) == ({"engine", "installed"}, [])


def test_a_store_without_plugins_says_so(run, plain_store) -> None:
    path = plain_store()

    assert run("plugins", path).out == f"The store at {path} uses no plugins.\n"
    assert run("plugins", path, "--json").json == {
        "path": str(path),
        "engine": {"name": ENGINE.name, "version": ENGINE.version, "reason": ENGINE.reason},
        "problems": [],
        "plugins": [],
        "plan": [],
    }


def test_a_store_whose_plugin_is_not_installed_says_which(run, plain_store) -> None:
    path = plain_store()
    change_manifest(path, lambda text: text.replace(b'"plugins": []', b'"plugins": ["missing"]'))

    outcome = run("plugins", path)

    assert outcome.code == ExitCode.OK
    assert "'missing' is not installed" in outcome.err


# --------------------------------------------------------------------------- of a store


def test_the_lag_is_shown_with_what_to_do_about_it(run, plugin_store) -> None:
    path = plugin_store("notes", "first", count=10)
    run("suspend", path, "notes")
    with reput.open(path) as store:
        store.put_many([reput.Message("orders", b"x")] * 3)
        end = store.log.max_physical_offset

    first, notes = run("plugins", path, "--json").json["plugins"]
    outcome = run("plugins", path)

    assert (first["state"], first["lag_size"], first["lag_count"]) == ("reading", 0, 0)
    assert first["batch_count"] >= 1
    assert first["max_batch_ms"] >= first["mean_batch_ms"] > 0
    assert first["policy"] == "suspend"
    assert notes["state"] == "suspended"
    assert notes["lag_size"] == end - notes["dispatched_to"] > 0
    assert (notes["lag_count"], notes["lag_is_exact"]) == (3, True)
    assert notes["version"] == "2.5"
    heading, first_row, notes_row = outcome.out.splitlines()[:3]
    assert "POLICY" not in heading  # nobody has another than the usual one
    assert "DEAD LETTERS" not in heading
    assert first_row.split()[2] == "idle"
    assert "suspended" in notes_row
    assert ", 3 messages" in notes_row
    assert f"go on with: reput resume {path} notes" in outcome.err


def test_another_policy_is_shown(run, plugin_store) -> None:
    path = plugin_store("notes", "first", dispatch={"on_error": {"first": "halt"}})

    heading, first, notes = run("plugins", path).out.splitlines()[:3]

    assert heading.split()[-1] == "POLICY"
    assert first.split()[-1] == "halt"
    assert notes.split()[-1] == "suspend"


def test_a_failed_plugin_is_shown_with_its_error_and_the_next_step(run, plugin_store) -> None:
    path = plugin_store("broken", key="broken", dispatch={"retry_count": 0})

    outcome = run("plugins", path)

    assert outcome.code == ExitCode.OK
    error = "suspended: message orders/0@50: ValueError: this one cannot be taken"
    step = f"go on with: reput resume {path} broken"
    assert outcome.err == f"reput: plugin 'broken' is {error}; {step}\n"


def test_the_plan_tells_the_order_and_its_reasons(run, plugin_store) -> None:
    path = plugin_store("second", "notes", "first")

    outcome = run("plugins", path, "--plan")
    steps = run("plugins", path, "--json").json["plan"]

    rows = [line.strip() for line in outcome.out.splitlines() if line[:4].strip(" .").isdigit()]
    assert rows == [
        "1. first   required by second",
        "2. notes   tied to none of the others",
        "3. second  requires first; after notes",
    ]
    assert [step["name"] for step in steps] == ["first", "notes", "second"]
    assert steps[2] == {
        "name": "second",
        "runs_after": ["notes"],
        "requires": ["first"],
        "required_by": [],
        "hooks": ["dispatch"],
    }


def test_a_missing_requirement_is_an_error_that_names_both(run, plugin_store) -> None:
    path = plugin_store("first", "second")
    name_plugins(path, '["second"]')

    outcome = run("plugins", path, "--plan")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "plugin 'second': needs first, which this store does not use" in outcome.err


def test_a_cycle_is_an_error_that_names_its_plugins(run, plugin_store, tmp_path) -> None:
    path = plugin_store("first", "second")
    module = tmp_path / "installed" / "cli_test_plugins.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(
        text.replace('"Needs nobody."', '"Needs nobody."\n    runs_after = frozenset({"second"})'),
        encoding="utf-8",
    )
    sys.modules.pop("cli_test_plugins")
    importlib.invalidate_caches()

    outcome = run("plugins", path, "--plan")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "first, second" in outcome.err
    assert "reput plugins" in outcome.err


def test_a_plan_is_of_one_store(run) -> None:
    assert run("plugins", "--plan").code == ExitCode.USAGE


def name_plugins(path, names):
    def named(text):
        return json.dumps({**json.loads(text), "plugins": json.loads(names)}).encode()

    change_manifest(path, named)
