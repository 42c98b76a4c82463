"""`OpenedStore`: the store that the pages show, open for reading, also beside a writer."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from reput.errors import CorruptFileError, NoReaderError, PluginError

if TYPE_CHECKING:
    import reput
    from reput import QueueInfo, Store
    from reput.log import Loss
    from reput_consumer import ConsumerPlugin
    from reput_tools.offline import Traces

_ALSO: Final = ("consumequeue", "consumer", "filter", "index")
"""Plugins that read RocketMQ's files, which a store may hold without naming the plugin."""
_QUEUES_S: Final = 1.0
_MANY: Final = 1_000
"""Looking at more queues than these takes long."""


class _Queues(NamedTuple):
    """All queues at one time."""

    found: list[QueueInfo]
    looked_at: float
    end_offset: int
    """End of the log at that time."""

    def holds(self, now: float, end_offset: int) -> bool:
        """Whether they may be shown, although the log may have more messages."""
        is_new = now - self.looked_at < _QUEUES_S
        return is_new and (len(self.found) > _MANY or self.end_offset == end_offset)


class _Lost(NamedTuple):
    """Messages that queues have and the log has lost."""

    losses: list[Loss]
    starts: list[tuple[str, int, int]]
    """Topic, queue id and least queue offset of the queues for which ``counts`` holds."""
    counts: list[int]


@attrs.define(eq=False)
class OpenedStore:
    """One read-only opening, made at the first request and shared by all; thread-safe."""

    path: str
    follow_links: bool = False
    plugins: tuple[str, ...] | None = None
    """Those with which it is opened; None for all that pages use."""
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _store: Store | None = None
    _queues: _Queues | None = None
    _lost: _Lost | None = None
    _beside: dict[tuple[str, ...], OpenedStore] = attrs.field(factory=dict)

    @property
    def root(self) -> str:
        """The store's directory, absolute."""
        return os.path.abspath(self.path)

    @property
    def name(self) -> str:
        """The last part of the directory's name."""
        return os.path.basename(self.root) or self.root

    @property
    def store(self) -> Store:
        """The store.

        Raises:
            ReputError: it cannot be opened; the next request tries again.
            OSError: likewise.
        """
        with self._lock:
            if self._store is None:
                self._store = _open(self.root, self.follow_links, self.plugins)
            return self._store

    def traces(self) -> Traces:
        """Return what the small files of the store say."""
        from reput_tools.offline import inspect_store

        return inspect_store(self.root, follow_links=self.follow_links)

    def queues(self) -> list[QueueInfo]:
        """Return all queues, their lost messages not counted; none without a reader.

        They are as they were at most a second ago, if they are many or no message came since.
        """
        now, end_offset = self.clock(), self.store.log.max_physical_offset
        kept = self._queues
        if kept is not None and kept.holds(now, end_offset):
            return kept.found
        try:
            found = self._without_lost(self.store.queues())
        except (NoReaderError, PluginError, CorruptFileError):
            found = []
        self._queues = _Queues(found, now, end_offset)
        return found

    def _without_lost(self, queues: list[QueueInfo]) -> list[QueueInfo]:
        """Return queues with counts of ``reput info``.

        All units of the queues are read for that, but only again when losses or queues are others.
        """
        losses = self.store.losses()
        if not losses:
            return queues
        from reput_tools.cli.messages import CountedQueue, queues_counted

        starts = [(each.topic, each.queue_id, each.min_queue_offset) for each in queues]
        lost = self._lost
        if lost is None or (lost.losses, lost.starts) != (losses, starts):
            counted = queues_counted(self.store, queues)
            counts = [
                whole.message_count - each.message_count
                for whole, each in zip(queues, counted, strict=True)
            ]
            self._lost = lost = _Lost(losses, starts, counts)
        return [
            CountedQueue(
                each.topic,
                each.queue_id,
                each.min_queue_offset,
                each.max_queue_offset,
                each.last_update_timestamp,
                max(each.message_count - count, 0),
            )
            if count
            else each
            for each, count in zip(queues, lost.counts, strict=True)
        ]

    def topic_queues(self, topic: str) -> list[QueueInfo]:
        """Return the queues of one topic."""
        return [each for each in self.queues() if each.topic == topic]

    def groups_plugin(self) -> ConsumerPlugin | None:
        """Return the plugin that knows consumer groups; None if it is not installed or not used."""
        try:
            from reput_consumer.plugin import ConsumerPlugin
        except ModuleNotFoundError:
            return None
        try:
            return self.store.plugin(ConsumerPlugin)
        except PluginError:
            return None

    def beside(self, *plugins: str) -> OpenedStore:
        """Return a second opening with these plugins, where the store does not use them."""
        with self._lock:
            found = self._beside.get(plugins)
            if found is None:
                found = OpenedStore(self.path, self.follow_links, plugins, self.clock)
                self._beside[plugins] = found
            return found

    def message(self, physical_offset: int) -> reput.MessageView:
        """Return the message at a physical offset.

        Raises:
            OffsetOutOfRangeError: no message begins there.
        """
        return self.store.get(physical_offset)

    def close(self) -> None:
        """Close the store."""
        with self._lock:
            store, self._store = self._store, None
            others = list(self._beside.values())
            self._beside.clear()
        for other in others:
            other.close()
        if store is not None:
            store.close()


def _open(root: str, follow_links: bool, plugins: tuple[str, ...] | None) -> Store:
    import reput

    names = _plugins_of(root, follow_links) if plugins is None else plugins
    return reput.open(root, mode="r", plugins=names, follow_links=follow_links)


def _plugins_of(root: str, follow_links: bool) -> list[str]:
    """Return the store's plugins that are installed, and the plugins that read RocketMQ's files."""
    from reput.plugin import default_plugins, installed
    from reput_tools.offline import inspect_store

    offered = {each.name for each in installed()}
    used = None
    # A reader can do without damaged records of the store; opening reports them.
    with contextlib.suppress(CorruptFileError, OSError):
        manifest = inspect_store(root, follow_links=follow_links).manifest
        used = None if manifest is None else manifest.plugins
    names = list(default_plugins() if used is None else used)
    names = [each for each in names if each in offered]
    if used is None or "consumequeue" in used:
        also = list(_ALSO)
        if os.path.isdir(os.path.join(root, "compaction")):
            also.append("compaction")
        names += [each for each in also if each in offered and each not in names]
    return names
