"""Consumer groups: how far each has read, retries and dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from reput_web.errors import NotThereError

if TYPE_CHECKING:
    from reput_consumer import ConsumerPlugin
    from reput_consumer.groupprogress import GroupProgress
    from reput_web.readmodel.openedstore import OpenedStore

__all__ = ["GroupRow", "group_of", "groups_of", "readers_of"]


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
