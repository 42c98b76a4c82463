"""A property of every row of a batch: compare, search and read as numbers, all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.record import TextColumn, rows_by_width, words_at
from reput_filter.columns import numbercolumns

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_filter.columns.javanumbers import Kind
    from reput_filter.columns.truthcodes import Mask

_REPLACEMENT: Final = "\ufffd"
_SEPARATOR: Final = 2  # a character that no value of a property holds
_SHORT: Final = 32  # bytes of a text up to which every position is tried, in all rows at once
_FEW_TEXTS: Final = 16  # texts of a list above which rows are looked up in it one by one
_WORDS: Final = tuple(np.dtype(f"<u{size}") for size in (8, 4, 2, 1))


class Texts:
    """A property of every row.

    Two texts are compared by their bytes. That is exact except for bytes that are not UTF-8: these
    are read as U+FFFD, so that different bytes may be equal texts; such rows are read one by one.
    """

    def __init__(self, column: TextColumn) -> None:
        self._column = column
        self._window, self._starts, self._sizes = column.window, column.starts, column.sizes
        self.missing: Mask = column.sizes < 0
        """``(n,)``: rows without the property."""
        self._numbers: dict[Kind, tuple[npt.NDArray[np.int64], Mask]] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def take(self, rows: npt.NDArray[np.int64]) -> Texts:
        """Return the texts of ``rows`` only."""
        taken = Texts(TextColumn(self._window, self._starts[rows], self._sizes[rows]))
        for kind, (keys, is_number) in self._numbers.items():
            taken._numbers[kind] = keys[rows], is_number[rows]
        return taken

    def numbers(self, kind: Kind) -> tuple[npt.NDArray[np.int64], Mask]:
        """Return keys in the order of the rows' numbers, and which rows are numbers at all."""
        found = self._numbers.get(kind)
        if found is None:
            found = numbercolumns.parse(self._window, self._starts, self._sizes, kind)
            self._numbers[kind] = found
        return found

    # ------------------------------------------------------------------ equality

    def equals(self, text: str) -> Mask:
        """Return the rows whose value is ``text``."""
        data = _bytes_of(text)
        if data is None:
            return np.zeros(len(self), np.bool_)
        rows = np.flatnonzero(self._sizes == len(data))
        result = np.zeros(len(self), np.bool_)
        result[self._with_bytes(rows, self._starts[rows], data)] = True
        if _REPLACEMENT in text:
            self._look_at(np.flatnonzero(self._not_ascii()), result, text.__eq__)
        return result

    def equals_texts(self, other: Texts) -> Mask:
        """Return the rows with the same text in both columns; not rows missing on one side."""
        result = np.zeros(len(self), np.bool_)
        rows = np.flatnonzero((self._sizes == other._sizes) & ~self.missing)
        sizes = self._sizes[rows]
        result[rows[sizes == 0]] = True
        ours = rows_by_width(self._window, self._starts[rows], sizes)
        theirs = rows_by_width(other._window, other._starts[rows], sizes)
        for (places, matrix), (_, other_matrix) in zip(ours, theirs, strict=True):
            inside = np.arange(matrix.shape[1]) < sizes[places][:, None]
            result[rows[places]] = ~((matrix != other_matrix) & inside).any(axis=1)
        doubtful = self._not_ascii() & other._not_ascii() & ~result
        if doubtful.any() and not (self._is_utf8() and other._is_utf8()):
            for row in np.flatnonzero(doubtful).tolist():
                result[row] = self._column[row] == other._column[row]
        return result

    def is_one_of(self, texts: Collection[str]) -> Mask:
        """Return the rows whose value is one of ``texts``."""
        result = np.zeros(len(self), np.bool_)
        if len(texts) <= _FEW_TEXTS:
            for text in texts:
                result |= self.equals(text)
            return result
        known = {data for data in map(_bytes_of, texts) if data is not None}
        sizes = np.array(sorted({len(data) for data in known}), np.int64)
        rows = np.flatnonzero(np.isin(self._sizes, sizes))
        data = self._window.data
        places = zip(
            rows.tolist(), self._starts[rows].tolist(), self._sizes[rows].tolist(), strict=True
        )
        found = [row for row, start, size in places if bytes(data[start : start + size]) in known]
        result[found] = True
        if any(_REPLACEMENT in text for text in texts):
            self._look_at(np.flatnonzero(self._not_ascii()), result, frozenset(texts).__contains__)
        return result

    def is_true(self) -> Mask:
        """Return the rows whose value is ``true``, in any case."""
        result = np.zeros(len(self), np.bool_)
        rows = np.flatnonzero(self._sizes == len(b"true"))
        words = words_at(self._window, self._starts[rows], _WORDS[1])
        result[rows] = (words | np.uint32(0x20202020)) == np.frombuffer(b"true", _WORDS[1])
        return result

    # ------------------------------------------------------------------ searching

    def search(self, word: str, text: str) -> Mask:
        """Return the rows whose value contains ``text``, begins or ends with it."""
        result = np.zeros(len(self), np.bool_)
        data = _bytes_of(text)
        if data is None:
            return result
        rows = np.flatnonzero(self._sizes >= len(data))
        if word == "CONTAINS":
            result[self._containing(rows, data)] = True
            look: Callable[[str], bool] = lambda found: text in found  # noqa: E731
        elif word == "STARTSWITH":
            result[self._with_bytes(rows, self._starts[rows], data)] = True
            look = lambda found: found.startswith(text)  # noqa: E731
        else:
            ends = self._starts[rows] + self._sizes[rows]
            result[self._with_bytes(rows, ends - len(data), data)] = True
            look = lambda found: found.endswith(text)  # noqa: E731
        if _REPLACEMENT in text:
            self._look_at(np.flatnonzero(self._not_ascii()), result, look)
        return result

    def _with_bytes(
        self, rows: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], data: bytes
    ) -> npt.NDArray[np.int64]:
        """Return the elements of ``rows`` that have ``data`` at their ``starts``."""
        at = 0
        while at < len(data) and len(rows):
            dtype = next(each for each in _WORDS if each.itemsize <= len(data) - at)
            wanted = np.frombuffer(data, dtype, 1, at)[0]
            keep = words_at(self._window, starts + at, dtype) == wanted
            if not keep.all():
                rows, starts = rows[keep], starts[keep]
            at += dtype.itemsize
        return rows

    def _containing(self, rows: npt.NDArray[np.int64], data: bytes) -> npt.NDArray[np.int64]:
        """Return the elements of ``rows`` that contain ``data``, in time linear in their bytes."""
        if len(rows) == 0 or bytes([_SEPARATOR]) in data:
            return rows[:0]
        longest = int(self._sizes[rows].max())
        if longest <= _SHORT:
            return self._containing_at(rows, data, longest - len(data))
        joined, ends = _joined(self._window, self._starts[rows], self._sizes[rows])
        found: list[int] = []
        at, row = joined.find(data), -1
        while at >= 0:
            row = int(ends.searchsorted(at, "right"))
            found.append(row)
            at = joined.find(data, int(ends[row]))
        return rows[found]

    def _containing_at(
        self, rows: npt.NDArray[np.int64], data: bytes, last: int
    ) -> npt.NDArray[np.int64]:
        """Return the elements of ``rows`` that have ``data`` at a position up to ``last``."""
        found = []
        for place in range(last + 1):
            if place:
                rows = rows[self._sizes[rows] >= place + len(data)]
            hits = self._with_bytes(rows, self._starts[rows] + place, data)
            if len(hits):
                found.append(hits)
                rows = np.setdiff1d(rows, hits, assume_unique=True)
        return np.concatenate(found) if found else rows[:0]

    # ------------------------------------------------------------------ what is not ASCII

    def _not_ascii(self) -> Mask:
        result = np.zeros(len(self), np.bool_)
        for rows, matrix in rows_by_width(self._window, self._starts, self._sizes):
            if (matrix.view(np.uint64) & np.uint64(0x8080808080808080)).any():
                inside = np.arange(matrix.shape[1]) < self._sizes[rows][:, None]
                result[rows] = ((matrix >= 0x80) & inside).any(axis=1)
        return result

    def _is_utf8(self) -> bool:
        rows = np.flatnonzero(self._sizes > 0)
        try:
            _joined(self._window, self._starts[rows], self._sizes[rows])[0].decode()
        except UnicodeDecodeError:
            return False
        return True

    def _look_at(
        self, rows: npt.NDArray[np.int64], result: Mask, holds: Callable[[str], bool]
    ) -> None:
        for row in rows.tolist():
            text = self._column[row]
            assert text is not None
            result[row] = holds(text)


def _bytes_of(text: str) -> bytes | None:
    """Return the bytes of a literal; None if no property can have that text."""
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return None


def _joined(
    window: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Return all texts with a separator after each; and where each ends, separator included."""
    ends = np.cumsum(sizes + 1)
    places = np.arange(int(ends[-1]) if len(ends) else 0)
    row = np.repeat(np.arange(len(sizes)), sizes + 1)
    places += (starts - (ends - sizes - 1))[row]
    joined = window[np.minimum(places, len(window) - 1)] if len(places) else window[:0]
    joined[ends - 1] = _SEPARATOR
    return joined.tobytes(), ends
