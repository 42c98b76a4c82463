"""What travels between the processes of a job: plain values, and names of files in its staging.

The messages of all queues of a job are its *rows*, numbered queue by queue in the order of their
queue offsets. Four rounds of tasks, each of which needs what all of the one before have found:

1. *scan*: reads records; writes the hashes of keys, in the order of the hashes, and what the other
   rounds must know of each row;
2. *merge*: one part of all hashes; writes the numbers of the rows that have a successor;
3. *lay out*: some queues; writes the numbers of the rows that stay, and says which of them go into
   which new pair;
4. *write*: some new pairs.

A task may be done twice, and by two processes at once: each attempt writes files of its own, and
those count that the attempt names whose answer is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_compaction.layout import FileSizes
    from reput_compaction.pairs._names import Places
    from reput_compaction.pairs._scan import Stretch
    from reput_compaction.run._rules import Rules

__all__ = [
    "KIND_DTYPE",
    "KIND_STAYS",
    "KIND_WAITS",
    "Job",
    "LaidPair",
    "LayTask",
    "MergeTask",
    "Merged",
    "Part",
    "QueueRows",
    "ScanTask",
    "Scanned",
    "Segment",
    "WriteTask",
]

KIND_DTYPE: Final = np.dtype([("size", "<i4"), ("kind", "u1")])
"""Of each row: the bytes of its record, and bits."""
KIND_STAYS: Final = 1  # unless another row has the same key
KIND_WAITS: Final = 2  # a tombstone that stays for a time


@attrs.frozen(kw_only=True)
class Job:
    """What every task must know."""

    sizes: FileSizes
    rules: Rules
    now: int
    """The store's clock when it began, ms."""
    seed: bytes
    """Of the hash of keys."""
    bits: int
    """Hashes are cut into parts by so many first bits."""
    root: str
    """The store's directory."""
    follow_links: bool
    """As for `reput.open`."""
    staging: str
    """Where everything is written; this job's alone."""


@attrs.frozen(kw_only=True)
class Part:
    """Messages of one old pair that stand behind each other."""

    queue: int
    """Number of the queue in the job."""
    places: Places
    """The queue's directories."""
    base: int
    """The pair's name."""
    stretch: Stretch
    row: int
    """Number of the first message in the job."""
    newest: int
    """Queue offset that stays in any case; -1 for none."""

    @property
    def size(self) -> int:
        """Bytes of records."""
        return self.stretch.end - self.stretch.begin

    @property
    def end_row(self) -> int:
        """Number behind the last message."""
        return self.row + self.stretch.stop - self.stretch.first

    def __str__(self) -> str:
        return f"[{self.stretch.begin}, {self.stretch.end}) of {self.places.log}/{self.base:020d}"


def _named(parts: tuple[Part, ...]) -> str:
    first, more = parts[0], len(parts) - 1
    return f"{first} and {more} more, to {parts[-1]}" if more else str(first)


# ---------------------------------------------------------------------- first round


@attrs.frozen
class ScanTask:
    """Read some parts, whose rows follow each other."""

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
    """What came of it."""

    row: int
    """Number of its first row."""
    end_row: int
    keys: str
    """File of hashes: runs of `ROW_DTYPE`, each in the order of the hashes."""
    kinds: str
    """File of `KIND_DTYPE`, one for each row."""
    starts: npt.NDArray[np.int64]
    """``(runs, parts + 1)``: where in the file of hashes each part of each run begins, rows."""


# ---------------------------------------------------------------------- second round


@attrs.frozen
class Segment:
    """Rows of one part of the hashes in one file, in the order of the hashes."""

    path: str
    first: int
    """Rows in the file before them."""
    count: int


@attrs.frozen
class MergeTask:
    """Find the rows of one part of the hashes that have a successor."""

    part: int
    segments: tuple[Segment, ...]
    """In the order of the rows' numbers."""
    row_size: int
    borders: tuple[int, ...]
    """Numbers of the first rows of all splits, and the one behind the last row."""

    @property
    def size(self) -> int:
        """Bytes of hashes."""
        return sum(segment.count for segment in self.segments) * self.row_size

    def __str__(self) -> str:
        return f"part {self.part} of the keys, from {len(self.segments)} files"


@attrs.frozen(eq=False)
class Merged:
    """What came of it."""

    path: str
    """File of numbers of rows, int64, ascending."""
    starts: npt.NDArray[np.int64]
    """``(splits + 1,)``: where in it the rows of each split begin."""


# ---------------------------------------------------------------------- third round


@attrs.frozen
class QueueRows:
    """The rows of one queue."""

    queue: int
    row: int
    end_row: int


@attrs.frozen(eq=False)
class LayTask:
    """Choose the rows of some queues, which follow each other, and cut them into new pairs."""

    queues: tuple[QueueRows, ...]
    scanned: tuple[Scanned, ...]
    """Those that have their rows."""
    merged: tuple[Merged, ...]
    """All parts; ``starts`` is about ``scanned``."""

    @property
    def size(self) -> int:
        """Bytes of what is known of the rows."""
        return (self.queues[-1].end_row - self.queues[0].row) * KIND_DTYPE.itemsize

    def __str__(self) -> str:
        return f"layout of queues {self.queues[0].queue} to {self.queues[-1].queue} of the job"


@attrs.frozen
class LaidPair:
    """A pair that is to be written."""

    queue: int
    base: int
    path: str
    """File of rows that stay, int64: twice the number, and one more for a tombstone that stays for
    a time."""
    first: int
    """Rows in that file before those of the pair."""
    count: int
    size: int
    """Bytes of their records."""
    row: int
    """Number of its first row."""
    end_row: int
    """Number behind its last row."""


# ---------------------------------------------------------------------- fourth round


@attrs.frozen
class WriteTask:
    """Write some new pairs."""

    number: int
    pairs: tuple[LaidPair, ...]
    parts: tuple[Part, ...]
    """Where their rows are."""

    @property
    def size(self) -> int:
        """Bytes of records."""
        return sum(pair.size for pair in self.pairs)

    def __str__(self) -> str:
        return f"write task {self.number}, from {_named(self.parts)}"
