"""Finds offsets of groups that lie beyond the ends of their queues.

A power cut may leave such offsets where a broker, or an earlier release, saved them before the
messages that they count. The next messages get those queue offsets, and the group would never read
them. So the offsets are lowered to where each queue ended when the store was opened.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.errors import NoReaderError
from reput.record.layout import TRANSACTION_COMMIT
from reput_consumer.names import LIGHT_PREFIX

if TYPE_CHECKING:
    from reput.plugin import StoreContext
    from reput_consumer.metadata.offsets import ConsumerOffsets
    from reput_consumer.metadata.topics import Topics

logger = logging.getLogger(__name__)

__all__ = ["Beyond", "OffsetsAtOpening", "offsets_beyond"]

_SYSTEM_GROUPS: Final = "CID_RMQ_SYS_"
"""How the names of groups begin whose offsets other plugins keep."""
_QUEUE_TYPE: Final = "queue.type"
_BATCH: Final = "BatchCQ"

Key = tuple[str, int]
"""Topic and queue id."""


@attrs.frozen
class Beyond:
    """An offset that counts messages which the log does not have."""

    group: str
    topic: str
    queue_id: int
    offset: int
    end: int
    """Where the queue ended when the store was opened."""


@attrs.define(eq=False)
class OffsetsAtOpening:
    """Lowers, once, the offsets that lie beyond the ends of their queues. Thread-safe.

    Queues cannot be read while a store is being opened. So what the file says then is kept until
    the queues are asked, which is before the first consumer joins, and soon after opening.
    """

    context: StoreContext
    offsets: ConsumerOffsets
    topics: Topics
    save: Callable[[], object]
    """Saves all offsets durably."""
    _opened_at: int = attrs.field(init=False, default=0)
    _by_group: Mapping[str, Mapping[Key, int]] | None = attrs.field(init=False, default=None)
    """The offsets of the file, until they are checked."""
    _lock: threading.RLock = attrs.field(init=False, factory=threading.RLock)

    def keep(self) -> None:
        """Take notice of the offsets and of the log's end, before anything is put."""
        self._opened_at = self.context.log.max_physical_offset
        self._by_group = self.offsets.by_group()

    def check(self) -> None:
        """Lower offsets beyond the ends of their queues, durably, and log a warning for each.

        Raises:
            ReputError: the queues cannot be read; a later call tries again.
            OSError: likewise, or the file cannot be written; the next save tries that again.
        """
        with self._lock:
            if self._by_group is None:
                return
            try:
                found = offsets_beyond(self.context, self._by_group, self.topics, self._opened_at)
            except NoReaderError:
                return  # nobody can read queues now, so nobody goes on at an offset
            self._by_group = None
            for each in found:
                self._lower(each)
        if found:
            self.save()

    def _lower(self, each: Beyond) -> None:
        if self.offsets.get(each.group, each.topic, each.queue_id) != each.offset:
            return  # the group has gone on meanwhile
        self.offsets.commit(each.group, {(each.topic, each.queue_id): each.end})
        logger.warning(
            "offset lowered, it counted messages that the log does not have "
            "group=%s queue=%s/%d offset=%d lowered_to=%d",
            *(each.group, each.topic, each.queue_id, each.offset, each.end),
        )


def offsets_beyond(
    context: StoreContext,
    by_group: Mapping[str, Mapping[Key, int]],
    topics: Topics,
    opened_at: int,
) -> list[Beyond]:
    """Return the offsets that count more messages than there were at opening.

    Args:
        context: the store's.
        by_group: the offsets that the file had at opening, by group, then topic and queue id.
        topics: queues of kinds that only brokers read are left alone.
        opened_at: physical offset at which the log ended then.

    Raises:
        ReputError: the queues cannot be read.
    """
    highest = _highest(by_group, topics)
    if not highest:
        return []
    ends = {(each.topic, each.queue_id): each.max_queue_offset for each in context.store.queues()}
    grown = context.log.max_physical_offset > opened_at
    found = {}
    for key, offset in highest.items():
        end = ends.get(key, 0)
        if grown and _is_later(context, key, min(end, offset) - 1, opened_at):
            end = _end_then(context, key, min(end, offset) - 1, opened_at)
        if end < offset:
            found[key] = end
    if not found:
        return []
    _raise_to_log(context, found, ends, opened_at)
    return [
        Beyond(group, *key, offset, found[key])
        for group, offsets in by_group.items()
        for key, offset in offsets.items()
        if key in found and offset > found[key] and not group.startswith(_SYSTEM_GROUPS)
    ]


def _highest(by_group: Mapping[str, Mapping[Key, int]], topics: Topics) -> dict[Key, int]:
    """Return the largest offset of any group by queue, of queues that may be looked at."""
    highest: dict[Key, int] = {}
    for group, offsets in by_group.items():
        if group.startswith(_SYSTEM_GROUPS):
            continue
        for key, offset in offsets.items():
            if offset > highest.get(key, 0):
                highest[key] = offset
    return {key: offset for key, offset in highest.items() if not _is_foreign(key[0], topics)}


def _is_foreign(topic: str, topics: Topics) -> bool:
    """Whether a store may have no queue files of a topic although the topic has messages."""
    settings = topics.get(topic)
    is_batch = settings is not None and settings.attributes.get(_QUEUE_TYPE) == _BATCH
    return is_batch or topic.startswith(LIGHT_PREFIX)


def _is_later(context: StoreContext, key: Key, queue_offset: int, opened_at: int) -> bool:
    """Whether a message was put after the store was opened; False if it cannot be read."""
    if queue_offset < 0:
        return False
    found = context.store.read(*key, queue_offset, 1)
    is_there = bool(found.messages) and found.queue_offsets[0] == queue_offset  # and no later one
    return is_there and found.messages[0].physical_offset >= opened_at


def _end_then(context: StoreContext, key: Key, later: int, opened_at: int) -> int:
    """Return the first queue offset at or below ``later`` that was given after the opening."""
    low, high = -1, later
    while high - low > 1:
        middle = (low + high) // 2
        if _is_later(context, key, middle, opened_at):
            high = middle
        else:
            low = middle
    return high


def _raise_to_log(
    context: StoreContext, found: dict[Key, int], ends: Mapping[Key, int], opened_at: int
) -> None:
    """Raise ends to what the log has: the plugin that keeps the queues may be behind it.

    Only the part of the log is read that is in no queue.
    """
    for topic, queue_id, following in _after_queues(context, ends, found.keys(), opened_at):
        key = topic, queue_id
        found[key] = max(found[key], following)


def _after_queues(
    context: StoreContext, ends: Mapping[Key, int], wanted: Collection[Key], opened_at: int
) -> Iterator[tuple[str, int, int]]:
    """Yield topic, queue id and next queue offset of messages that are in no queue yet."""
    start = context.log.min_physical_offset
    for key, end in ends.items():
        for message in context.store.read(*key, end - 1, 1).messages if end else ():
            start = max(start, message.physical_offset + message.size)
    if start >= opened_at:
        return
    for batch in context.log.scan(start, opened_at):
        counted = (batch.transaction == 0) | (batch.transaction == TRANSACTION_COMMIT)
        for row in np.flatnonzero(counted).tolist():
            key = batch.topics[batch.topic_code[row]], int(batch.queue_id[row])
            if key in wanted:
                yield *key, int(batch.queue_offset[row]) + 1
