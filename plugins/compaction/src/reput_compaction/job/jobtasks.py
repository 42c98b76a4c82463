"""What travels between the processes of a job: plain values, and names of files in its staging.

The messages of all queues of a job are its *rows*, numbered queue by queue in the order of their
queue offsets. There are four rounds of tasks; each needs the complete results of the rounds before:

1. *scan*: reads records; writes the hashes of keys, in the order of the hashes, and what the other
   rounds must know of each row;
2. *merge*: one part of all hashes; writes the numbers of the rows that have a successor;
3. *lay out*: some queues; writes the numbers of the rows that stay, and says which of them go into
   which new pair;
4. *write*: some new pairs.

A task may be run twice, also by two processes at once: each attempt writes files of its own. Only
the files that the accepted answer names count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_compaction.filepairs.pairscan import Stretch
    from reput_compaction.filepairs.queuenames import Places
    from reput_compaction.layout import FileSizes
    from reput_compaction.run.keeprules import KeepRules

KIND_DTYPE: Final = np.dtype([("size", "<i4"), ("kind", "u1")])
"""Of each row: the size of its record in bytes, and bits."""
KIND_STAYS: Final = 1  # unless a later row has the same key
KIND_WAITS: Final = 2  # a tombstone that stays for a time


@attrs.frozen(kw_only=True)
class Job:
    """What every task of one job needs."""

    sizes: FileSizes
    rules: KeepRules
    now: int
    """The store's clock when the job began, ms."""
    seed: bytes
    """Seed of the hash of keys."""
    bits: int
    """Number of leading bits by which hashes are cut into parts."""
    root: str
    """The store's directory."""
    follow_links: bool
    """As for `reput.open`."""
    staging: str
    """Directory in which every task writes; no other job uses it."""


@attrs.frozen(kw_only=True)
class Part:
    """Consecutive messages of one old pair."""

    queue: int
    """Number of the queue in the job."""
    places: Places
    """The queue's directories."""
    base: int
    """Base of the pair, which is its name."""
    stretch: Stretch
    row: int
    """Row number of the first message."""
    newest: int
    """Queue offset that stays in any case; -1 for none."""

    @property
    def size(self) -> int:
        """Bytes of records."""
        return self.stretch.end - self.stretch.begin

    @property
    def end_row(self) -> int:
        """Row number after the last message."""
        return self.row + self.stretch.stop - self.stretch.first

    def __str__(self) -> str:
        return f"[{self.stretch.begin}, {self.stretch.end}) of {self.places.log}/{self.base:020d}"


def _named(parts: tuple[Part, ...]) -> str:
    first, more = parts[0], len(parts) - 1
    return f"{first} and {more} more, to {parts[-1]}" if more else str(first)


# ---------------------------------------------------------------------- first round


@attrs.frozen
class ScanTask:
    """Read some parts with consecutive rows."""

    number: int
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Bytes of records."""
        return sum(part.size for part in self.parts)

    def __str__(self) -> str:
        return f"split {self.number}, {_named(self.parts)}"


@attrs.frozen(eq=False)
class Scanned:
    """The result of a `ScanTask`."""

    row: int
    """Number of the task's first row."""
    end_row: int
    keys: str
    """File of hashes: runs of `ROW_DTYPE`, each in the order of the hashes."""
    kinds: str
    """File of `KIND_DTYPE`, one item for each row."""
    starts: npt.NDArray[np.int64]
    """``(runs, parts + 1)``: row of the hash file at which each part of each run begins."""


# ---------------------------------------------------------------------- second round


@attrs.frozen
class Segment:
    """Rows of one part of the hashes in one file, in the order of the hashes."""

    path: str
    first: int
    """Number of rows before them in the file."""
    count: int


@attrs.frozen
class MergeTask:
    """Find the rows of one part of the hashes that have a successor."""

    part: int
    segments: tuple[Segment, ...]
    """Its segments, in the order of row numbers."""
    row_size: int
    borders: tuple[int, ...]
    """Numbers of the first rows of all splits, and the number after the last row."""

    @property
    def size(self) -> int:
        """Bytes of hashes."""
        return sum(segment.count for segment in self.segments) * self.row_size

    def __str__(self) -> str:
        return f"part {self.part} of the keys, from {len(self.segments)} files"


@attrs.frozen(eq=False)
class Merged:
    """The result of a `MergeTask`."""

    path: str
    """File of row numbers, int64, ascending."""
    starts: npt.NDArray[np.int64]
    """``(splits + 1,)``: position in the file, in rows, at which each split begins."""


# ---------------------------------------------------------------------- third round


@attrs.frozen
class QueueRows:
    """The rows of one queue."""

    queue: int
    row: int
    end_row: int


@attrs.frozen(eq=False)
class LayTask:
    """Choose the rows of some consecutive queues, and cut them into new pairs."""

    queues: tuple[QueueRows, ...]
    scanned: tuple[Scanned, ...]
    """The scans that have these rows."""
    merged: tuple[Merged, ...]
    """The results for all parts; ``starts`` refers to ``scanned``."""

    @property
    def size(self) -> int:
        """Bytes of the kinds of the rows."""
        return (self.queues[-1].end_row - self.queues[0].row) * KIND_DTYPE.itemsize

    def __str__(self) -> str:
        return f"layout of queues {self.queues[0].queue} to {self.queues[-1].queue} of the job"


@attrs.frozen
class LaidPair:
    """A new pair that is to be written."""

    queue: int
    base: int
    path: str
    """File of rows that stay, int64: twice the row number, plus 1 for a tombstone that stays for a
    time."""
    first: int
    """Number of rows before the pair's in that file."""
    count: int
    size: int
    """Bytes of their records."""
    row: int
    """Number of the pair's first row."""
    end_row: int
    """Number after the pair's last row."""


# ---------------------------------------------------------------------- fourth round


@attrs.frozen
class WriteTask:
    """Write some new pairs."""

    number: int
    pairs: tuple[LaidPair, ...]
    parts: tuple[Part, ...]
    """Parts of old pairs that hold the rows."""

    @property
    def size(self) -> int:
        """Bytes of records."""
        return sum(pair.size for pair in self.pairs)

    def __str__(self) -> str:
        return f"write task {self.number}, from {_named(self.parts)}"
