"""`PendingRows`: rows that were dispatched and are not in the file yet, by part of the log."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from reput_table.rowcolumns import grouped_rows, plain_rows
from reput_table.schema import Schema

if TYPE_CHECKING:
    from reput.record import DispatchBatch


@attrs.frozen
class Parting:
    """Divides the log into parts, none of which crosses the end of a file."""

    file_size: int
    """Bytes of one commit-log file."""
    part_size: int
    """Bytes of a part; less at the end of a file."""

    def part_of(self, physical_offset: int) -> int:
        """Return the first byte of the part in which a record begins."""
        inside = physical_offset % self.file_size
        return physical_offset - inside + inside // self.part_size * self.part_size

    def pieces(self, batch: DispatchBatch) -> Iterator[tuple[int, DispatchBatch]]:
        """Yield the parts that records of ``batch`` begin in, with these records."""
        if not len(batch):
            return
        offsets = batch.physical_offset
        if self.part_of(int(offsets[0])) == self.part_of(int(offsets[-1])):
            yield self.part_of(int(offsets[0])), batch
            return
        inside = offsets % self.file_size
        parts = offsets - inside + inside // self.part_size * self.part_size
        borders = np.flatnonzero(np.diff(parts)) + 1
        starts = [0, *borders.tolist()]
        for start, stop in zip(starts, [*starts[1:], len(batch)], strict=True):
            yield int(parts[start]), batch[start:stop]


@attrs.define(eq=False)
class PartRows:
    """Rows of one part: in the order of the log, or put together by key."""

    first_offset: int
    """Physical offset of the first record."""
    plain: list[tuple[Any, ...]] = attrs.field(factory=list)
    by_key: dict[tuple[Any, ...], tuple[int | float, ...]] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self.plain) + len(self.by_key)

    def rows(self, part: int) -> Iterator[tuple[Any, ...]]:
        """Yield the part with the columns of each row."""
        yield from [(part, *row) for row in self.plain]
        for key, values in self.by_key.items():
            yield (part, *key, *values)


@attrs.define(eq=False)
class PendingRows:
    """Rows of messages up to a place in the log."""

    schema: Schema
    dispatched_to: int = 0
    """Physical offset below which every message is in the file or here."""
    parts: dict[int, PartRows] = attrs.field(factory=dict)
    """By the first byte of the part; ascending."""

    def __len__(self) -> int:
        return sum(map(len, self.parts.values()))

    @classmethod
    def of(
        cls,
        batch: DispatchBatch,
        schema: Schema,
        parting: Parting,
        rows: Callable[[DispatchBatch], Any],
    ) -> PendingRows:
        """Return the rows of ``batch``, by the author's function."""
        made = cls(schema, batch.end_offset)
        for part, piece in parting.pieces(batch):
            found = made.parts[part] = PartRows(piece.start_offset)
            given = rows(piece)
            if given is None:
                continue
            if schema.key:
                found.by_key.update(merged(schema, {}, grouped_rows(schema, given, len(piece))))
            else:
                found.plain = plain_rows(schema, given, len(piece))
        return made

    def add(self, other: PendingRows) -> None:
        """Take the rows of the messages that follow."""
        for part, fresh in other.parts.items():
            known = self.parts.setdefault(part, PartRows(fresh.first_offset))
            known.plain += fresh.plain
            merged(self.schema, known.by_key, fresh.by_key.items())
        self.dispatched_to = max(self.dispatched_to, other.dispatched_to)


def merged(
    schema: Schema, into: dict[tuple[Any, ...], tuple[int | float, ...]], rows: Any
) -> dict[tuple[Any, ...], tuple[int | float, ...]]:
    """Put ``rows``, keys with aggregates, together with those of ``into``, and return it."""
    sum_count, least_end = len(schema.sums), len(schema.sums) + len(schema.least)
    for key, values in rows:
        known = into.get(key)
        if known is not None:
            values = (
                *map(operator.add, known[:sum_count], values[:sum_count]),
                *map(min, known[sum_count:least_end], values[sum_count:least_end]),
                *map(max, known[least_end:], values[least_end:]),
            )
        into[key] = values
    return into
