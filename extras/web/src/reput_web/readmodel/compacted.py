"""Compacted topics: how far each queue is compacted, and the versions of its keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import CorruptFileError, NoReaderError, PluginError
from reput_web.errors import NotThereError

if TYPE_CHECKING:
    from reput import MessageView, Store
    from reput_compaction import CompactionPlugin, QueueSummary
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.readmodel.workbudget import WorkBudget

_STEP: Final = 256
_READ_SIZE: Final = 4 << 20
_SUPERSEDED_MAX: Final = 100


@attrs.frozen(kw_only=True)
class Version:
    """One message of a key."""

    topic: str
    queue_id: int
    queue_offset: int
    store_timestamp: int
    size: int
    is_tombstone: bool
    """Whether it deletes its key."""
    physical_offset: int | None
    """In the log; None for a message that the compacted files hold."""


@attrs.frozen(kw_only=True)
class KeyRow:
    """A key, with the versions of it among the messages that a page has read."""

    key: str
    version_count: int
    size: int
    newest: Version


@attrs.frozen(kw_only=True)
class VersionPage:
    """The keys of a part of a queue, or the versions of one key."""

    keys: tuple[KeyRow, ...]
    versions: tuple[Version, ...]
    superseded: tuple[Version, ...]
    """Versions that the log still holds, and the compacted files do not."""
    message_count: int
    """Messages that the page has read."""
    next_queue_id: int | None
    """The queue with which the next page begins."""
    next_at: int | None
    """The queue offset at which it begins."""


def _plugin(opened: OpenedStore) -> CompactionPlugin | None:
    try:
        from reput_compaction.plugin import CompactionPlugin
    except ModuleNotFoundError:
        return None
    try:
        return opened.store.plugin(CompactionPlugin)
    except PluginError:
        return None


def compacted_topics(opened: OpenedStore) -> frozenset[str]:
    """Return the topics that are compacted."""
    plugin = _plugin(opened)
    return frozenset() if plugin is None else plugin.topics


def kept_counts(opened: OpenedStore) -> dict[str, int]:
    """Return how many messages are kept of each topic that is compacted."""
    found = dict.fromkeys(compacted_topics(opened), 0)
    for each in compacted_of(opened) or () if found else ():
        found[each.topic] += each.message_count
    return found


def compacted_of(opened: OpenedStore) -> list[QueueSummary] | None:
    """Return all compacted queues; None if the store does not use the plugin ``compaction``."""
    plugin = _plugin(opened)
    if plugin is None:
        return None
    return list(plugin.summaries())


def version_page(
    opened: OpenedStore,
    topic: str,
    queue_ids: Sequence[int],
    key: str | None,
    at: int | None,
    count: int,
    budget: WorkBudget,
) -> VersionPage:
    """Return the keys of the messages from a cursor on, or the versions of one key.

    Args:
        opened: the store.
        topic: a compacted topic.
        queue_ids: its queues; the cursor is for the first one.
        key: the key whose versions are wanted; all keys by default.
        at: the queue offset to begin at.
        count: keys or versions, at most.
        budget: ends the reading; the cursor says where it goes on.

    Raises:
        NotThereError: the topic is not compacted.
    """
    if topic not in compacted_topics(opened):
        raise NotThereError(f"The topic {topic!r} is not compacted in this store.")
    seen = _Seen(key, count)
    store = opened.store
    superseded: tuple[Version, ...] = ()
    if key is not None and at is None:
        superseded = tuple(_superseded(store, topic, queue_ids, key))
    for queue_id in queue_ids:
        for message, offset in _messages(store, topic, queue_id, at or 0):
            if seen.is_full(message) or (seen.message_count and budget.is_spent):
                return seen.page(superseded, (queue_id, offset))
            budget.spend(message.size)
            seen.add(message, offset)
        at = None
    return seen.page(superseded, None)


@attrs.define(eq=False)
class _Seen:
    """What a page has read so far."""

    key: str | None
    count_max: int
    newest: dict[str, Version] = attrs.field(factory=dict)
    counts: dict[str, int] = attrs.field(factory=dict)
    sizes: dict[str, int] = attrs.field(factory=dict)
    versions: list[Version] = attrs.field(factory=list)
    message_count: int = 0

    def is_full(self, message: MessageView) -> bool:
        key = key_of(message)
        is_new = key not in self.newest if self.key is None else key == self.key
        return is_new and max(len(self.newest), len(self.versions)) >= self.count_max

    def add(self, message: MessageView, offset: int) -> None:
        self.message_count += 1
        key = key_of(message)
        if self.key is None:
            self.newest[key] = _version(message, offset, None)
            self.counts[key] = self.counts.get(key, 0) + 1
            self.sizes[key] = self.sizes.get(key, 0) + message.size
        elif key == self.key:
            self.versions.append(_version(message, offset, None))

    def page(
        self, superseded: tuple[Version, ...], following: tuple[int, int] | None
    ) -> VersionPage:
        return VersionPage(
            keys=tuple(
                KeyRow(
                    key=each, version_count=self.counts[each], size=self.sizes[each], newest=newest
                )
                for each, newest in self.newest.items()
            ),
            versions=tuple(self.versions),
            superseded=superseded,
            message_count=self.message_count,
            next_queue_id=None if following is None else following[0],
            next_at=None if following is None else following[1],
        )


def key_of(message: MessageView) -> str:
    """Return the key by which a message is compacted: all words of ``KEYS``."""
    return " ".join(message.keys)


def _messages(
    store: Store, topic: str, queue_id: int, at: int
) -> Iterator[tuple[MessageView, int]]:
    while True:
        found = store.read(topic, queue_id, at, _STEP, _READ_SIZE)
        yield from zip(found.messages, found.queue_offsets, strict=True)
        if found.next_queue_offset <= at or at >= found.max_queue_offset:
            return
        at = found.next_queue_offset


def _superseded(store: Store, topic: str, queue_ids: Sequence[int], key: str) -> Iterator[Version]:
    """Yield what the index knows of a key and the compacted files do not hold, newest first."""
    try:
        found = store.query(topic, key.split(" ")[0], limit=_SUPERSEDED_MAX)
    except (NoReaderError, PluginError, CorruptFileError):
        return
    for message in sorted(found, key=lambda each: -each.physical_offset):
        if message.queue_id not in queue_ids or key_of(message) != key:
            continue
        kept = store.read(topic, message.queue_id, message.queue_offset, 1, 1)
        if message.queue_offset not in kept.queue_offsets:
            yield _version(message, message.queue_offset, message.physical_offset)


def _version(message: MessageView, queue_offset: int, physical_offset: int | None) -> Version:
    return Version(
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=queue_offset,
        store_timestamp=message.store_timestamp,
        size=message.size,
        is_tombstone=not message.body,
        physical_offset=physical_offset,
    )


def document_of(queues: list[QueueSummary] | None, page: VersionPage | None) -> dict[str, Any]:
    """Return plain values."""
    return {
        "queues": None if queues is None else [attrs.asdict(each) for each in queues],
        "page": None if page is None else attrs.asdict(page),
    }
