"""`LogView`: the commit log as plugins see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.log.losses import Loss
    from reput.record.batch import DispatchBatch
    from reput.record.view import MessageView

__all__ = ["LogView"]


class LogView(Protocol):
    """The commit log as plugins see it: everything by physical offset, nothing to change.

    Thread-safe.
    """

    @property
    def file_size(self) -> int:
        """Bytes of one commit-log file."""
        ...

    @property
    def min_physical_offset(self) -> int:
        """Where the log begins."""
        ...

    @property
    def max_physical_offset(self) -> int:
        """Where the log ends: behind the last whole record."""
        ...

    def read(self, physical_offset: int, size: int) -> bytes:
        """Bytes of the log; fewer than ``size``, or none, where it does not hold them.

        A read never crosses the end of a file, as no record does.
        """
        ...

    def read_message(self, physical_offset: int, size: int = 0) -> MessageView | None:
        """The record at an offset that is known to be a record's; None when there is no such one.

        Args:
            physical_offset: where it begins.
            size: its size where known; anything else found there is then no record.
        """
        ...

    def store_timestamp_at(self, physical_offset: int) -> int:
        """Store time of the record at that offset, ms; -1 when there is none."""
        ...

    def scan(
        self, start: int | None = None, end: int | None = None, *, check_crc: bool = False
    ) -> Iterator[DispatchBatch]:
        """Batches over ``[start, end)``; ``start`` must be a record's or a file's beginning.

        A batch is valid until the next one is taken. One that ends in front of damage tells it by
        its ``finding``; it may have no rows. The next one begins at the next sound record. With
        ``check_crc`` the checksums of bodies are verified, and of whole records that have one.
        """
        ...

    def losses(self, start: int, end: int) -> tuple[Loss, ...]:
        """What the log is known to have lost of ``[start, end)``; cheap where it lost nothing."""
        ...
