"""Cuts a log into splits that several processes read at once.

A split begins and ends at a border between records. Where the border lies inside of a file it is
looked for near the wanted place: bytes with a record's magic, lengths that add up, their own offset
and a body that matches its checksum. A body may hold the bytes of such a record all the same, so
that whoever reads the split before must land exactly there: `read_split` fails when it does not.
The first border of a file is certain, and a chain of sizes that begins at a border meets only
borders; so two wrong cuts never agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.log.reading.reader import LogReader
    from reput.record.batch import DispatchBatch

__all__ = ["SPLIT_SIZE", "Split", "plan_splits", "read_split"]

SPLIT_SIZE: Final = 256 << 20
"""Bytes of a split, about, where nobody says otherwise."""


@attrs.frozen
class Split:
    """The records that begin in ``[start_offset, end_offset)``; plain values, made to be sent."""

    number: int
    """0 for the first of the log."""
    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        """Bytes of the log in it."""
        return self.end_offset - self.start_offset


def plan_splits(
    log: LogReader,
    size: int = SPLIT_SIZE,
    start: int | None = None,
    end: int | None = None,
) -> list[Split]:
    """Cut ``[start, end)`` of a log into splits of about ``size`` bytes.

    Reads a few KiB at each cut. Where no border is found near a cut the split is longer.

    Args:
        log: the log; its end is known.
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
        # A rest of less than a quarter is not worth a task of its own.
        border = stop if cut + size // 4 >= stop else _border_at(log, cut, stop)
        splits.append(Split(len(splits), position, border))
        position = border
    return splits


def _border_at(log: LogReader, cut: int, stop: int) -> int:
    """The first border at ``cut`` or behind it."""
    base = log.files.base_of(cut)
    if base is None:
        return stop
    if base == cut:
        return cut
    return log.next_record(cut, min(base + log.file_size, stop))


def read_split(log: LogReader, split: Split, *, check_crc: bool = False) -> Iterator[DispatchBatch]:
    """The batches of one split; each is valid until the next one is taken.

    Args:
        log: the log.
        split: which part of it.
        check_crc: verify the checksum of every body.

    Raises:
        CorruptFileError: damage, or the records do not end where the next split begins. Who reads
            the whole log in order gets over both.
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
