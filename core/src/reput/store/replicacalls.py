"""`ReplicaCalls`: the calls of a store that takes the bytes of a master's log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from reput.errors import NotReplicaError
from reput.store.operations.arguments import whole_number
from reput.store.operations.queuereads import QueueReads

if TYPE_CHECKING:
    from reput.log.writer.commitlog import CommitLog
    from reput.store.pluginstore import StoreComponents, WriterComponents


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
        log = self._writing().log
        return log.wait_flushed(whole_number("physical_offset", physical_offset), timeout)

    def append_raw(
        self,
        physical_offset: int,
        data: bytes | bytearray | memoryview,
        last_record_offset: int | None,
    ) -> None:
        """Append bytes of the master's log to that of a replica, as `reput_server.follow` does.

        The caller has checked that they are whole, valid records, or a part of a blank, which ends
        a file. Records are in the log when this returns, and are flushed as puts are with
        ``flush="async"``. A blank is in the log with its last byte.

        Args:
            physical_offset: where the log ends, or the blank's bytes do; in an empty log, where any
                file begins.
            data: bytes of one file. The first bytes of a blank are eight or more.
            last_record_offset: where the last of the records begins; None for bytes of a blank.

        Raises:
            NotReplicaError: the store is a primary.
            ValueError: the bytes do not continue the log, or go beyond the end of its file.
            CreateMappedFileError: no space for another file.
            ServiceNotAvailableError: the store is closed (`StoreClosedError`) or read-only
                (`ReadOnlyStoreError`), it is promoted, or its disk failed.
            TypeError: an argument of a wrong type.
        """
        log = self._replica().log
        offset = whole_number("physical_offset", physical_offset)
        log.append_raw(offset, memoryview(data).cast("B"), last_record_offset)

    def promote(self) -> None:
        """Make a replica a primary, durably: from then on it takes puts, and no bytes of a master.

        Records in the log stay, and are flushed; bytes of an unfinished blank are dropped.
        Waits until the plugins that keep queue offsets have seen all messages, as the next
        message of a queue continues its offsets. Plugins that put by themselves, such as delayed
        deliveries, begin at the next opening.

        Raises:
            NotReplicaError: the store is a primary.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
            ServiceNotAvailableError: the log cannot be flushed; the store stays a replica.
            OSError: the role cannot be recorded; the store stays a replica.
        """
        self._replica().promote()

    def _replica(self) -> WriterComponents:
        writer = self._writing()
        if writer.log.master is None:
            reason = "it takes puts; a new store is a replica if opened with master="
            raise NotReplicaError(self.root, f"it is not a replica; {reason}")
        return writer

    def _writing(self) -> WriterComponents:
        """Return the parts of an open, writable store."""
        self._check_open()
        return self._parts.writing()
