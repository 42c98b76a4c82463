"""Logs that DLedger writes: entries, each of which has one record for its body.

The bodies of all entries of a window are copied together, and decoded like any other records.

Source: RocketMQ ``DLedgerCommitLog``, DLedger ``DLedgerMmapFileStore``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from reput.errors import CorruptFileError
from reput.record import Corruption, CorruptionKind, Decoder, DispatchBatch, MessageView, words_at
from reput.record.layout import HEADER_DTYPE
from reput_arrow.logs.arrowdisk import above, below, disk_of
from reput_arrow.logs.dledgerentries import (
    HEAD_SIZE,
    MESSAGE,
    Last,
    Walk,
    first_entry,
    in_order,
    last_of,
    walk,
)
from reput_arrow.logs.logplace import LogPlace
from reput_arrow.logs.openlog import OpenLog
from reput_arrow.textarrays import pieces

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["EntryBatch", "LedgerLog"]

_SEARCH_SIZE: Final = 1 << 20
_WINDOW_SIZE: Final = 4 << 20
_OWN_OFFSET: Final = HEADER_DTYPE.fields["physical_offset"][1] if HEADER_DTYPE.fields else 0
_CHECKPOINT_MAX: Final = 65_536


class EntryBatch:
    """A batch whose records have other bytes between them: all of `DispatchBatch` but for offsets.

    The records were copied together into a window of their own, so that their places there say
    nothing about their physical offsets, which are a column here.
    """

    def __init__(self, batch: DispatchBatch, offsets: npt.NDArray[np.int64]) -> None:
        self._batch = batch
        self._offsets = offsets
        self.end_offset = 0
        self.finding: Corruption | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, rows: slice) -> EntryBatch:
        found = EntryBatch(self._batch[rows], self._offsets[rows])
        found.end_offset, found.finding = self.end_offset, self.finding
        return found

    @property
    def physical_offset(self) -> npt.NDArray[np.int64]:
        """``(n,)`` int64: where each record begins in the log."""
        return self._offsets

    def column(self, name: str) -> npt.NDArray[Any]:
        """See `DispatchBatch.column`."""
        return self._offsets if name == "physical_offset" else self._batch.column(name)

    def message(self, row: int) -> MessageView:
        """See `DispatchBatch.message`."""
        return MessageView(self._batch.record(row), int(self._offsets[row]))


class LedgerLog(OpenLog):
    """A log of DLedger entries."""

    def __init__(self, place: LogPlace) -> None:
        super().__init__(place)
        self._committed = _committed_index(place.directory)

    # ------------------------------------------------------------------ extent

    def find_end(self, *, quickly: bool = False) -> None:
        """Look where the log ends: after the last entry that is known to be committed.

        Without a checkpoint, which newer releases do not write, it ends after the last whole entry.
        Only the numbers of all entries of the last file tell which entry is the last: ``quickly``
        changes nothing.
        """
        for base in reversed(self.files.bases):
            if not self.files.read(base, HEAD_SIZE).strip(b"\0"):
                continue  # made ahead of need
            _, found = self._window(base, base + self.file_size)
            # The second one speaks for the first, too, whose own number may be damaged.
            numbers = (found.heads["index"][:2] - np.arange(len(found.heads))[:2]).tolist()
            if self._committed is None or min(numbers, default=-1) <= self._committed:
                self.set_end(self._end_in(base))
                return
        self.set_end(self.files.min_offset)

    def _end_in(self, base: int) -> int:
        position, stop = base, base + self.file_size
        committed = np.iinfo(np.int64).max if self._committed is None else self._committed
        last: Last | None = None
        while position < stop:
            _, found = self._window(position, stop)
            heads = found.heads
            good = in_order(heads, last)
            ends = ~good | (heads["index"] > committed)
            if ends.any():
                row = int(np.argmax(ends))
                start = position + int(found.starts[row])
                if good[row] or self._committed is None:
                    return start
                # Out of order below what is committed: damage, which a reader will meet.
                position, last = start + int(heads["size"][row]), None
                continue
            last = last_of(heads) or last
            position += found.end
            if found.problem is None and found.end:
                continue
            # Bytes torn off here, or left when the log was cut, were never committed.
            if self._committed is None or (last is not None and last.number >= committed):
                return position
            used = self.files.last_used(position, stop)
            after = self.next_record(position + 1, used)
            if after >= used:
                return position
            position, last = after, None
        return position

    # ------------------------------------------------------------------ reading

    def next_record(self, start: int, end: int) -> int:
        """Return the offset of the first entry at ``start`` or after it; ``end`` without any."""
        while start < end:
            window = self._bytes(start, min(_SEARCH_SIZE + HEAD_SIZE, end - start))
            found = first_entry(window, start, end)
            if found is not None:
                return start + found
            if len(window) < HEAD_SIZE:
                break
            start += len(window) - HEAD_SIZE + 1
        return end

    def scan(
        self, start: int | None = None, end: int | None = None, *, check_crc: bool = False
    ) -> Iterator[DispatchBatch]:
        """See `reput.log.LogView.scan`."""
        decoder = Decoder(check_crc=check_crc, check_offset=False)
        position = self.min_physical_offset if start is None else start
        stop = self.max_physical_offset if end is None else min(end, self.max_physical_offset)
        last: Last | None = None
        while position < stop:
            base = self.files.base_of(position)
            limit = stop if base is None else min(stop, base + self.file_size)
            batch, last = self._batch(decoder, position, limit, last)
            position = batch.end_offset
            if len(batch) or batch.finding is not None:
                yield cast("DispatchBatch", batch)

    def _batch(
        self, decoder: Decoder, position: int, limit: int, last: Last | None
    ) -> tuple[EntryBatch, Last | None]:
        """Decode what stands from ``position`` on, up to a window's end or to damage."""
        window, found = self._window(position, limit)
        heads, starts = found.heads, found.starts
        good = in_order(heads, last)
        count = len(good) if good.all() else int(np.argmin(good))
        is_message = heads["magic"][:count] == MESSAGE
        sizes = heads["size"][:count][is_message].astype(np.int64)
        batch = self._decoded(decoder, window, position, starts[:count][is_message], sizes)
        if batch.finding is not None:
            return batch, None
        if count < len(good):
            # Nothing is skipped: the next batch begins with it, and nothing before it counts.
            batch.end_offset = position + int(starts[count])
            detail = "its index or term does not follow from the entry before it"
            batch.finding = Corruption(batch.end_offset, CorruptionKind.PHYSICAL_OFFSET, detail)
            return batch, None
        batch.end_offset = position + found.end
        if found.problem is not None or found.end == 0:
            problem = found.problem or (CorruptionKind.TRUNCATED, f"{limit - position} bytes left")
            batch.finding = Corruption(position + found.end, *problem)
            batch.end_offset = self.next_record(position + found.end + 1, limit)
            return batch, None
        return batch, last_of(heads) or last

    def _decoded(
        self,
        decoder: Decoder,
        window: npt.NDArray[np.uint8],
        position: int,
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
    ) -> EntryBatch:
        """Decode the records of entries; the batch has a finding where one is not a record."""
        bodies = pieces(window, starts + HEAD_SIZE, starts + sizes)
        data = bodies.buffers()[2]
        together = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        # A record of its own length fills its entry; decoding ends before one that does not.
        lengths = sizes - HEAD_SIZE
        borders = np.concatenate([[0], np.cumsum(lengths)])
        result = decoder.decode(together[: int(borders[-1])], 0)
        batch = result.batch
        count = len(batch)
        agrees = (batch.start == borders[:count]) & (batch.size == lengths[:count])
        stated = words_at(together, batch.start + _OWN_OFFSET, np.dtype(">i8")) if count else None
        offsets = starts + HEAD_SIZE + position
        if stated is not None:
            agrees &= stated == offsets[:count]
        good = int(np.logical_and.accumulate(agrees).sum())
        found = EntryBatch(batch[:good], offsets[:good])
        if good < len(starts):
            at = int(offsets[good])
            if good == count and batch.finding is not None:
                found.finding = Corruption(at, batch.finding.reason, batch.finding.detail)
            else:
                detail = "the record does not fill its entry, or states another offset"
                found.finding = Corruption(at, CorruptionKind.LENGTH_MISMATCH, detail)
            # The chain of entries does not go through their bodies: it leads on.
            found.end_offset = position + int(starts[good] + sizes[good])
        return found

    def _window(self, position: int, limit: int) -> tuple[npt.NDArray[np.uint8], Walk]:
        """Read bytes from ``position`` on, one entry at least, and walk through its entries."""
        size = _WINDOW_SIZE
        while True:
            window = self._bytes(position, min(size, limit - position))
            found = walk(window, position, limit)
            if found.end > 0 or found.problem is not None or len(window) < size:
                return window, found
            size = found.needed

    def _bytes(self, position: int, size: int) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.files.read(position, size), np.uint8)


def _committed_index(directory: str) -> int | None:
    """Return the committed index that the checkpoint beside ``directory`` states.

    Returns:
        None without a checkpoint.

    Raises:
        CorruptFileError: a value of the checkpoint is not a number.
    """
    disk, path = disk_of(below(above(directory), "checkpoint"))
    if not disk.exists(path):
        return None
    text = disk.read_file(path, _CHECKPOINT_MAX).decode("latin-1")
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip() == "committedIndex":
            try:
                return int(value)
            except ValueError:
                raise CorruptFileError(path, 0, f"committedIndex is {value!r}") from None
    return None
