from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from commands import cli_runner

from reput_tools.cli import plugincommands, root
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import ReputGroup


def test_our_own_commands_look_for_no_others(group, monkeypatch) -> None:
    monkeypatch.setattr(plugincommands, "_entry_points", lambda: pytest.fail("looked for others"))
    made = group()

    assert made.get_command(click.Context(made), "put") is not None


def test_the_list_says_what_each_command_says_of_itself(group) -> None:
    made = group()
    listed = [made.get_command(click.Context(made), name) for name in root._COMMANDS]

    commands = [stub.load() for stub in listed]

    assert [command.name for command in commands] == list(root._COMMANDS)
    assert [command.short_help for command in commands] == [stub.short_help for stub in listed]


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


def test_without_a_command_the_help_is_shown_as_it_is():
    result = cli_runner().invoke(root.reput, [])

    assert result.exit_code in (0, 2)  # 0 before click 8.2
    text = result.stderr or result.stdout
    assert text.startswith("Usage: ")
    assert "\n  demo " in text
