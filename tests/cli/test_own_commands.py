"""Commands of other distributions: entry points of the group ``reput.commands``."""

from __future__ import annotations

import os

import click
import pytest
from click.shell_completion import ShellComplete

from reput_tools.cli.kit.exitcodes import ExitCode

SOURCE = """
import click


@click.group(short_help="Weigh things.")
def weigh():
    pass


@weigh.command()
def apples():
    click.echo("weighed")


no_command = 3
"""
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\nSummary: Scales for reput\n"


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """``offer("weigh Weigh things.", "weigh")``: as if a distribution offered that command."""
    folder = tmp_path / "installed"
    folder.mkdir()
    module = f"offered_{tmp_path.name}"
    (folder / f"{module}.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    def add(name, attribute, distribution="scales", module=module):
        about = folder / f"{distribution}-1.5.dist-info"
        about.mkdir(exist_ok=True)
        (about / "METADATA").write_text(METADATA.format(name=distribution), encoding="utf-8")
        with open(about / "entry_points.txt", "a", encoding="utf-8") as file:
            file.write(f"[reput.commands]\n{name} = {module}:{attribute}\n")

    return add


def listed(group):
    """Names and lines of help, as ``reput --help`` shows them."""
    context = click.Context(group)
    return {
        name: group.get_command(context, name).get_short_help_str(100)
        for name in group.list_commands(context)
    }


def test_a_command_is_listed_with_its_line_after_ours_and_runs(offer, group, run):
    offer("zz-weigh Weigh all things.", "weigh")

    shown = listed(group())
    outcome = run("zz-weigh", "apples")

    assert list(shown)[:3] == ["demo", "info", "cat"]
    assert list(shown)[-1] == "zz-weigh"
    assert shown["zz-weigh"] == "Weigh all things."
    assert (outcome.code, outcome.out) == (ExitCode.OK, "weighed\n")


def test_commands_are_listed_by_section_and_the_rest_under_another(offer, run):
    offer("zz-weigh [read] Weigh all things.", "weigh")
    offer("zz-other [heavy] things.", "weigh", distribution="balance")

    sections = {
        part.partition(":\n")[0]: part for part in run("--help").out.split("\n\n") if ":\n" in part
    }

    assert "zz-weigh      Weigh all things." in sections["Read"]
    assert "  cat  " in sections["Read"]
    assert "zz-other      [heavy] things." in sections["Other commands"]
    assert "zz-" not in sections["Write"]


def test_without_a_line_the_summary_of_the_distribution_is_shown(offer, group):
    offer("weigh", "weigh")

    assert listed(group())["weigh"] == "Scales for reput"


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (None, "TypeError"),
        ("no_such_module_here", "ModuleNotFoundError"),
        ("raises_when_imported", "SystemExit: not here"),
    ],
)
def test_one_that_cannot_be_loaded_is_listed_and_its_call_says_what_to_do(
    offer, group, run, tmp_path, capsys, module, reason
):
    (tmp_path / "installed" / "raises_when_imported.py").write_text('raise SystemExit("not here")')
    offer("broken Is not well.", "no_command", **({"module": module} if module else {}))
    offer("weigh", "weigh")

    shown = listed(group())
    outcome = run("broken", "--help")
    other = run("weigh", "apples")

    assert shown["broken"] == "Is not well."
    assert capsys.readouterr().err == ""
    assert outcome.code == ExitCode.UNAVAILABLE
    assert outcome.err.count("\n") == 1
    assert "command 'broken' of scales 1.5" in outcome.err
    assert reason in outcome.err
    assert "update scales, or uninstall it" in outcome.err
    assert (other.code, other.out, other.err) == (ExitCode.OK, "weighed\n", "")


def test_debug_shows_why_one_cannot_be_loaded(offer, run):
    offer("broken", "weigh", module="no_such_module_here")

    outcome = run("--debug", "broken")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "Traceback" in outcome.err


def test_a_name_that_is_ours_stays_ours(offer, group, run, tmp_path, capsys):
    offer("info Something else.", "weigh")

    shown = listed(group())

    assert shown["info"] == "Show what a store holds, and its state."
    assert "scales 1.5 adds the command 'info', a name that is taken" in capsys.readouterr().err
    assert run("info", tmp_path / "nothing").code == ExitCode.NOT_FOUND


def test_of_two_with_one_name_the_first_counts(offer, group, capsys):
    offer("weigh One way.", "weigh")
    offer("weigh The other way.", "no_command", distribution="balance")

    shown = listed(group())

    assert shown["weigh"] == "One way."
    assert "balance 1.5 adds the command 'weigh', a name that is taken" in capsys.readouterr().err


def test_names_of_commands_and_of_their_commands_are_completed(offer, group):
    offer("weigh Weigh all things.", "weigh")
    complete = ShellComplete(group(), {}, "reput", "_REPUT_COMPLETE")

    names = [(item.value, item.help) for item in complete.get_completions([], "we")]
    below = [item.value for item in complete.get_completions(["weigh"], "")]

    assert names == [("weigh", "Weigh all things.")]
    assert below == ["apples"]
