"""Commands of distributions that are no plugins: entry points of the group ``reput.commands``."""

from __future__ import annotations

from importlib import metadata

import click
import pytest

from reput_cli.exitcodes import ExitCode

SOURCE = """
import click


@click.command(short_help="Weigh things.")
def weigh():
    click.echo("weighed")


no_command = 3
"""


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """``offer("weigh", "weigh")``: as if a distribution offered that command."""
    offered: list[metadata.EntryPoint] = []
    module = f"offered_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        metadata, "entry_points", lambda group: offered if group == "reput.commands" else []
    )

    def add(name: str, attribute: str) -> None:
        offered.append(metadata.EntryPoint(name, f"{module}:{attribute}", "reput.commands"))

    return add


def names(group):
    return group.list_commands(click.Context(group))


def test_a_command_is_listed_behind_ours_and_runs(offer, group, run) -> None:
    offer("weigh", "weigh")

    outcome = run("weigh")

    assert names(group())[-1] == "weigh"
    assert (outcome.code, outcome.out) == (ExitCode.OK, "weighed\n")


@pytest.mark.parametrize("attribute", ["no_command", "not_there"])
def test_one_that_cannot_be_loaded_costs_one_line(offer, run, attribute) -> None:
    offer("broken", attribute)
    offer(f"weigh-{attribute}", "weigh")

    outcome = run(f"weigh-{attribute}")

    assert (outcome.code, outcome.out) == (ExitCode.OK, "weighed\n")
    assert outcome.err.count("\n") == 1
    assert "command 'broken'" in outcome.err


def test_a_name_that_is_ours_stays_ours(offer, run, tmp_path) -> None:
    offer("info", "weigh")

    assert run("info", tmp_path / "nothing").code == ExitCode.NOT_FOUND
