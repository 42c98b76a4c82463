"""The commands of `reput` as a page: ``python docs/site/commandreference.py`` prints it.

The site has it where a page says ``<!-- commands -->``. Everything on it is what the commands
declare: their help, their options, and the keys of their JSON. It has the commands of all
distributions that are installed.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

import click
from markdowntext import anchor_of, code, inline, table

from reput_tools.cli.kit import Failure
from reput_tools.cli.kit.jsonkeys import JsonOption
from reput_tools.cli.root import reput as program

MARK = "<!-- commands -->"
COMMON = ("--follow-links", "--json", "--debug", "--help")
"""Options that nearly all commands have; the page names them once."""
_OWN = "reput-tools"


class Entry(NamedTuple):
    """A command, or a command below another one."""

    name: str
    """As it is called, such as ``plugins new``."""
    command: click.Command
    distribution: str


def entries() -> Iterator[Entry]:
    """Yield all commands, in the order of ``reput --help``, each with those below it."""
    homes = {
        each.name.split()[0]: each.dist.name if each.dist else ""
        for each in metadata.entry_points(group="reput.commands")
    }
    context = click.Context(program, info_name="reput")
    for name in program.list_commands(context):
        found = program.get_command(context, name)
        assert found is not None
        command: click.Command = found
        with contextlib.suppress(Failure):  # a broken distribution has only its line
            command = found.load()
        yield from _with_those_below(Entry(name, command, homes.get(name, _OWN)))


def _with_those_below(entry: Entry) -> Iterator[Entry]:
    yield entry
    if hasattr(entry.command, "list_commands"):
        context = click.Context(entry.command)
        for name in entry.command.list_commands(context):
            below = entry.command.get_command(context, name)
            yield from _with_those_below(entry._replace(name=f"{entry.name} {name}", command=below))


def reference() -> str:
    """Return the page below its first lines: a table of all commands, and a section for each."""
    found = list(entries())
    rows = []
    for entry in found:
        title = f"reput {entry.name}"
        link = f"[{code(title)}](#{anchor_of(title)})"
        rows.append((link, inline(entry.command.short_help or ""), code(entry.distribution)))
    overview = table(("command", "does", "distribution"), rows)
    return "\n".join([overview, *map(text_of, found)])


def text_of(entry: Entry) -> str:
    """Return the section of one command."""
    command = entry.command
    context = click.Context(command, info_name=f"reput {entry.name}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    parts = [f"## {code(f'reput {entry.name}')}\n", f"```text\n{usage}\n```\n"]
    parts += [f"{inline(' '.join(each.split()))}\n" for each in paragraphs]
    parts += [*_options(command, context), *_json(command)]
    if examples := _examples(command):
        parts.append(f"```console\n{examples}```\n")
    return "\n".join(parts)


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    common, rows = [], []
    for option in command.get_params(context):
        record = option.get_help_record(context)
        if not isinstance(option, click.Option) or record is None:
            continue
        if named := set(COMMON).intersection(option.opts):
            common += named
            continue
        rows.append((code(record[0]), inline(record[1])))
    if rows:
        yield table(("option", "does"), rows)
    if common:
        ordered = [code(each) for each in COMMON if each in common]
        yield f"Also {', '.join(ordered)}.\n"


def _json(command: click.Command) -> Iterator[str]:
    for option in command.params:
        if isinstance(option, JsonOption):
            yield f"**JSON:** {inline(option.what)}.\n"
            for form, keys in option.forms.items():
                if form:
                    yield f"{inline(form)}:\n"
                rows = [(code(key), inline(meaning)) for key, meaning in keys.items()]
                yield table(("key", "is"), rows)


def _examples(command: click.Command) -> str:
    lines = (command.epilog or "").splitlines()
    return "".join(f"$ {line.strip()}\n" for line in lines if line.strip().startswith(_CALLS))


_CALLS = ("reput ", "echo ", "eval ")


if __name__ == "__main__":
    sys.stdout.write(reference())
