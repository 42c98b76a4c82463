"""Consumer groups as tables: how far they are, and who is in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from reput_consumer.names import SYSTEM_GROUP_PREFIX, is_retry_topic
from reput_tools.cli.kit import (
    Column,
    escape_text,
    format_count,
    format_duration,
    format_timestamp,
    name_column,
    print_facts,
    print_table,
)

if TYPE_CHECKING:
    from reput_consumer.groupprogress import GroupProgress, QueueProgress
    from reput_consumer.memberlist.snapshot import GroupMember, MemberList

_UNKNOWN = "?"
_MIXED = "members subscribe differently, so each leaves out messages that no other member reads"


def print_groups(
    path: str,
    found: Sequence[GroupProgress],
    rates: Mapping[str, float],
    roster: MemberList,
    now: int,
) -> None:
    """Print one row for each group.

    Args:
        path: the store, as the user has written it.
        found: the groups; one at least.
        rates: messages per second by group; empty to show none.
        roster: their members.
        now: ms.
    """
    columns = [
        name_column("GROUP"),
        name_column("TOPICS"),
        Column("MEMBERS", right=True),
        Column("LAG", right=True),
        Column("OLDEST", right=True),
        Column("RETRIES", right=True),
        Column("DEAD", right=True),
    ]
    rows: list[tuple[str, ...]] = [
        (
            escape_text(each.group),
            escape_text(" ".join(_topics(each)) or "-"),
            format_count(len(each.members)) if roster.is_known else _UNKNOWN,
            format_count(each.lag),
            _age(each.oldest_timestamp, now),
            format_count(each.retry_lag),
            format_count(each.dead_letter_count),
        )
        for each in found
    ]
    if any(each.out_count for each in found):
        columns.append(Column("OUT", right=True))
        rows = [(*row, format_count(each.out_count)) for row, each in zip(rows, found, strict=True)]
    if rates:
        columns.append(Column("MSG/S", right=True))
        rows = [(*row, f"{rates[each.group]:,.1f}") for row, each in zip(rows, found, strict=True)]
    print_table(columns, rows)
    click.echo()
    if (text := _writer(roster)) is not None:
        click.echo(text)
    for each in found:
        if each.is_mixed:
            click.echo(f"{escape_text(each.group)}: {_MIXED}")
        if each.ignored_offsets:
            click.echo(f"{escape_text(each.group)}: {_ignored(each)}")
    # RocketMQ's own groups are of no interest to most readers.
    shown = max(found, key=lambda each: (not each.group.startswith(SYSTEM_GROUP_PREFIX), each.lag))
    name = escape_text(shown.group)
    click.echo(f"{format_count(len(found), 'group')}; reput groups {path} {name} shows its queues")


def print_group(progress: GroupProgress, rate: float | None, roster: MemberList, now: int) -> None:
    """Print a group's figures, its queues and its members."""
    facts = [("lag", format_count(progress.lag, "message"))]
    if progress.oldest_timestamp is not None:
        age = _age(progress.oldest_timestamp, now)
        facts.append(("oldest", f"{format_timestamp(progress.oldest_timestamp)} ({age} old)"))
    if progress.out_count:
        age = _age(progress.out_since, now)
        facts.append(("out", f"{format_count(progress.out_count, 'message')}, for up to {age}"))
    facts.append(("dead letters", format_count(progress.dead_letter_count)))
    count = format_count(len(progress.members)) if roster.is_known else _UNKNOWN
    text = _writer(roster)
    facts.append(("members", count if text is None else f"{count} ({text})"))
    if progress.is_mixed:
        facts.append(("warning", _MIXED))
    if progress.ignored_offsets:
        facts.append(("warning", _ignored(progress)))
    if rate is not None:
        facts.append(("consumed", f"{rate:,.1f} messages/s"))
    print_facts(facts, indent=0)
    if progress.queues:
        click.echo()
        _print_queues(progress, now)
    if progress.members:
        click.echo()
        _print_members(progress.members, now)


def _ignored(progress: GroupProgress) -> str:
    """Return what is to be said of the offsets in the file that are negative."""
    found = sorted(progress.ignored_offsets.items())
    (topic, queue_id), offset = found[0]
    others = f" and {format_count(len(found) - 1, 'other')}" if len(found) > 1 else ""
    return (
        f"offset {offset} of {escape_text(topic)}/{queue_id}{others} is ignored, because it is "
        "negative: the group begins there like a new one; `reput reset-offset` sets it"
    )


def _writer(roster: MemberList) -> str | None:
    """Return what is to be said of the process whose members are shown; None for nothing."""
    if roster.is_known and not roster.members:
        return None
    pid = roster.writer_pid
    process = "another process" if pid is None else f"process {pid}"
    if not roster.is_known:
        return f"{process} has the store open, and has not told who is in its groups"
    if not roster.is_complete:
        return f"in {process}, which has more members than it tells"
    return f"in {process}"


def _print_queues(progress: GroupProgress, now: int) -> None:
    holders = _holders(progress.members)
    columns = [
        name_column("TOPIC"),
        Column("QUEUE", right=True),
        Column("OFFSET", right=True),
        Column("END", right=True),
        Column("LAG", right=True),
        Column("OLDEST", right=True),
    ]
    rows: list[tuple[str, ...]] = [_row(each, now) for each in progress.queues]
    if progress.out_count:
        columns += [Column("OUT", right=True), Column("SINCE", right=True)]
        rows = [
            (*row, format_count(each.out_count), _age(each.out_since, now))
            for row, each in zip(rows, progress.queues, strict=True)
        ]
    if holders:
        columns.append(name_column("MEMBER"))
        rows = [
            (*row, escape_text(" ".join(holders.get((each.topic, each.queue_id), ["-"]))))
            for row, each in zip(rows, progress.queues, strict=True)
        ]
    print_table(columns, rows)


def _row(queue: QueueProgress, now: int) -> tuple[str, ...]:
    return (
        escape_text(queue.topic),
        str(queue.queue_id),
        format_count(queue.offset),
        format_count(queue.max_offset),
        format_count(queue.lag),
        _age(queue.oldest_timestamp, now),
    )


def _holders(members: Iterable[GroupMember]) -> dict[tuple[str, int], list[str]]:
    """Return client ids by queue; several of a broadcasting group, or while queues change hands."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for each in members:
        for queue in each.queues or ():
            found[queue].append(each.member)
    return found


def _print_members(members: Sequence[GroupMember], now: int) -> None:
    columns = [
        name_column("MEMBER"),
        Column("SINCE", right=True),
        Column("QUEUES", right=True),
        name_column("READS"),
    ]
    rows = [
        (
            escape_text(each.member),
            _age(each.since_timestamp, now),
            _queue_count(each),
            escape_text(" ".join(topic for topic in each.topics if not is_retry_topic(topic)))
            + ", all messages" * each.broadcast
            + ", by pop" * each.pops,
        )
        for each in members
    ]
    print_table(columns, rows)
    if any(each.queues is None and not each.pops for each in members):
        click.echo("\n? clients of a server share queues out among themselves, and tell nobody")


def _queue_count(member: GroupMember) -> str:
    if member.pops:
        return "all"
    return _UNKNOWN if member.queues is None else format_count(len(member.queues))


def _topics(progress: GroupProgress) -> list[str]:
    """Return what the group has read, or its members read now."""
    found = {each.topic for each in progress.queues}
    found.update(*(each.topics for each in progress.members))
    return sorted(topic for topic in found if not is_retry_topic(topic))


def _age(timestamp: int | None, now: int) -> str:
    return "-" if timestamp is None else format_duration(max(now - timestamp, 0) / 1_000)
