"""`PluginStore`: the store as one of its plugins sees it, under the plugin's own name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

from reput.dispatch.trimming import preview
from reput.errors import ReadOnlyStoreError, ServiceNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput.dispatch.holds import LiveHolds, RecordedHolds
    from reput.dispatch.threads.workers import Workers
    from reput.dispatch.trimming import Trimming
    from reput.files.system.disk import Disk
    from reput.log.writing.commitlog import CommitLog
    from reput.log.writing.feeding import Feeding
    from reput.log.writing.receipts import BatchReceipt
    from reput.plugin.access import TrimReport
    from reput.plugin.answers import QueueInfo, ReadResult
    from reput.plugin.filters import MessageFilter
    from reput.record.messages.message import Message
    from reput.store.calls.active import ActivePlugins
    from reput.store.calls.reads import Reads
    from reput.store.calls.writes import Writes
    from reput.store.ending.closing import Closer

__all__ = ["OpenParts", "PluginStore", "StoreDoor"]


@attrs.frozen(eq=False)
class OpenParts:
    """The parts of an open store that its plugins may use."""

    disk: Disk
    log: CommitLog
    reads: Reads
    writes: Writes
    active: ActivePlugins
    closer: Closer
    workers: Workers | None
    """The plugins' threads; None in a read-only store."""
    holds: LiveHolds | RecordedHolds
    """Which parts of the log are needed: by running plugins, or by the last writer's records."""
    trimming: Trimming | None
    """Removes files of the log; None in a read-only store."""
    promote: Callable[[Feeding], None] | None = None
    """Ends the role of a replica; None in a read-only store."""

    def trim_log(
        self, physical_offset: int, unseen: str, *, dry_run: bool, asker: str = ""
    ) -> TrimReport:
        """See `reput.Store.trim_log`; ``asker`` is the plugin that calls it."""
        self.closer.check_open()
        if dry_run:
            return preview(self.log, self.holds, physical_offset, unseen, asker)
        if self.trimming is None:
            raise ReadOnlyStoreError(
                "store", None, None, 'it was opened with mode="r"; open it with mode="w"'
            )
        return self.trimming.run(physical_offset, unseen, asker)


class StoreDoor:
    """Gives plugins the store, which they get before it is open and may use once it is."""

    def __init__(self) -> None:
        self._parts: OpenParts | None = None

    def open(self, parts: OpenParts) -> None:
        """Let plugins use ``parts``."""
        self._parts = parts

    @property
    def parts(self) -> OpenParts:
        """The parts of the open store.

        Raises:
            ServiceNotAvailableError: the store is not open yet.
        """
        parts = self._parts
        if parts is None:
            raise ServiceNotAvailableError("store", None, None, "it is not open yet")
        return parts

    def of(self, plugin: str) -> PluginStore:
        """Return the view of the store for the plugin of that name."""
        return PluginStore(plugin, self)

    def wake(self, plugin: str) -> None:
        """Have a plugin's `reput_work` called soon. Cheap, from any thread.

        Before the store is open this does nothing: opening calls `reput_work` in any case.
        """
        parts = self._parts
        if parts is not None and parts.workers is not None:
            parts.workers.wake(plugin)

    def renew_interest(self) -> None:
        """Ask all plugins again which messages their `reput_put` has to see.

        Before the store is open this does nothing: opening asks in any case.
        """
        parts = self._parts
        if parts is not None:
            parts.writes.use()


@attrs.frozen(eq=False)
class PluginStore:
    """One plugin's view of the store; the `StoreAccess` of its context."""

    plugin: str
    _door: StoreDoor = attrs.field(alias="door")

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: MessageFilter | None = None,  # noqa: A002 - the word for it
    ) -> ReadResult:
        """See `StoreAccess.read`."""
        parts = self._door.parts
        parts.closer.check_open()
        return parts.reads.read(
            topic, queue_id, queue_offset, max_count, max_bytes, filter, but=self.plugin
        )

    def filter(self, expression: str, kind: str | None, topic: str | None) -> MessageFilter:
        """See `StoreAccess.filter`."""
        parts = self._door.parts
        parts.closer.check_open()
        return parts.reads.filter(expression, kind, topic)

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: Literal["lower", "upper"]
    ) -> int:
        """See `StoreAccess.offset_by_time`."""
        parts = self._door.parts
        parts.closer.check_open()
        return parts.reads.offset_by_time(topic, queue_id, timestamp, boundary)

    def queues(self) -> list[QueueInfo]:
        """See `StoreAccess.queues`."""
        parts = self._door.parts
        parts.closer.check_open()
        return parts.reads.queues(but=self.plugin)

    def put_many(self, messages: Sequence[Message]) -> BatchReceipt:
        """See `StoreAccess.put_many`."""
        return self._door.parts.writes.put_for(self.plugin, messages)

    @property
    def flushed_offset(self) -> int:
        """See `StoreAccess.flushed_offset`."""
        return self._door.parts.log.flushed_offset

    @property
    def flush_timeout(self) -> float:
        """See `StoreAccess.flush_timeout`."""
        config = self._door.parts.log.config
        return config.flush_timeout_ms / 1_000 if config.flush == "sync" else 0.0

    @property
    def dispatched_to(self) -> int:
        """See `StoreAccess.dispatched_to`."""
        each = self._door.parts.active.find(self.plugin)
        return 0 if each is None else each.position

    def wait_flushed(self, physical_offset: int, seconds: float) -> bool:
        """See `StoreAccess.wait_flushed`."""
        return self._door.parts.log.wait_flushed(physical_offset, seconds)

    def trim_log(
        self,
        physical_offset: int,
        *,
        unseen: Literal["keep", "drop"] = "keep",
        dry_run: bool = False,
    ) -> TrimReport:
        """See `StoreAccess.trim_log`."""
        parts = self._door.parts
        return parts.trim_log(physical_offset, unseen, dry_run=dry_run, asker=self.plugin)
