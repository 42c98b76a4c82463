"""Print the results of compactions for a command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import click

if TYPE_CHECKING:
    from reput_compaction.run.compaction import Compacted


def print_compacted(results: Sequence[Compacted], *, as_json: bool) -> None:
    """Print what became of each queue: a table, or a document for programs."""
    from reput_tools.cli.kit import Column, name_column, print_json, print_table

    if as_json:
        print_json({"queues": [attrs.asdict(each) for each in results]})
        return
    if not results:
        click.echo("nothing to compact")
        return
    columns = [
        name_column("TOPIC"),
        Column("QUEUE", right=True),
        Column("MESSAGES", right=True),
        Column("KEPT", right=True),
        Column("SIZE", right=True),
        Column("KEPT", right=True),
        Column("FILES", right=True),
        Column("KEPT", right=True),
    ]
    print_table(columns, [_row(each) for each in results])


def _row(each: Compacted) -> list[str]:
    from reput_tools.cli.kit import format_count, format_size

    return [
        each.topic,
        str(each.queue_id),
        format_count(each.messages_before),
        format_count(each.messages_after),
        format_size(each.size_before),
        format_size(each.size_after),
        format_count(each.files_before),
        format_count(each.files_after),
    ]
