from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import click
import pytest

from reput_cli import plugincommands
from reput_cli.exitcodes import ExitCode
from reput_cli.root import ReputGroup

GOOD = """
import click
import reput


class GoodPlugin(reput.Plugin):
    @reput.hookimpl
    def reput_commands(self, group):
        @group.command()
        def count():
            "Count things."
            click.echo("counted")

        @group.command()
        def info():
            "Stands in nobody's way."
"""

BROKEN = 'raise SystemExit("reput_commands cannot be had")\n'

SILENT = """
import reput

loaded = []


class SilentPlugin(reput.Plugin):
    '''Has no commands.'''
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """``install("good", GOOD)``: as if a distribution offered that plugin."""
    offered: list[metadata.EntryPoint] = []
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        metadata, "entry_points", lambda group: offered if group == "reput.plugins" else []
    )

    def offer(name: str, source: str) -> None:
        module = f"offered_{name}_{len(offered)}_{tmp_path.name}"
        (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
        value = f"{module}:{name.capitalize()}Plugin"
        offered.append(metadata.EntryPoint(name, value, "reput.plugins"))

    return offer


def names(group: ReputGroup) -> list[str]:
    return group.list_commands(click.Context(group))


def test_commands_of_plugins_stand_behind_ours(install, group) -> None:
    install("good", GOOD)

    listed = names(group())

    assert listed[:3] == ["demo", "info", "cat"]
    assert listed[-1] == "count"


def test_a_plugin_never_takes_the_place_of_our_command(install, group) -> None:
    install("good", GOOD)
    made = group()

    found = made.get_command(click.Context(made), "info")

    assert found is not None
    assert found.callback is not None
    assert found.callback.__module__ == "reput_cli.info"


def test_of_two_plugins_commands_with_one_name_the_first_counts(install, group, capsys) -> None:
    install("again", GOOD.replace("GoodPlugin", "AgainPlugin"))
    install("good", GOOD)

    listed = names(group())

    assert listed.count("count") == 1
    assert "plugin 'good' adds the command 'count', which is taken" in capsys.readouterr().err


def test_a_plugin_that_cannot_be_loaded_costs_one_line(install, group, capsys) -> None:
    install("broken", BROKEN)
    install("good", GOOD)

    listed = names(group())

    assert "count" in listed
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 1
    assert "'broken'" in warnings[0]
    assert "SystemExit" in warnings[0]


def test_a_plugin_without_commands_is_not_loaded_for_the_list(install, group, monkeypatch) -> None:
    install("silent", SILENT)
    loaded = []
    monkeypatch.setattr(plugincommands, "_commands_of", lambda each: loaded.append(each.name))

    names(group())

    assert loaded == []


def test_our_own_commands_load_no_plugin(install, group, monkeypatch) -> None:
    install("good", GOOD)
    monkeypatch.setattr(plugincommands, "_entry_points", lambda: pytest.fail("looked for plugins"))
    made = group()

    assert made.get_command(click.Context(made), "put") is not None


def test_a_command_that_nobody_has_is_a_usage_error(run) -> None:
    outcome = run("inof", "somewhere")

    assert outcome.code == ExitCode.USAGE
    assert "inof" in outcome.err


def failing(error: BaseException) -> click.Command:
    @click.command("fail")
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (click.Abort(), ExitCode.INTERRUPTED),
        (BrokenPipeError(), ExitCode.OUTPUT_CLOSED),
        (ZeroDivisionError("oh"), ExitCode.INTERNAL),
        (click.exceptions.Exit(1), ExitCode.DAMAGED),
        (click.UsageError("no"), ExitCode.USAGE),
    ],
)
def test_every_way_to_end_has_its_code(run, monkeypatch, error, code) -> None:
    monkeypatch.setattr(ReputGroup, "get_command", lambda *_: failing(error))

    outcome = run("fail")

    assert outcome.code == code
    assert "Traceback" not in outcome.err


def test_debug_shows_where_an_error_came_from(run, monkeypatch) -> None:
    monkeypatch.setattr(ReputGroup, "get_command", lambda *_: failing(ZeroDivisionError("oh")))

    outcome = run("--debug", "fail")

    assert outcome.code == ExitCode.INTERNAL
    assert "Traceback" in outcome.err
    assert "ZeroDivisionError: oh" in outcome.err


def test_the_page_lists_every_exit_code_and_no_other() -> None:
    page = Path(__file__).parents[2] / "docs" / "cli.md"

    table = re.findall(r"^\| (\d+) \|", page.read_text(encoding="utf-8"), re.MULTILINE)

    assert [int(code) for code in table] == [code.value for code in ExitCode]
