"""``reput audit``: prints the counts as a table or as JSON."""

from __future__ import annotations

import click

from reput_audit._counts import Tally
from reput_audit.plugin import read_counts
from reput_tools.cli.kit import Column, format_timestamp, print_json, print_table


@click.command(short_help="Show how many messages were stored per topic and day.")
@click.argument("path", type=click.Path(file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def audit(path: str, as_json: bool) -> None:
    """Show how many messages were stored per topic and day (or hour)."""
    _print_counts(read_counts(path), as_json)


def _print_counts(totals: dict[tuple[str, int], Tally], as_json: bool) -> None:
    if as_json:
        names = ("topic", "start_timestamp", "message_count", "body_size")
        rows = [(*key, *tally) for key, tally in totals.items()]
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    columns = [Column("topic"), Column("from"), Column("messages", right=True)]
    columns.append(Column("bytes of bodies", right=True))
    print_table(
        columns,
        [
            (topic, format_timestamp(start), f"{count:,}", f"{size:,}")
            for (topic, start), (count, size) in totals.items()
        ],
    )
