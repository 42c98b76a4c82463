"""Property texts, repeated ``name 0x01 value 0x02``: encodes and parses one, searches columns.

Parsing follows RocketMQ 5: the last of equal names counts, an entry without name, value or 0x01 is
ignored, a value keeps every 0x01 after the first, and the last 0x02 may be missing.

Source: ``MessageDecoder#messageProperties2String`` and ``#string2messageProperties``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.engine import kernel
from reput.record.layout import NAME_END, VALUE_END
from reput.record.text.javatext import java_string_hash_column, java_text
from reput.record.text.textmatrix import rows_by_width, words_at

if TYPE_CHECKING:
    import numpy.typing as npt

_NAME_END, _VALUE_END = chr(NAME_END), chr(VALUE_END)


def encode_properties(properties: Mapping[str, str | None] | Iterable[tuple[str, str]]) -> str:
    """Return the text of ``properties``, in their order; entries with value None are left out."""
    items = properties.items() if isinstance(properties, Mapping) else properties
    return "".join(
        f"{name}{_NAME_END}{value}{_VALUE_END}" for name, value in items if value is not None
    )


def parse_properties(text: bytes) -> dict[str, str]:
    """Return the entries of one property text; bytes that are not UTF-8 become U+FFFD."""
    properties = {}
    for entry in java_text(text).split(_VALUE_END):
        name, separator, value = entry.partition(_NAME_END)
        if separator and name and value:
            properties[name] = value
    return properties


@attrs.define(eq=False)
class TextColumn:
    """One text per row, as positions in a window; a text is copied when it is asked for."""

    window: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    """``(n,)`` positions in the window; 0 if the text is missing."""
    sizes: npt.NDArray[np.int64]
    """``(n,)`` bytes; -1 if the text is missing."""

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> str | None:
        """Return the text of one row, None if it is missing."""
        size = int(self.sizes[row])
        if size < 0:
            return None
        start = int(self.starts[row])
        return java_text(self.window[start : start + size].tobytes())

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """``(n,)``: whether the row has a text."""
        return self.sizes >= 0

    def tolist(self) -> list[str | None]:
        """Return all rows as Python strings; for tools and tests, not for hot paths."""
        return [self[row] for row in range(len(self))]

    def as_bytes(self) -> list[bytes | None]:
        """Return a copy of the bytes of each row, None if they are missing."""
        return texts_of(self.window, self.starts, self.sizes)

    def java_hash(self, seeds: npt.NDArray[np.int32] | None = None) -> npt.NDArray[np.int32]:
        """Return the ``(n,)`` int32 Java string hash of every row; 0 or its seed if missing."""
        return java_string_hash_column(self.window, self.starts, self.sizes, seeds)


@kernel
def texts_of(
    window: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> list[bytes | None]:
    """Return a copy of the bytes of each row of a `TextColumn`, None if they are missing."""
    view = window.data
    places = zip(starts.tolist(), sizes.tolist(), strict=True)
    return [bytes(view[at : at + size]) if size >= 0 else None for at, size in places]


@attrs.define(eq=False)
class PropertyColumns:
    """Finds properties by name in a column of property texts.

    The first search copies the texts into matrices; each name then costs a few scans of these.
    """

    _window: npt.NDArray[np.uint8]
    _starts: npt.NDArray[np.int64]
    """``(n,)`` positions in the window."""
    _sizes: npt.NDArray[np.int64]
    """``(n,)`` bytes."""
    _places: PropertyPlaces | None = attrs.field(default=None, init=False)

    def find(self, name: str) -> TextColumn:
        """Return the values of the property ``name``."""
        encoded = name.encode()
        if not encoded or NAME_END in encoded or VALUE_END in encoded:
            # No entry has such a name.
            starts = np.zeros(len(self._starts), np.int64)
            return TextColumn(self._window, starts, np.full(len(starts), -1, np.int64))
        if self._places is None:
            self._places = property_places(self._window, self._starts, self._sizes)
        return TextColumn(self._window, *self._places.find(encoded))


@kernel
def property_places(
    window: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> PropertyPlaces:
    """Return an object that finds places of properties in texts; every engine's has `find`."""
    return PropertyPlaces(window, starts, sizes)


