"""Prints the results of a rebuild or of a comparison, as a table or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click

from reput_tools.cli.kit.escape import escape_text
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.output import Column, format_size, print_json, print_table
from reput_tools.cli.kit.timestamps import format_duration

if TYPE_CHECKING:
    from reput_tools.offline import Rebuilt


def print_rebuilt(root: str, built: list[Rebuilt], *, as_json: bool) -> None:
    """Print the results of a rebuild or comparison; end with exit code 1 if files differ."""
    if as_json:
        _print_json(root, built)
    else:
        print_built(root, built)
    if any(each.differences for each in built):
        raise click.exceptions.Exit(ExitCode.DAMAGED)


def _print_json(root: str, built: list[Rebuilt]) -> None:
    print_json({"path": root, "plugins": [attrs.asdict(each) for each in built]})


def print_built(root: str, built: list[Rebuilt]) -> None:
    """Print the results of a rebuild or comparison as a table."""
    if not built:
        click.echo(f"{root}: none of its plugins derives files from the log")
        return
    rows = []
    for each in built:
        seconds = max(each.seconds, 1e-9)
        how = f"{each.split_count} splits" if each.split_count > 1 else "in one piece"
        if each.differences is not None:
            how += f", {_outcome(each)}"
        rows.append(
            [
                each.plugin,
                f"{each.message_count:,}",
                format_size(each.size),
                format_duration(each.seconds),
                f"{format_size(round(each.size / seconds))}/s",
                how if each.reason is None else f"{how}: {each.reason}",
            ]
        )
    columns = [
        Column("PLUGIN"),
        Column("MESSAGES", right=True),
        Column("LOG", right=True),
        Column("TIME", right=True),
        Column("RATE", right=True),
        Column("BUILT", shrink=True),
    ]
    print_table(columns, rows)
    for each in built:
        for found in each.differences or ():
            click.echo(f"{escape_text(found.path)}, byte {found.position}: {found.reason}")
        for what in each.not_compared:
            click.echo(f"{each.plugin}, not compared: {escape_text(what)}")
        for what in each.assumed:
            click.echo(f"{each.plugin}, assumed: {escape_text(what)}")


def _outcome(compared: Rebuilt) -> str:
    if compared.differences:
        return "differs"
    return "the same in what can be compared" if compared.not_compared else "the same"
