"""``reput reset-offset``: have a group read a topic again, or skip some of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit import json_option, path_argument, with_debug

if TYPE_CHECKING:
    from reput_consumer.offsetreset import Reset

_EXAMPLES = """\b
Examples:
  reput reset-offset STORE billing orders --to earliest
  reput reset-offset STORE billing orders --to -2h
  reput reset-offset STORE billing orders --to 2026-01-31T12:00:00Z --yes
"""
_JSON = {
    "path": "the store's directory",
    "group": "the group",
    "topic": "the topic",
    "queues[].queue_id": "a queue",
    "queues[].before": "its offset before; null if it had none",
    "queues[].after": "its offset now",
}


@click.command(
    "reset-offset",
    short_help="Set the offset from which a group continues to read.",
    epilog=_EXAMPLES,
)
@path_argument
@click.argument("group")
@click.argument("topic")
@click.option(
    "--to",
    "where",
    metavar="WHERE",
    required=True,
    help="earliest, latest, a queue offset, a time ago (-90s, -1h, -2d), a time, @ and ms.",
)
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@json_option("one document", _JSON)
@with_debug
def reset_offset(
    path: str, group: str, topic: str, where: str, is_sure: bool, as_json: bool
) -> None:
    r"""Set the offset from which GROUP continues to read TOPIC of the store at PATH.

    A time means the first message stored at or after it. If a queue does not have the given queue
    offset, the command takes the nearest one. The command asks first. No other process may write
    the store meanwhile. A program with running consumers calls reset_offsets of its plugin instead.
    """
    from reput_consumer.command.storeopening import (
        changing_groups,
        reading_groups,
        require_topic,
    )
    from reput_consumer.names import checked_group, checked_topic
    from reput_tools.cli.kit import check_store, confirm, escape_text, print_json

    check_store(path)
    try:
        checked_group(group)
        checked_topic(topic)
    except ValueError as error:
        raise click.UsageError(escape_text(str(error))) from None
    to = _place(where)
    if not is_sure:
        with reading_groups(path) as (store, _):
            require_topic(store, topic, path)
        confirm(f"Move group {group} in topic {topic} to {where}?")
    with changing_groups(path) as (store, plugin):
        require_topic(store, topic, path)
        changes = plugin.reset_offsets(group, topic, to)
        root = store.root
    if as_json:
        rows = [_document(each) for each in changes]
        print_json({"path": root, "group": group, "topic": topic, "queues": rows})
    else:
        _print(changes)


def _place(text: str) -> Any:
    from reput.files import system_clock
    from reput_consumer.group.membersettings import Start
    from reput_tools.cli.kit import parse_start

    try:
        found = parse_start(text, system_clock())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to") from None
    kind = "timestamp" if found.kind == "time" else found.kind
    return Start(kind, max(found.value, 0))


def _document(change: Reset) -> dict[str, Any]:
    return {
        "queue_id": change.queue.queue_id,
        "before": change.before,
        "after": change.after,
    }


def _print(changes: list[Reset]) -> None:
    from reput_tools.cli.kit import Column, format_count, print_table

    columns = [
        Column("QUEUE", right=True),
        Column("BEFORE", right=True),
        Column("AFTER", right=True),
    ]
    print_table(
        columns,
        [
            (
                str(each.queue.queue_id),
                "-" if each.before is None else format_count(each.before),
                format_count(each.after),
            )
            for each in changes
        ],
    )
