"""`ReplicaCalls`: the calls of a store that takes the bytes of a master's log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from reput.errors import NotReplicaError
from reput.record.messages.coercion import shown
from reput.store.operations.arguments import whole_number
from reput.store.operations.queuereads import QueueReads

if TYPE_CHECKING:
    from reput.dispatch.pluginlifecycle import PluginLifecycle
    from reput.log.writer.commitlog import CommitLog
    from reput.log.writer.replicaappender import ReplicaAppender
    from reput.store.pluginstore import StoreComponents

__all__ = ["ReplicaCalls"]


class ReplicaCalls(QueueReads):
    """What `reput.Store` can do as a replica, and what it answers about that. Thread-safe."""

    root: str
    log: CommitLog
    _parts: StoreComponents

    @property
    def role(self) -> Literal["primary", "replica"]:
        """``"replica"`` for a store that takes a master's bytes; ``"primary"`` if it takes puts."""
        return "primary" if self.log.master is None else "replica"

    @property
    def master(self) -> str | None:
        """Name of a replica's master, as `reput.open` was given it; None in a primary."""
        return self.log.master

    @property
    def fed_offset(self) -> int:
        """Physical offset of the next byte that `feed` wants: the end of what was fed.

        In a store that is not fed, the end of the log. 0 in an empty replica, whose first bytes may
        be those at the start of any file of the master.
        """
        feeding = self.log.feeding
        return self.log.max_physical_offset if feeding is None else feeding.fed_offset

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which the log is on disk."""
        return self.log.flushed_offset

    def wait_flushed(self, physical_offset: int, timeout: float | None = None) -> bool:
        """Wait until the log is on disk below ``physical_offset``; it is flushed if necessary.

        Args:
            physical_offset: at most the end of the log.
            timeout: seconds; None waits as long as it takes.

        Returns:
            Whether it is on disk; False if the time is over.

        Raises:
            OffsetOutOfRangeError: the log ends below ``physical_offset``.
            ServiceNotAvailableError: the store is closed, read-only, or its disk failed.
        """
        self._writing()
        offset = whole_number("physical_offset", physical_offset)
        return self.log.wait_flushed(offset, timeout)

    def feed(self, physical_offset: int, data: bytes | bytearray | memoryview) -> None:
        """Append bytes of the master's log to that of a replica.

        The bytes may begin and end anywhere. Records that are whole and valid are in the log when
        this returns, and are flushed as puts are with ``flush="async"``; the part of a record at
        the end is kept in memory until its other bytes are fed, or until the store is closed.
        Thread-safe, and most useful from one thread.

        Args:
            physical_offset: where ``data`` stands in the master's log: at `fed_offset`, or before
                it. Bytes that were fed before are compared with the stored bytes, and skipped.
            data: any number of bytes, also of several files.

        Raises:
            NotReplicaError: the store is a primary.
            FeedGapError: the bytes begin after `fed_offset`, or before the log does; or they are an
                empty log's first ones, and begin inside of a file.
            CorruptFeedError: no valid record begins where one should. The records before it are in
                the log; `fed_offset` is where they end.
            DivergedError: the master has other bytes at an offset than this store. The master's are
                copied to ``reput/lost+found``, and every later call raises this error, too.
            CreateMappedFileError: no space for another file; feed again from `fed_offset` on.
            ServiceNotAvailableError: the store is closed (`StoreClosedError`) or read-only
                (`ReadOnlyStoreError`), or its disk failed.
            TypeError: an argument of a wrong type.
        """
        feeding = self._feeding()
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data: bytes expected, found {shown(data)}")
        feeding.feed(whole_number("physical_offset", physical_offset), data)

    def promote(self) -> None:
        """Make a replica a primary, durably: puts work when this returns, and `feed` does not.

        Records in the log stay, and are flushed; the part of a record that has not come whole is
        dropped. Waits until the plugins that keep queue offsets have seen all messages, as the next
        message of a queue continues its offsets. Plugins that put by themselves, such as delayed
        deliveries, begin at the next opening.

        Raises:
            NotReplicaError: the store is a primary.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
            ServiceNotAvailableError: the log cannot be flushed; the store stays a replica.
            OSError: the role cannot be recorded; the store stays a replica.
        """
        feeding = self._feeding()
        assert self._parts.promote is not None
        self._parts.promote(feeding)

    def _feeding(self) -> ReplicaAppender:
        self._writing()
        if self.log.feeding is None:
            reason = (
                "it is not a replica, and takes puts; a new store is one if opened with master="
            )
            raise NotReplicaError(self.root, reason)
        return self.log.feeding

    def _writing(self) -> PluginLifecycle:
        """Return the plugins of an open, writable store."""
        self._check_open()
        return self._parts.writing()
