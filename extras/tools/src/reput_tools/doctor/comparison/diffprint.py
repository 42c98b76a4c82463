"""Prints a comparison in a terminal: the verdict, counts, then tables of what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from reput_tools.cli.kit import (
    Column,
    escape_text,
    format_count,
    format_duration,
    format_size,
    name_column,
    print_facts,
    print_heading,
    print_table,
    styled,
)

if TYPE_CHECKING:
    from reput_tools.doctor.comparison.storediff import QueueRange, SideFacts, StoreDiff

_ROWS: Final = 20


def print_diff(found: StoreDiff) -> None:
    """Print a comparison."""
    verdict = styled("equal", fg="green", bold=True)
    if not found.is_equal:
        verdict = styled("different", fg="red", bold=True)
    limits = ""
    if found.is_equal:
        unread = found.a.damage_count or found.b.damage_count
        limits = " in what can be read" if unread else ""
        limits += " in what was compared" if found.not_compared and not unread else ""
    click.echo(f"The stores are {verdict}{limits}.")
    print_facts([("a", _side(found.a)), ("b", _side(found.b))])
    print_heading("Messages")
    print_facts(_counts(found))
    _print_missing(found)
    _print_changed(found)
    _print_queues(found)
    _print_values(found)
    _print_files(found)
    for name, side in (("a", found.a), ("b", found.b)):
        if side.damage_count:
            places = format_count(side.damage_count, "place")
            click.echo(
                f"\nThe log of {name} is damaged in {places}; reput verify "
                f"{escape_text(side.path)} names what is lost there."
            )
    for text in found.not_compared:
        click.echo(f"\nNot compared: {escape_text(text)}.")


def _side(side: SideFacts) -> str:
    size = format_size(side.log_end - side.log_start)
    text = f"{side.path}: {format_count(side.message_count, 'message')}, {size} of log"
    if side.is_open:
        text += f", compared up to physical offset {side.log_end}, as a process is writing it"
    return text


def _counts(found: StoreDiff) -> Iterator[tuple[str, str]]:
    yield "the same", format_count(found.equal_count)
    if found.moved_count:
        yield "of these moved", f"{found.moved_count:,} stand elsewhere in the log"
    yield "different", format_count(found.changed_count)
    yield "only in a", format_count(found.only_in_a)
    yield "only in b", format_count(found.only_in_b)
    for name, count in found.fields.items():
        yield f"other {name}", format_count(count, "message")
    yield "compared in", format_duration(found.seconds)


def _print_missing(found: StoreDiff) -> None:
    columns = [
        Column("IN"),
        name_column("TOPIC"),
        Column("QUEUE", right=True),
        Column("QUEUE OFFSETS", right=True),
        Column("MESSAGES", right=True),
        Column("PHYSICAL OFFSET", right=True),
    ]
    rows = []
    for each in found.missing[:_ROWS]:
        offsets = str(each.first) if each.first == each.last else f"{each.first} to {each.last}"
        rows.append(
            (
                each.side,
                each.topic,
                str(each.queue_id),
                offsets if each.in_queue else "in no queue",
                format_count(each.count),
                str(each.physical_offset),
            )
        )
    _print_table("Only in one store", columns, rows, len(found.missing))


def _print_changed(found: StoreDiff) -> None:
    columns = [
        name_column("TOPIC"),
        Column("QUEUE", right=True),
        Column("QUEUE OFFSET", right=True),
        Column("DIFFERENT", shrink=True),
        Column("OFFSET IN A", right=True),
        Column("OFFSET IN B", right=True),
    ]
    rows = []
    for each in found.changed[:_ROWS]:
        names = [name for name in each.fields if name != "properties" or not each.properties]
        if each.properties:
            names.append(f"properties {', '.join(each.properties)}")
        rows.append(
            (
                each.topic,
                str(each.queue_id),
                str(each.queue_offset),
                ", ".join(names),
                str(each.physical_offset_a),
                str(each.physical_offset_b),
            )
        )
    _print_table("Different messages", columns, rows, found.changed_count)


def _print_queues(found: StoreDiff) -> None:
    columns = [
        name_column("TOPIC"),
        Column("QUEUE", right=True),
        Column("OFFSETS IN A", right=True),
        Column("OFFSETS IN B", right=True),
        Column("MESSAGES IN A", right=True),
        Column("MESSAGES IN B", right=True),
    ]
    rows = [
        (
            each.topic,
            str(each.queue_id),
            _range(each.a),
            _range(each.b),
            "-" if each.a is None else format_count(each.a.message_count),
            "-" if each.b is None else format_count(each.b.message_count),
        )
        for each in found.queues[:_ROWS]
    ]
    _print_table("Queues", columns, rows, len(found.queues))


def _print_values(found: StoreDiff) -> None:
    for title, values in (("Offsets and configuration", found.values), ("Options", found.settings)):
        columns = [
            Column("FILE", shrink=True),
            Column("VALUE", shrink=True),
            Column("A", shrink=True),
            Column("B", shrink=True),
        ]
        rows = [
            (each.file, each.name or "(file)", _value(each.a), _value(each.b))
            for each in values[:_ROWS]
        ]
        _print_table(title, columns, rows, len(values))


def _print_files(found: StoreDiff) -> None:
    columns = [
        Column("FILE", shrink=True),
        Column("POSITION", right=True),
        Column("DIFFERENCE", shrink=True),
    ]
    rows = [(each.file, str(each.position), each.reason) for each in found.files[:_ROWS]]
    _print_table("Derived files", columns, rows, len(found.files))


def _range(found: QueueRange | None) -> str:
    return "-" if found is None else f"{found.min_queue_offset} to {found.max_queue_offset}"


def _value(text: str | None) -> str:
    return "-" if text is None else text


def _print_table(
    title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]], count: int
) -> None:
    """Print rows under a heading, and how many of ``count`` are not shown; nothing without rows."""
    if not rows:
        return
    print_heading(title)
    print_table(columns, rows)
    if count > len(rows):
        more = f"… and {count - len(rows):,} more; --json lists more of them"
        click.echo(styled(more, dim=True))
