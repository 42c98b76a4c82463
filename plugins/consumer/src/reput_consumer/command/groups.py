"""``reput groups``: which groups there are, and how far each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput_cli.kit import json_option, path_argument, with_debug

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput_consumer.plugin import ConsumerPlugin
    from reput_consumer.progress import GroupProgress, QueueProgress

__all__ = ["groups"]

_EXAMPLES = """\b
Examples:
  reput groups STORE
  reput groups STORE billing --rate 5
  reput groups STORE --json | jq '.groups[] | select(.lag > 0)'
"""


@click.command("groups", short_help="Show consumer groups, and how far they are.", epilog=_EXAMPLES)
@path_argument
@click.argument("group", required=False)
@click.option(
    "--rate",
    "seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1, max=3_600),
    help="Look twice, so long apart, and show how many messages a second were consumed.",
)
@json_option("one document")
@with_debug
def groups(path: str, group: str | None, seconds: float | None, as_json: bool) -> None:
    r"""Show how far consumer groups are in the store at PATH, one of them queue by queue.

    Another process may write the store, and consume from it: what it has saved is shown, which is
    some five seconds old. Who the members of a group are is known only in their process.
    """
    from reput_cli.kit import print_json
    from reput_consumer.command.opening import reading_groups

    with reading_groups(path) as (store, plugin):
        before = _progress(plugin, group)
        rates: dict[str, float] = {}
        if seconds is not None:
            found, rates = _again(plugin, group, before, seconds)
        else:
            found = before
        if as_json:
            rows = [_document(each, rates.get(each.group)) for each in found]
            print_json({"path": store.root, "problems": list(store.problems), "groups": rows})
        elif group is not None:
            _print_queues(found[0], rates.get(group), _now())
        elif found:
            _print_groups(path, found, rates, _now())
        else:
            click.echo(f"No consumer groups in the store at {store.root}.")


def _progress(plugin: ConsumerPlugin, group: str | None) -> list[GroupProgress]:
    from reput_cli.kit import ExitCode, Failure, escape_text

    known = plugin.groups()
    if group is not None and group not in known:
        text = f"no group {escape_text(group)!r} in this store; `reput groups PATH` lists them"
        raise Failure(text, ExitCode.NOT_FOUND)
    return [plugin.progress(name) for name in (known if group is None else [group])]


def _again(
    plugin: ConsumerPlugin, group: str | None, before: Sequence[GroupProgress], seconds: float
) -> tuple[list[GroupProgress], dict[str, float]]:
    """Look once more after some seconds; return that, and messages a second by group."""
    import time

    start = time.monotonic()
    time.sleep(seconds)  # a rate takes two looks, as far apart as the user asked for
    found = _progress(plugin, group)
    took = time.monotonic() - start
    earlier = {each.group: _consumed(each) for each in before}
    rates = {
        each.group: max(_consumed(each) - earlier.get(each.group, 0), 0) / took for each in found
    }
    return found, rates


def _consumed(progress: GroupProgress) -> int:
    return sum(each.offset for each in progress.queues)


def _now() -> int:
    from reput.files import system_clock

    return system_clock()


# --------------------------------------------------------------------------- showing


def _document(progress: GroupProgress, rate: float | None) -> dict[str, Any]:
    document = {
        "group": progress.group,
        "lag": progress.lag,
        "retry_lag": progress.retry_lag,
        "dead_letter_count": progress.dead_letter_count,
        "oldest_timestamp": progress.oldest_timestamp,
        "queues": [
            {
                "topic": each.topic,
                "queue_id": each.queue_id,
                "offset": each.offset,
                "min_offset": each.min_offset,
                "max_offset": each.max_offset,
                "lag": each.lag,
                "oldest_timestamp": each.oldest_timestamp,
            }
            for each in progress.queues
        ],
    }
    return document if rate is None else {**document, "messages_per_second": round(rate, 3)}


def _print_groups(
    path: str, found: Sequence[GroupProgress], rates: dict[str, float], now: int
) -> None:
    from reput_cli.kit import Column, escape_text, format_count, print_table

    columns = [
        Column("GROUP", shrink=True),
        Column("TOPICS", shrink=True),
        Column("LAG", right=True),
        Column("OLDEST", right=True),
        Column("RETRIES", right=True),
        Column("DEAD", right=True),
    ]
    rows: list[tuple[str, ...]] = [
        (
            escape_text(each.group),
            escape_text(" ".join(_topics(each)) or "-"),
            format_count(each.lag),
            _age(each.oldest_timestamp, now),
            format_count(each.retry_lag),
            format_count(each.dead_letter_count),
        )
        for each in found
    ]
    if rates:
        columns.append(Column("MSG/S", right=True))
        rows = [(*row, f"{rates[each.group]:,.1f}") for row, each in zip(rows, found, strict=True)]
    print_table(columns, rows)
    click.echo()
    name = escape_text(found[0].group)
    click.echo(f"{format_count(len(found), 'group')}; reput groups {path} {name} shows its queues")


def _print_queues(progress: GroupProgress, rate: float | None, now: int) -> None:
    from reput_cli.kit import (
        Column,
        escape_text,
        format_count,
        format_timestamp,
        print_facts,
        print_table,
    )

    facts = [("lag", format_count(progress.lag, "message"))]
    if progress.oldest_timestamp is not None:
        age = _age(progress.oldest_timestamp, now)
        facts.append(("oldest", f"{format_timestamp(progress.oldest_timestamp)} ({age} old)"))
    facts.append(("dead letters", format_count(progress.dead_letter_count)))
    if rate is not None:
        facts.append(("consumed", f"{rate:,.1f} messages/s"))
    print_facts(facts, indent=0)
    if not progress.queues:
        return
    click.echo()
    columns = [
        Column("TOPIC", shrink=True),
        Column("QUEUE", right=True),
        Column("OFFSET", right=True),
        Column("END", right=True),
        Column("LAG", right=True),
        Column("OLDEST", right=True),
    ]
    print_table(columns, [_row(each, now, escape_text(each.topic)) for each in progress.queues])


def _row(queue: QueueProgress, now: int, topic: str) -> tuple[str, ...]:
    from reput_cli.kit import format_count

    return (
        topic,
        str(queue.queue_id),
        format_count(queue.offset),
        format_count(queue.max_offset),
        format_count(queue.lag),
        _age(queue.oldest_timestamp, now),
    )


def _topics(progress: GroupProgress) -> list[str]:
    from reput_consumer.names import is_retry_topic

    return sorted({each.topic for each in progress.queues if not is_retry_topic(each.topic)})


def _age(timestamp: int | None, now: int) -> str:
    from reput_cli.kit import format_duration

    return "-" if timestamp is None else format_duration(max(now - timestamp, 0) / 1_000)
