"""Consumer groups: how far each has read, retries and dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.record.layout import DEAD_LETTER_PREFIX
from reput_web.errors import NotThereError

if TYPE_CHECKING:
    from reput_consumer import ConsumerPlugin
    from reput_consumer.groupprogress import GroupProgress
    from reput_web.readmodel.openedstore import OpenedStore

_LETTERS_MAX: Final = 50
_TIMES_MAX: Final = 16


@attrs.frozen(kw_only=True)
class GroupQueue:
    """How far a group is in one queue."""

    topic: str
    queue_id: int
    offset: int
    min_offset: int
    max_offset: int
    lag: int
    oldest_timestamp: int | None
    out_count: int


@attrs.frozen(kw_only=True)
class GroupRow:
    """One group."""

    group: str
    topics: tuple[str, ...]
    lag: int
    retry_lag: int
    dead_letter_count: int
    out_count: int
    out_since: int | None
    oldest_timestamp: int | None
    member_count: int | None
    """None if the process that writes does not report its members."""
    members: tuple[str, ...]
    queues: tuple[GroupQueue, ...]
    is_paused: bool = False
    """Whether an operator has forbidden the group to read (``consumeEnable``)."""
    is_mixed: bool = False
    """Whether its members subscribe differently, so that messages are left out."""
    rate: float | None = None
    """Messages a second that it got in the last minute; None if no server says it."""


@attrs.frozen(kw_only=True)
class DeadLetter:
    """A message that the group has given up."""

    physical_offset: int
    store_timestamp: int
    topic: str | None
    """From which the group had it."""
    keys: tuple[str, ...]
    times: int
    """How often the group had sent it back."""
    times_max: int
    """How often the group may send a message back."""
    cause: str
    """Why it was given up, as far as the store knows."""


def dead_letters_of(opened: OpenedStore, group: str) -> tuple[DeadLetter, ...]:
    """Return the newest messages that a group has given up, the newest first."""
    plugin = opened.groups_plugin()
    if plugin is None:
        return ()
    topic = f"{DEAD_LETTER_PREFIX}{group}"
    settings = plugin.subscription_groups.get(group)
    most = _TIMES_MAX if settings is None else settings.retry_max_times
    found: list[DeadLetter] = []
    for queue in opened.topic_queues(topic):
        first = max(queue.min_queue_offset, queue.max_queue_offset - _LETTERS_MAX)
        for message in opened.store.read(topic, queue.queue_id, first, _LETTERS_MAX).messages:
            properties, times = message.properties, message.reconsume_times
            origin = properties.get("DLQ_ORIGIN_TOPIC") or properties.get("RETRY_TOPIC")
            is_spent = times >= most
            found.append(
                DeadLetter(
                    physical_offset=message.physical_offset,
                    store_timestamp=message.store_timestamp,
                    topic=origin,
                    keys=message.keys,
                    times=times,
                    times_max=most,
                    cause="all retries are used up" if is_spent else "the consumer gave it up",
                )
            )
    found.sort(key=lambda each: -each.physical_offset)
    return tuple(found[:_LETTERS_MAX])


def groups_of(opened: OpenedStore) -> list[GroupRow] | None:
    """Return all groups; None where the plugin that knows them is missing."""
    plugin = opened.groups_plugin()
    if plugin is None:
        return None
    is_known = plugin.roster().is_known
    return [_row(plugin, each, is_known) for each in plugin.progress_of_all()]


def group_of(opened: OpenedStore, group: str) -> GroupRow:
    """Return one group.

    Raises:
        NotThereError: the store has no such group.
    """
    plugin = opened.groups_plugin()
    if plugin is None or group not in plugin.groups():
        raise NotThereError(f"The store has no consumer group {group!r}.")
    return _row(plugin, plugin.progress(group), plugin.roster().is_known)


def readers_of(opened: OpenedStore, topic: str) -> list[tuple[str, int]]:
    """Return groups that read a topic, and how many of its messages each has not consumed."""
    found = []
    for group in groups_of(opened) or ():
        lags = [each.lag for each in group.queues if each.topic == topic]
        if lags:
            found.append((group.group, sum(lags)))
    return found


def _row(plugin: ConsumerPlugin, progress: GroupProgress, is_known: bool) -> GroupRow:
    settings = plugin.subscription_groups.get(progress.group)
    return GroupRow(
        group=progress.group,
        topics=tuple(sorted({each.topic for each in progress.queues})),
        lag=progress.lag,
        retry_lag=progress.retry_lag,
        dead_letter_count=progress.dead_letter_count,
        out_count=progress.out_count,
        out_since=progress.out_since,
        oldest_timestamp=progress.oldest_timestamp,
        member_count=len(progress.members) if is_known else None,
        members=tuple(each.member for each in progress.members),
        queues=tuple(
            GroupQueue(
                topic=each.topic,
                queue_id=each.queue_id,
                offset=each.offset,
                min_offset=each.min_offset,
                max_offset=each.max_offset,
                lag=each.lag,
                oldest_timestamp=each.oldest_timestamp,
                out_count=each.out_count,
            )
            for each in progress.queues
        ),
        is_paused=settings is not None and not settings.consume_enable,
        is_mixed=progress.is_mixed,
    )


def document_of(groups: list[GroupRow] | None) -> dict[str, Any]:
    """Return plain values."""
    return {"groups": None if groups is None else [attrs.asdict(each) for each in groups]}
