"""``reput groups``: which groups there are, and how far each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from reput_tools.cli.kit import STORE_KEYS, Seconds, below, json_option, path_argument, with_debug

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput_consumer.groupprogress import GroupProgress
    from reput_consumer.memberlist.snapshot import GroupMember, MemberList
    from reput_consumer.plugin import ConsumerPlugin

_EXAMPLES = """\b
Examples:
  reput groups STORE
  reput groups STORE billing --rate 5
  reput groups STORE --json | jq '.groups[] | select(.lag > 0)'
"""
_JSON = {
    **STORE_KEYS,
    "writer_pid": "the process that has the store open for writing, or null",
    "are_members_known": "whether that process reports its members; if not, `members` is null",
    **below(
        "groups[]",
        {
            "group": "the group",
            "lag": "messages that it has not consumed",
            "retry_lag": "messages in its retry topic that it has not consumed",
            "dead_letter_count": "its dead letters",
            "out_count": "popped messages that are not acknowledged",
            "out_since_timestamp": "when the oldest of them was popped, or null",
            "oldest_timestamp": "store time of the oldest message not consumed yet, or null",
            "messages_per_second": "with `--rate`: messages consumed in a second",
            "ignored_offsets[].topic": "a negative offset, which counts as none: its topic",
            "ignored_offsets[].queue_id": "its queue",
            "ignored_offsets[].offset": "the offset",
            "is_mixed": "whether members subscribe to other topics or tags than others",
            "members[].member": "client id of a member",
            "members[].since_timestamp": "since when it is a member",
            "members[].broadcast": "whether it gets all messages",
            "members[].pops": "whether it pops",
            "members[].topics[]": "its topics",
            "members[].queues[]": "its queues, with `topic` and `queue_id`; null if it pops, and "
            "for clients of a server, which assign the queues among themselves",
            "queues[].topic": "a queue: its topic",
            "queues[].queue_id": "its number",
            "queues[].offset": "the next message to consume",
            "queues[].min_offset": "the first message",
            "queues[].max_offset": "the place after the last message",
            "queues[].lag": "messages that are not consumed",
            "queues[].oldest_timestamp": "store time of the oldest of these, or null",
            "queues[].out_count": "popped messages that are not acknowledged",
            "queues[].out_since_timestamp": "when the oldest of them was popped, or null",
        },
    ),
}


@click.command(
    "groups", short_help="Show consumer groups, and how far each has read.", epilog=_EXAMPLES
)
@path_argument
@click.argument("group", required=False)
@click.option(
    "--rate",
    "seconds",
    metavar="SECONDS",
    type=Seconds(min=0.1, max=3_600),
    help="Read twice, SECONDS apart, and show the number of messages consumed in a second.",
)
@json_option("one document", _JSON)
@with_debug
def groups(path: str, group: str | None, seconds: float | None, as_json: bool) -> None:
    r"""Show how far consumer groups have read in the store at PATH; with GROUP, by queue.

    Another process may write the store and consume from it. The command then shows the offsets that
    this process has saved; the process saves them about every five seconds. The command also shows
    the members that the groups have in this process now; `?` if that process does not report them.

    LAG counts the messages that the group has not consumed, and OLDEST is the age of the first of
    them. RETRIES counts the messages that wait in the retry topic, and DEAD the dead letters. OUT
    counts popped messages that are not acknowledged, and SINCE is the age of the oldest of them.
    """
    from reput_consumer.command.grouptables import print_group, print_groups
    from reput_consumer.command.storeopening import reading_groups
    from reput_tools.cli.kit import print_json

    with reading_groups(path) as (store, plugin):
        roster, before = plugin.roster(), _progress(plugin, group)
        rates: dict[str, float] = {}
        if seconds is not None:
            found, rates = _again(plugin, group, before, seconds)
        else:
            found = before
        if as_json:
            head = {
                "path": store.root,
                "problems": list(store.problems),
                "writer_pid": roster.writer_pid,
                "are_members_known": roster.is_known,
            }
            rows = [_document(each, rates.get(each.group), roster) for each in found]
            print_json({**head, "groups": rows})
        elif group is not None:
            print_group(found[0], rates.get(group), roster, _now())
        elif found:
            print_groups(path, found, rates, roster, _now())
        else:
            click.echo(f"No consumer groups in the store at {store.root}.")


def _progress(plugin: ConsumerPlugin, group: str | None) -> list[GroupProgress]:
    from reput_tools.cli.kit import ExitCode, Failure, did_you_mean

    known = plugin.groups()
    if group is not None and group not in known:
        hint = did_you_mean(group, known) or "; `reput groups PATH` lists them"
        raise Failure(f"no group {group!r} in this store{hint}", ExitCode.NOT_FOUND)
    return plugin.progress_of_all() if group is None else [plugin.progress(group)]


def _again(
    plugin: ConsumerPlugin, group: str | None, before: Sequence[GroupProgress], seconds: float
) -> tuple[list[GroupProgress], dict[str, float]]:
    """Look once more after some seconds; return that, and messages a second by group."""
    import time

    start = time.monotonic()
    time.sleep(seconds)  # a rate takes two looks, as far apart as the user wants
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


def _document(progress: GroupProgress, rate: float | None, roster: MemberList) -> dict[str, Any]:
    document = {
        "group": progress.group,
        "lag": progress.lag,
        "retry_lag": progress.retry_lag,
        "dead_letter_count": progress.dead_letter_count,
        "out_count": progress.out_count,
        "out_since_timestamp": progress.out_since,
        "oldest_timestamp": progress.oldest_timestamp,
        "ignored_offsets": [
            {"topic": topic, "queue_id": queue_id, "offset": offset}
            for (topic, queue_id), offset in sorted(progress.ignored_offsets.items())
        ],
        "is_mixed": progress.is_mixed,
        "members": [_member(each) for each in progress.members] if roster.is_known else None,
        "queues": [
            {
                "topic": each.topic,
                "queue_id": each.queue_id,
                "offset": each.offset,
                "min_offset": each.min_offset,
                "max_offset": each.max_offset,
                "lag": each.lag,
                "oldest_timestamp": each.oldest_timestamp,
                "out_count": each.out_count,
                "out_since_timestamp": each.out_since,
            }
            for each in progress.queues
        ],
    }
    return document if rate is None else {**document, "messages_per_second": round(rate, 3)}


def _member(member: GroupMember) -> dict[str, Any]:
    queues = member.queues
    return {
        "member": member.member,
        "since_timestamp": member.since_timestamp,
        "broadcast": member.broadcast,
        "pops": member.pops,
        "topics": list(member.topics),
        "queues": None
        if queues is None
        else [{"topic": topic, "queue_id": queue_id} for topic, queue_id in queues],
    }
