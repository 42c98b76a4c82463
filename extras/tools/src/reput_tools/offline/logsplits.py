"""Divides a log into splits that several processes read at once.

A split begins and ends at a border between records. A border inside of a file is the first sound
record near the wanted offset: it has a record's magic, its lengths add up, it states its own
offset, and its body matches its checksum. As a body may contain the bytes of such a record, the
split before must end exactly there: `read_split` fails if it does not. A file's beginning is
certainly a border, and a chain of sizes that begins at a border meets only borders, so two wrong
cuts never agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.log import LogReader
    from reput.record import DispatchBatch

SPLIT_SIZE: Final = 256 << 20
"""Default size of a split, about, in bytes."""


@attrs.frozen
class Split:
    """The records that begin in ``[start_offset, end_offset)``; plain values, which pickle."""

    number: int
    """0 for the first split of the log."""
    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        """Bytes of the log in the split."""
        return self.end_offset - self.start_offset


def plan_splits(
    log: LogReader,
    size: int = SPLIT_SIZE,
    start: int | None = None,
    end: int | None = None,
) -> list[Split]:
    """Divide ``[start, end)`` of a log into splits of about ``size`` bytes.

    Reads a few KiB at each cut. If there is no border near a cut, the split is longer.

    Args:
        log: the log, whose end is known.
        size: bytes.
        start: a border; the log's beginning when left out.
        end: a border; the log's end when left out.
    """
    if size < 1:
        raise ValueError(f"splits of {size} bytes; 1 or more expected")
    position = log.min_physical_offset if start is None else start
    stop = log.max_physical_offset if end is None else min(end, log.max_physical_offset)
    splits: list[Split] = []
    while position < stop:
        cut = position + size
        # A rest of less than a quarter is not worth its own split.
        border = stop if cut + size // 4 >= stop else _border_at(log, cut, stop)
        splits.append(Split(len(splits), position, border))
        position = border
    return splits


def _border_at(log: LogReader, cut: int, stop: int) -> int:
    """Return the first border at or after ``cut``."""
    base = log.files.base_of(cut)
    if base is None:
        return stop
    if base == cut:
        return cut
    return log.next_record(cut, min(base + log.file_size, stop))


def read_split(log: LogReader, split: Split, *, check_crc: bool = False) -> Iterator[DispatchBatch]:
    """Iterate over the batches of one split; each is valid until the next is taken.

    Args:
        log: the log.
        split: the part of the log to read.
        check_crc: verify the checksum of every body.

    Raises:
        CorruptFileError: damage, or the records do not end where the next split begins. A scan of
            the whole log in order gets past both.
    """
    position = split.start_offset
    for batch in log.scan(split.start_offset, split.end_offset, check_crc=check_crc):
        if batch.finding is not None:
            path, at = log.path_of(batch.finding.physical_offset)
            raise CorruptFileError(path, at, f"{batch.finding}; read the log in one piece")
        yield batch
        position = batch.end_offset
    if position != split.end_offset:
        path, at = log.path_of(position)
        raise CorruptFileError(
            path,
            at,
            f"the records of split {split.number} end at {position}, and the next split begins at "
            f"{split.end_offset}; read the log in one piece",
        )
