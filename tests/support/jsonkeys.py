"""Compares JSON that a command prints with the keys that it declares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from reput_tools.cli.kit.jsonkeys import JsonOption
from reput_tools.cli.root import reput as program


def commands_with_json() -> dict[str, JsonOption]:
    """The option ``--json`` of each installed command, by the command's name."""
    context = click.Context(program)
    found = {}
    for name in program.list_commands(context):
        for words, command in _below(name, program.get_command(context, name).load()):
            for option in command.params:
                if isinstance(option, JsonOption):
                    found[words] = option
    return found


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    context = click.Context(command)
    if hasattr(command, "list_commands"):
        for below in command.list_commands(context):
            yield from _below(f"{name} {below}", command.get_command(context, below))


def forms_of(command: str) -> Mapping[str, Mapping[str, str]]:
    """The declared keys of a command, by the form of its document."""
    return commands_with_json()[command].forms


def keys_of(documents: Iterable[Any], declared: Mapping[str, str]) -> set[str]:
    """The keys that documents have, as far down as keys are declared."""
    return {path for document in documents for path in _paths(document, "", declared)}


def _paths(value: Any, path: str, declared: Mapping[str, str]) -> Iterator[str]:
    items = f"{path}[]"
    if path in declared:
        yield path
    elif items in declared and (value is None or isinstance(value, list)):
        yield items
    elif isinstance(value, list):
        for each in value:
            yield from _paths(each, items, declared)
    elif isinstance(value, dict):
        named = any(each.startswith(f"{path}.*") for each in declared)
        for name, each in value.items():
            yield from _paths(each, f"{path}.{'*' if named else name}".lstrip("."), declared)
    elif value is not None or not any(each.startswith((f"{path}.", items)) for each in declared):
        yield path
