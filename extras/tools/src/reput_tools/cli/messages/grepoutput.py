"""Prints what ``reput grep`` finds: lines with the matches marked, or numbers by topic."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit.output import (
    Column,
    format_count,
    json_line,
    name_column,
    print_json,
    print_table,
    styled,
)
from reput_tools.cli.messages.queuereader import Placed

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_tools.cli.messages.bodysearch import BodySearch
    from reput_tools.cli.messages.messagerender import Render

    Found = Iterable[tuple[MessageView, bool]]

_MATCH, _NEIGHBOUR = b"> ", b"  "
_BETWEEN = b"--\n"


def marker(needle: BodySearch | None) -> Callable[[str], str]:
    """Return what marks the occurrences in a line of text, if stdout shows colours."""
    if needle is None or not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return str

    def mark(found: re.Match[str]) -> str:
        return styled(found[0], fg="red", bold=True) if found[0] else ""

    pattern = needle.pattern
    return lambda text: pattern.sub(mark, text)


def print_matches(found: Found, render: Render, limit: int | None, *, has_marks: bool) -> int:
    """Print messages as lines, and return how many matched.

    Args:
        found: messages, and whether each is a match or near one.
        render: makes the lines.
        limit: of matches; None for all.
        has_marks: whether to tell matches from their neighbours, and to part what is not together.
    """
    stream, count = sys.stdout.buffer, 0
    last: tuple[str, int, int] | None = None
    for message, is_match in found:
        if is_match and count == limit:
            break
        count += is_match
        if has_marks:
            place = (message.topic, message.queue_id, message.queue_offset)
            if last is not None and place != (*last[:2], last[2] + 1):
                stream.write(_BETWEEN)
            last = place
            stream.write(_MATCH if is_match else _NEIGHBOUR)
        stream.writelines(render(Placed(message.queue_offset, message)))
        if count == limit and not has_marks:
            break
    return count


def print_json_matches(
    found: Found,
    document: Callable[[MessageView], dict[str, Any]],
    limit: int | None,
    *,
    has_marks: bool,
) -> int:
    """Print messages as JSON objects, and return how many matched; else as `print_matches`."""
    stream, count = sys.stdout.buffer, 0
    for message, is_match in found:
        if is_match and count == limit:
            break
        count += is_match
        told = {"is_match": is_match} if has_marks else {}
        stream.write(json_line(document(message) | told))
        if count == limit and not has_marks:
            break
    return count


def print_totals(found: Found, *, as_json: bool) -> int:
    """Print how many messages there are by topic, and return how many in all."""
    counts = Counter(message.topic for message, _ in found)
    if as_json:
        topics = [
            {"topic": topic, "message_count": count} for topic, count in sorted(counts.items())
        ]
        print_json({"message_count": counts.total(), "topics": topics})
    elif counts:
        rows = [(topic, format_count(count)) for topic, count in sorted(counts.items())]
        print_table([name_column("TOPIC"), Column("MESSAGES", right=True)], rows)
        if len(rows) > 1:
            click.echo(f"\n{format_count(counts.total(), 'message')} in {len(rows)} topics")
    return counts.total()
