"""`LogView`: the commit log as plugins see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    import numpy.typing as npt

    from reput.files.readmap import MappedPart
    from reput.log.losses import Loss
    from reput.record.batch import DispatchBatch
    from reput.record.messageview import MessageView


class LogView(Protocol):
    """The commit log, addressed by physical offset and read-only. Thread-safe."""

    @property
    def file_size(self) -> int:
        """Bytes of one commit-log file."""
        ...

    @property
    def file_offsets(self) -> Sequence[int]:
        """Physical offsets at which the log's files begin, ascending and without gaps."""
        ...

    @property
    def min_physical_offset(self) -> int:
        """Physical offset at which the log begins."""
        ...

    @property
    def max_physical_offset(self) -> int:
        """Physical offset at which the log ends: after its last whole record."""
        ...

    def read(self, physical_offset: int, size: int) -> bytes:
        """Return bytes of the log; fewer than ``size``, or none, if the log does not hold them.

        A read never crosses the end of a file, as no record does.
        """
        ...

    def read_records(
        self,
        places: bytes | memoryview,
        stride: int,
        max_count: int,
        max_bytes: int,
        together: int = 0,
    ) -> list[bytes]:
        """Return the bytes of many records at once, as `read` returns those of one.

        Args:
            places: ``n * stride`` bytes; each stride begins with a physical offset (int64) and a
                size in bytes (int32), big-endian, as units of queues do.
            stride: bytes from one place to the next, 12 or more.
            max_count: most records to read.
            max_bytes: most bytes to read; but one record at least.
            together: most bytes of records that are returned as one, one behind the other.

        Returns:
            The bytes at the first places, up to the first at which the log does not hold as many
            bytes as stated, or to a limit. The bytes are not checked.
        """
        ...

    def map_records(
        self, places: bytes | memoryview, stride: int, max_count: int, max_bytes: int
    ) -> tuple[npt.NDArray[np.uint8], int] | None:
        """Return the part of the log in which many records are, without a copy of its bytes.

        Copy what you use before you check it, as the bytes are those of the file. Release the array
        soon: if another process cuts the file meanwhile, a use of the array ends this process.

        Args:
            places: see `read_records`.
            stride: see `read_records`.
            max_count: most records that will be read.
            max_bytes: most bytes that will be read; but one record at least.

        Returns:
            ``(w,)`` uint8, read-only, and the physical offset of its first byte. None if the
            records must be read by `read_records`: few or scattered ones, records that must have a
            checksum of all of their bytes, and all records if another process may change the log's
            files.
        """
        ...

    def mapped(self) -> tuple[int, tuple[MappedPart, ...]]:
        """Return the log's end, and the parts that calls of `map_records` have loaded.

        Returns:
            No part if any record must have a checksum of all of its bytes. Of each part ``(w,)``
            uint8, read-only; the physical offset of its first byte; the size of its file; and what
            returns this size now: if it is less, do not use the array. Otherwise what `map_records`
            says of its array is true of these.
        """
        ...

    def read_message(self, physical_offset: int, size: int = 0) -> MessageView | None:
        """Return the record at the physical offset of a record; None without one.

        Args:
            physical_offset: where the record begins.
            size: the record's size if known; a record of another size is then not returned.
        """
        ...

    def store_timestamp_at(self, physical_offset: int) -> int:
        """Return the store time of the record at that offset, ms; -1 without one."""
        ...

    def must_have_crc(self, physical_offset: int) -> bool:
        """Whether a record at an offset must have a checksum of all of its bytes (`record_crc`)."""
        ...

    def scan(
        self, start: int | None = None, end: int | None = None, *, check_crc: bool = False
    ) -> Iterator[DispatchBatch]:
        """Iterate over ``[start, end)`` in batches; each is valid until the next is taken.

        A batch that ends before damage has a ``finding``, and perhaps no rows; the next batch
        begins at the next sound record.

        Args:
            start: beginning of a record or of a file; the log's beginning when left out.
            end: where to stop; the log's end when left out.
            check_crc: verify the checksums of bodies, and of whole records that have one.
        """
        ...

    def losses(self, start: int, end: int) -> tuple[Loss, ...]:
        """Return the known losses in ``[start, end)``; cheap without losses."""
        ...
