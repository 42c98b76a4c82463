"""A text that is no path, for any path of any command: exit code 2, one sentence, nothing done."""

from __future__ import annotations

import click
import pytest
from commands import commands

from reput_tools.cli.kit import CheckedPath
from reput_tools.cli.root import reput as command_line

_NAMES_OF_PATHS = {"path", "paths", "source", "store", "target"}
_GIVEN = {"topic": "orders", "group": "g", "plugin": "index", "name": "x", "where": "earliest"}


def _leaves(group, context, above=()):
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        command = command.load() if hasattr(command, "load") else command
        if isinstance(command, click.Group):
            yield from _leaves(command, context, (*above, name))
        else:
            yield (*above, name), command


def _all():
    fresh = type(command_line)("reput")
    return list(_leaves(fresh, click.Context(fresh)))


def _places():
    """Every argument and option that takes a path: its command, and the parameter."""
    return [
        pytest.param(names, command, parameter, id=f"{'-'.join(names)}-{parameter.name}")
        for names, command in _all()
        if names[0] != "spark"  # its commands have tests of their own
        for parameter in command.params
        if isinstance(parameter.type, click.Path)
    ]


def _arguments(command, parameter, value, others):
    """The command line in which ``parameter`` is ``value``, and others are what they have to be."""
    line = []
    for each in command.params:
        if each is parameter:
            line += [value] if isinstance(each, click.Argument) else [each.opts[0], value]
        elif isinstance(each, click.Argument):
            if each.required or each.name == "path":
                is_place = isinstance(each.type, click.Path)
                line.append(str(others) if is_place else _GIVEN.get(each.name, "x"))
        elif each.required:
            line += [each.opts[0], "1GB"]
    return line


@pytest.fixture
def run():
    with commands() as run:
        yield run


def test_no_command_takes_a_path_that_is_not_checked():
    found = {
        ("-".join(names), parameter.name)
        for names, command in _all()
        for parameter in command.params
        if isinstance(parameter.type, click.Path) or parameter.name in _NAMES_OF_PATHS
        if not isinstance(parameter.type, CheckedPath)
    }

    assert found == set()
    assert len(_places()) > 35


@pytest.mark.parametrize(("value", "said"), [("", "empty"), ("a\0b", "NUL byte")])
@pytest.mark.parametrize(("names", "command", "parameter"), _places())
def test_a_text_that_is_no_path_is_a_wrong_command_line(
    tmp_path, run, monkeypatch, names, command, parameter, value, said
):
    monkeypatch.chdir(tmp_path)

    outcome = run(*names, *_arguments(command, parameter, value, tmp_path / "store"))

    assert outcome.code == 2, outcome
    assert said in outcome.err
    assert "this is a bug" not in outcome.err
    assert outcome.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("names", "command"),
    [
        pytest.param(names, command, id="-".join(names))
        for names, command in _all()
        if any(each.name == "path" and isinstance(each.type, click.Path) for each in command.params)
    ],
)
def test_a_file_is_no_store(tmp_path, run, names, command):
    file = tmp_path / "file"
    file.write_text("of somebody")
    (parameter,) = (each for each in command.params if each.name == "path")

    outcome = run(*names, *_arguments(command, parameter, str(file), tmp_path))

    assert outcome.code == 2, outcome
    assert f"'{file}' is a file" in outcome.err
    assert file.read_text() == "of somebody"
