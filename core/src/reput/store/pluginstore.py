"""`PluginStore`: the store as one of its plugins sees it, under the plugin's own name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn

import attrs

from reput.errors import ReadOnlyStoreError, ServiceNotAvailableError
from reput.plugin.storeaccess import DROP, KEEP
from reput.record.messages.message import shown
from reput.store.operations.queuereads import QueueReads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput.dispatch.logtrimmer import LogTrimmer
    from reput.dispatch.pluginlifecycle import PluginLifecycle
    from reput.dispatch.retentionholds import LiveHolds, RecordedHolds
    from reput.files.system.disk import Disk
    from reput.log.reader.logreader import StoreLog
    from reput.log.writer.commitlog import CommitLog
    from reput.log.writer.receipts import BatchReceipt
    from reput.plugin.storeaccess import TrimReport
    from reput.record.messages.message import Message
    from reput.store.operations.activeplugins import ActivePlugins
    from reput.store.operations.puts import PutPath


class ReadOnlyPuts:
    """In place of `PutPath` in a read-only store: each put is refused."""

    direct = None

    def use(self) -> None:
        """Do nothing: no plugin sees a put."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return _refuse


def _refuse(*_: object, **__: object) -> NoReturn:
    raise ReadOnlyStoreError(
        "store", None, None, 'it was opened with mode="r"; open it with mode="w"'
    )


@attrs.frozen(eq=False)
class WriterComponents:
    """The parts that only a writable store has."""

    log: CommitLog
    members: PluginLifecycle
    trimming: LogTrimmer
    """Removes files of the log."""
    promote: Callable[[], None]
    """Ends the role of a replica."""


@attrs.frozen(eq=False)
class StoreComponents:
    """The parts of an open store."""

    root: str
    """The store's directory."""
    disk: Disk
    log: StoreLog
    active: ActivePlugins
    holds: LiveHolds | RecordedHolds
    """Which parts of the log are needed: by running plugins, or by the last writer's records."""
    writes: PutPath | ReadOnlyPuts = attrs.field(factory=ReadOnlyPuts)
    writer: WriterComponents | None = None
    """None in a read-only store."""

    def writing(self) -> WriterComponents:
        """Return the parts of a writable store.

        Raises:
            ReadOnlyStoreError: the store was opened to read.
        """
        return _refuse() if self.writer is None else self.writer

    def trim_log(
        self, physical_offset: int, unseen: str, *, dry_run: bool, asker: str = ""
    ) -> TrimReport:
        """See `reput.Store.trim_log`; ``asker`` is the plugin that calls it."""
        if unseen not in (KEEP, DROP):
            raise ValueError(f'unseen must be "{KEEP}" or "{DROP}", not {shown(unseen)}')
        if dry_run:
            from reput.dispatch.logtrimmer import preview

            return preview(self.log, self.holds, physical_offset, unseen, asker)
        writer = self.writing()
        if not asker:
            members = writer.members
            members.refuse_inside("trim_log", members.membership_lock, writer.trimming.lock)
        return writer.trimming.run(physical_offset, unseen, asker)


class StoreAccessPoint:
    """Gives plugins the store, which they get before it is open and may use once it is."""

    def __init__(self, active: ActivePlugins) -> None:
        self.active = active
        self._parts: StoreComponents | None = None
        self._check_open: Callable[[], None] | None = None

    def open(self, parts: StoreComponents, check_open: Callable[[], None]) -> None:
        """Let plugins use ``parts``, as long as ``check_open`` does not raise."""
        self._parts, self._check_open = parts, check_open

    @property
    def parts(self) -> StoreComponents:
        """The parts of the open store.

        Raises:
            ServiceNotAvailableError: the store is not open yet.
        """
        if self._parts is None:
            raise ServiceNotAvailableError("store", None, None, "it is not open yet")
        return self._parts

    def check_open(self) -> None:
        """Raise if the store is not open yet, or closed.

        Raises:
            ServiceNotAvailableError: the store is not open yet.
            StoreClosedError: the store is closed.
        """
        if self._check_open is None:
            _ = self.parts
        else:
            self._check_open()

    def wake(self, plugin: str) -> None:
        """Have a plugin's `reput_work` called soon. Cheap, from any thread.

        Before the store is open this does nothing: opening calls `reput_work` in any case.
        """
        if self._parts is not None and self._parts.writer is not None:
            self._parts.writer.members.workers.wake(plugin)

    def renew_interest(self) -> None:
        """Ask all plugins again which messages their `reput_put` has to see.

        Before the store is open this does nothing: opening asks in any case.
        """
        if self._parts is not None:
            self._parts.writes.use()


class PluginStore(QueueReads):
    """One plugin's view of the store; the `StoreAccess` of its context."""

    def __init__(self, point: StoreAccessPoint, plugin: str) -> None:
        super().__init__(point.active, point.check_open)
        self._asker = plugin
        self._point = point

    def put_many(self, messages: Sequence[Message]) -> BatchReceipt:
        """See `StoreAccess.put_many`."""
        return self._point.parts.writes.put_for(self._asker, messages)

    def next_queue(self, topic: str) -> int:
        """See `StoreAccess.next_queue`."""
        return self._point.parts.writes.next_queue(topic)

    def check_put(self, messages: Sequence[Message]) -> None:
        """See `StoreAccess.check_put`."""
        self._point.parts.writes.check_for(self._asker, messages)

    @property
    def flushed_offset(self) -> int:
        """See `StoreAccess.flushed_offset`."""
        return self._point.parts.log.flushed_offset

    @property
    def flush_timeout(self) -> float:
        """See `StoreAccess.flush_timeout`."""
        config = self._point.parts.log.config
        return config.flush_timeout_ms / 1_000 if config.flush == "sync" else 0.0

    @property
    def dispatched_to(self) -> int:
        """See `StoreAccess.dispatched_to`."""
        active = self._point.parts.active
        each = active.find(self._asker)
        if each is None:
            return 0
        others = [active.find(name) for name in each.requires]
        return min([each.position, *(other.position for other in others if other is not None)])

    @property
    def gets_messages(self) -> bool:
        """See `StoreAccess.gets_messages`."""
        parts = self._point.parts
        each = parts.active.find(self._asker)
        return parts.writer is not None and each is not None and each.may_run

    def wait_flushed(self, physical_offset: int, seconds: float) -> bool:
        """See `StoreAccess.wait_flushed`."""
        return self._point.parts.writing().log.wait_flushed(physical_offset, seconds)

    def trim_log(
        self,
        physical_offset: int,
        *,
        unseen: Literal["keep", "drop"] = "keep",
        dry_run: bool = False,
    ) -> TrimReport:
        """See `StoreAccess.trim_log`."""
        self._check_open()
        return self._point.parts.trim_log(
            physical_offset, unseen, dry_run=dry_run, asker=self._asker
        )
