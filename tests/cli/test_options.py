"""One meaning for each option and letter, in all commands."""

from __future__ import annotations

import re

import click

from reput_tools.cli.command.pluginscheck import check
from reput_tools.cli.command.pluginsnew import new
from reput_tools.cli.command.pluginsquery import query
from reput_tools.cli.root import _COMMANDS
from reput_tools.cli.root import reput as program


def own_commands():
    context = click.Context(program)
    found = {name: program.get_command(context, name).load() for name in _COMMANDS}
    return found | {"plugins new": new, "plugins check": check, "plugins query": query}


def every_command():
    """Also those that other distributions add, as far as they are installed."""
    context = click.Context(program)
    for name in program.list_commands(context):
        yield from with_those_below(name, program.get_command(context, name).load())


def with_those_below(name, command):
    yield name, command
    for below, each in getattr(command, "commands", {}).items():
        yield from with_those_below(f"{name} {below}", each)


def shown(command):
    """Long form and letter of each option that ``--help`` shows."""
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            letters = [form for form in option.opts if not form.startswith("--")]
            yield next(form for form in option.opts if form.startswith("--")), "".join(letters)


def test_what_is_said_to_be_everywhere_is_there() -> None:
    for name, command in own_commands().items():
        options = {long for long, _ in shown(command)}
        arguments = {each.name for each in command.params if isinstance(each, click.Argument)}
        assert "--debug" in options
        assert ("--json" in options) == (name != "completion")
        assert ("--follow-links" in options) == ("path" in arguments)


def test_no_letter_means_two_things() -> None:
    meanings: dict[str, str] = {}

    for name, command in every_command():
        for long, letter in shown(command):
            if letter:
                assert meanings.setdefault(letter, long) == long, f"{name} {letter}"


def test_texts_of_all_commands_read_as_by_one_hand() -> None:
    for name, command in own_commands().items():
        assert command.short_help, name
        assert re.fullmatch(r"[A-Z][^\n]*\.", command.short_help), name
        assert re.match(r"\s*[A-Z]", command.help or ""), name
        assert "Examples:" in (command.epilog or ""), name
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert re.fullmatch(r"[A-Z(][^\n]*\.", option.help or ""), (name, option.opts)
        assert f"reput {name}" in (command.epilog or ""), name
