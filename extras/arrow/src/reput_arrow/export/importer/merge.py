"""Rows of many files in the order of the log: each file is in order, and they are merged.

Of every file that may hold the next rows a few are in memory, however large the files are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from reput_arrow.codederrors import CodedError
from reput_arrow.export.importer.inputrows import rows_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_arrow.export.importer.inputfiles import Source

_KEY: Final = "physical_offset"


def merged(sources: Sequence[Source], told: Callable[[int], None]) -> Iterator[pa.Table]:
    """Yield all rows: one store after another, and each in the order of its log.

    Where files do not say physical offsets, their rows come file by file.

    Args:
        sources: as `find_sources` returns them.
        told: called with the bytes of files that are done.

    Raises:
        CodedError: a file that cannot be read, or is not in the order of its offsets.
    """
    meter = _Meter(told)
    for _, group in itertools.groupby(sources, key=lambda source: source.store):
        streams = [_Stream(source, meter) for source in group]
        yield from _merged(streams)


class _Meter:
    """Bytes done of all files together."""

    def __init__(self, told: Callable[[int], None]) -> None:
        self._told = told
        self._done = 0

    def add(self, size: int) -> None:
        self._done += size
        self._told(self._done)


class _Stream:
    """The rows of one file, of which the pending ones are held."""

    def __init__(self, source: Source, meter: _Meter) -> None:
        self.source = source
        self._meter = meter
        self._read = rows_of(source)
        self._done = 0
        self._last = -1
        self.rows: pa.Table | None = None
        self.keys: npt.NDArray[np.int64] | None = None

    def open(self) -> bool:
        """Hold the next rows; False at the end."""
        for rows, done in self._read:
            self._meter.add(done - self._done)
            self._done = done
            if rows.num_rows:
                self.rows = rows
                self.keys = self._keys_of(rows)
                return True
        self.rows = self.keys = None
        return False

    def _keys_of(self, rows: pa.Table) -> npt.NDArray[np.int64] | None:
        if _KEY not in rows.column_names or rows[_KEY].null_count:
            return None
        keys: npt.NDArray[np.int64] = rows[_KEY].to_numpy().astype(np.int64)
        if (np.diff(keys, prepend=self._last) <= 0).any():
            raise CodedError(
                "ROW",
                f"{self.source.path}: not in the order of {_KEY}, each of which is there once; "
                f"leave that column out to take the rows as they come",
            )
        self._last = int(keys[-1])
        return keys

    def take(self, most: int) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """Take the held rows whose keys are ``most`` at most."""
        assert self.rows is not None
        assert self.keys is not None
        count = int(np.searchsorted(self.keys, most, "right"))
        taken = self.rows.slice(0, count), self.keys[:count]
        self.rows, self.keys = self.rows.slice(count), self.keys[count:]
        return taken


def _merged(streams: list[_Stream]) -> Iterator[pa.Table]:
    waiting = streams[::-1]
    held: list[_Stream] = []
    while held or waiting:
        if not held:
            stream = waiting.pop()
            if not stream.open():
                continue
            if stream.keys is None:
                yield from _rest(stream)
                continue
            held.append(stream)
        most = min(int(each.keys[-1]) for each in held if each.keys is not None)
        while waiting and waiting[-1].source.first_offset <= most:
            stream = waiting.pop()
            if not stream.open():
                continue
            if stream.keys is None:
                yield from _rest(stream)
                continue
            held.append(stream)
            most = min(most, int(stream.keys[-1]))
        taken = [each.take(most) for each in held]
        rows = pa.concat_tables([rows for rows, _ in taken], promote_options="permissive")
        keys = np.concatenate([keys for _, keys in taken])
        yield rows if len(held) == 1 else rows.take(pa.array(np.argsort(keys, kind="stable")))
        held = [each for each in held if (each.keys is not None and len(each.keys)) or each.open()]


def _rest(stream: _Stream) -> Iterator[pa.Table]:
    """Yield all rows of a file without offsets as they come."""
    while stream.rows is not None:
        yield stream.rows
        stream.open()
