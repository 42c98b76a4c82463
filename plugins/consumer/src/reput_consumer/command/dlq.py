"""``reput dlq``: what groups have given up, and giving it to them once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit import json_option, path_argument, with_debug

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput import MessageView, Store

_EXAMPLES = """\b
Examples:
  reput dlq ls STORE billing
  reput dlq resend STORE billing 7F00000100002A9F0000000000000B5C
  reput dlq resend STORE billing --all --yes
"""
_STEP = 256
_LETTER = {
    "msg_id": "the offset message id, which `resend` takes",
    "queue_offset": "its place in the dead letter topic",
    "topic": "the original topic of the message",
    "origin_msg_id": "the original message",
    "reconsume_times": "number of failed deliveries",
    "tags": "its tags, or null",
    "keys[]": "its keys",
    "born_timestamp": "when the producer made it",
    "store_timestamp": "when it became a dead letter",
    "body_size": "bytes of its body",
}
_RESENT = {
    "path": "the store's directory",
    "group": "the group",
    "resent[]": "ids of the dead letters",
}


@click.group("dlq", short_help="Show and resend dead letters.", epilog=_EXAMPLES)
def dlq() -> None:
    """Show messages that consumer groups have given up, or send them to their groups again."""


@dlq.command("ls", short_help="List a group's dead letters.")
@path_argument
@click.argument("group")
@json_option("a line for each message", _LETTER)
@with_debug
def ls(path: str, group: str, as_json: bool) -> None:
    r"""List the dead letters of GROUP in the store at PATH, oldest first."""
    from reput_consumer.command.storeopening import reading_groups
    from reput_tools.cli.kit import format_count, json_line

    group = _checked(group)
    with reading_groups(path) as (store, _):
        found = list(_letters(store, group))
        if as_json:
            for each in found:
                click.echo(json_line(_document(each)), nl=False)
        elif found:
            _print(found)
            click.echo()
            click.echo(
                f"{format_count(len(found), 'dead letter')}; "
                f"reput dlq resend {path} {group} {found[0].msg_id} gives it the first once more"
            )
        else:
            click.echo(f"No dead letters of group {group} in the store at {store.root}.")


@dlq.command("resend", short_help="Send dead letters to their group again.")
@path_argument
@click.argument("group")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "takes_all", is_flag=True, help="All dead letters of the group.")
@click.option("-y", "--yes", "is_sure", is_flag=True, help="Do not ask.")
@json_option("one document", _RESENT)
@with_debug
def resend(
    path: str, group: str, ids: tuple[str, ...], takes_all: bool, is_sure: bool, as_json: bool
) -> None:
    r"""Put copies of dead letters into the retry topic of GROUP, in the store at PATH.

    Only that group gets them, as if they had never failed. The dead letters themselves stay
    until retention removes them. No other process may write the store meanwhile.
    """
    from reput_consumer.command.storeopening import changing_groups, reading_groups
    from reput_tools.cli.kit import confirm, format_count, print_json

    group = _checked(group)
    if bool(ids) == takes_all:
        raise click.UsageError("name the message ids that `reput dlq ls` shows, or --all")
    with reading_groups(path) as (store, _):
        count = len(_chosen(store, group, ids))
    what = format_count(count, "dead letter")
    if not is_sure:
        confirm(f"Resend {what} to group {group}?")
    with changing_groups(path) as (store, plugin):
        letters = _chosen(store, group, ids)  # there may be more by now, or fewer
        plugin.resend(group, letters)
        chosen, root = [each.msg_id for each in letters], store.root
    if as_json:
        print_json({"path": root, "group": group, "resent": chosen})
    else:
        click.echo(f"{format_count(len(chosen), 'message')} resent to group {group}")


def _checked(group: str) -> str:
    from reput_consumer.names import checked_group
    from reput_tools.cli.kit import escape_text

    try:
        return checked_group(group)
    except ValueError as error:
        raise click.UsageError(escape_text(str(error))) from None


def _chosen(store: Store, group: str, ids: tuple[str, ...]) -> list[MessageView]:
    """Return the dead letters that are named, or all where none is.

    Raises:
        Failure: there is no such dead letter, or none at all.
    """
    from reput_tools.cli.kit import ExitCode, Failure

    found = {each.msg_id: each for each in _letters(store, group)}
    if not found:
        text = f"no dead letters of group {group}; `reput groups PATH` shows which groups have some"
        raise Failure(text, ExitCode.NOT_FOUND)
    for each in ids:
        if each not in found:
            text = f"{each}: no dead letter of group {group}; `reput dlq ls` lists them"
            raise Failure(text, ExitCode.NOT_FOUND)
    return [found[each] for each in dict.fromkeys(ids or found)]


def _letters(store: Store, group: str) -> Iterator[MessageView]:
    from reput_consumer.names import dead_letter_topic

    offset, topic = 0, dead_letter_topic(group)
    while True:
        result = store.read(topic, 0, offset, _STEP)
        yield from result
        if result.next_queue_offset <= offset:
            return
        offset = result.next_queue_offset


def _document(message: MessageView) -> dict[str, Any]:
    return {
        "msg_id": message.msg_id,
        "queue_offset": message.queue_offset,
        "topic": message.properties.get("RETRY_TOPIC"),
        "origin_msg_id": message.properties.get("ORIGIN_MESSAGE_ID"),
        "reconsume_times": message.reconsume_times,
        "tags": message.tags,
        "keys": list(message.keys),
        "born_timestamp": message.born_timestamp,
        "store_timestamp": message.store_timestamp,
        "body_size": len(message.body),
    }


def _print(found: list[MessageView]) -> None:
    from reput.files import system_clock
    from reput_tools.cli.kit import Column, escape_text, format_duration, name_column, print_table

    now = system_clock()
    columns = [
        Column("AGE", right=True),
        name_column("TOPIC"),
        Column("KEYS", shrink=True),
        Column("FAILED", right=True),
        Column("ID"),
    ]
    rows = [
        (
            format_duration(max(now - each.store_timestamp, 0) / 1_000),
            escape_text(each.properties.get("RETRY_TOPIC", "-")),
            escape_text(" ".join(each.keys) or "-"),
            str(each.reconsume_times),
            each.msg_id,
        )
        for each in found
    ]
    print_table(columns, rows)