class PropertyPlaces:
    """Finds where the values of properties stand, name by name, in a column of texts."""

    def __init__(
        self,
        window: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
    ) -> None:
        self._starts = starts
        self._classes = [
            _RowsOfText(rows, matrix, sizes[rows])
            for rows, matrix in rows_by_width(window, starts, sizes)
        ]

    def find(self, name: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return starts and sizes of the values of ``name``; 0 and -1 where a text has none."""
        starts = np.zeros(len(self._starts), np.int64)
        sizes = np.full(len(self._starts), -1, np.int64)
        for text in self._classes:
            rows, columns, value_sizes = text.find(name)
            filled = value_sizes > 0
            if not filled.all():
                rows, columns, value_sizes = rows[filled], columns[filled], value_sizes[filled]
            # Of repeated indices the last assignment stays, which is the rule for equal names.
            starts[rows] = self._starts[rows] + columns
            sizes[rows] = value_sizes
        return starts, sizes


class _RowsOfText:
    """Property texts of similar size as a matrix."""

    def __init__(
        self,
        rows: npt.NDArray[np.int64],
        matrix: npt.NDArray[np.uint8],
        sizes: npt.NDArray[np.int64],
    ) -> None:
        self.rows = rows
        self.sizes = sizes
        self.width = matrix.shape[1]
        self.flat = matrix.reshape(-1)
        # All positions where a name may end, found once.
        self._ends, self._columns, ends_rows = self._places(NAME_END)
        self._last_letters = words_at(self.flat, np.maximum(self._ends - 4, 0), _WORD)
        # Where the value after each of them ends. Mostly names and values alternate.
        value_ends, _, value_rows = self._places(VALUE_END)
        if not (
            len(value_ends) == len(self._ends)
            and (value_ends > self._ends).all()
            and (value_ends[:-1] < self._ends[1:]).all()
            and (value_rows == ends_rows).all()
        ):
            # The last value of a text may have no end of its own.
            text_ends = ends_rows * self.width + sizes[ends_rows]
            following = np.searchsorted(value_ends, self._ends)
            value_ends = np.minimum(np.append(value_ends, len(self.flat))[following], text_ends)
        self._value_ends = value_ends

    def _places(
        self, byte: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the positions of ``byte`` in the texts, with their columns and rows."""
        places = np.flatnonzero(self.flat == byte)
        rows = places // self.width
        columns = places - rows * self.width
        inside = columns < self.sizes[rows]  # bytes after a row's text do not count
        if not inside.all():
            places, columns, rows = places[inside], columns[inside], rows[inside]
        return places, columns, rows

    def find(
        self, name: bytes
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return rows that have ``name``, ascending, where its value begins, and its size."""
        flat, ends, columns, value_ends = self.flat, self._ends, self._columns, self._value_ends
        name_left = name
        if len(name) >= 4:  # four letters at once
            word = np.frombuffer(name[-4:], np.uint32)[0]
            found = np.flatnonzero(self._last_letters == word)
            name_left = name[:-4]
        else:
            found = np.arange(len(ends))
        found = found[columns[found] >= len(name)]  # others would begin before their row
        for place, byte in enumerate(name_left):
            found = found[flat[ends[found] - len(name) + place] == byte]
        # The name must begin its entry: first in the text, or right after the entry before.
        ends, columns = ends[found], columns[found]
        keep = flat[ends - (len(name) + 1)] == VALUE_END
        keep |= columns == len(name)
        if not keep.all():
            found, ends, columns = found[keep], ends[keep], columns[keep]
        return self.rows[ends // self.width], columns + 1, value_ends[found] - ends - 1


_WORD = np.dtype("u4")
