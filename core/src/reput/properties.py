"""Property text: ``name 0x01 value 0x02`` again and again; one text parsed, or a column of texts.

Parsing follows RocketMQ 5: the last of equal names wins, an entry without name, value or 0x01 is no
entry, a value keeps every 0x01 behind the first, and the last 0x02 may be missing.

Source: ``MessageDecoder#messageProperties2String`` and ``#string2messageProperties``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.gather import rows_by_width
from reput.layout import NAME_END, VALUE_END

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["PropertyColumns", "TextColumn", "encode_properties", "parse_properties"]

_NAME_END, _VALUE_END = chr(NAME_END), chr(VALUE_END)


def encode_properties(properties: Mapping[str, str | None] | Iterable[tuple[str, str]]) -> str:
    """Text of ``properties`` in their order; entries whose value is None are left out."""
    items = properties.items() if isinstance(properties, Mapping) else properties
    return "".join(
        f"{name}{_NAME_END}{value}{_VALUE_END}" for name, value in items if value is not None
    )


def parse_properties(text: bytes) -> dict[str, str]:
    """Entries of one property text; bytes that are not UTF-8 come out as U+FFFD."""
    properties = {}
    for entry in text.decode("utf-8", "replace").split(_VALUE_END):
        name, separator, value = entry.partition(_NAME_END)
        if separator and name and value:
            properties[name] = value
    return properties


@attrs.define(eq=False)
class TextColumn:
    """One text per row, as places in a window; nothing is copied until asked for."""

    window: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    """``(n,)`` positions in the window; 0 where the text is missing."""
    sizes: npt.NDArray[np.int64]
    """``(n,)`` bytes; -1 where the text is missing."""

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> str | None:
        """Text of one row, None where it is missing."""
        size = int(self.sizes[row])
        if size < 0:
            return None
        start = int(self.starts[row])
        return self.window[start : start + size].tobytes().decode("utf-8", "replace")

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """``(n,)``: whether the row has that text."""
        return self.sizes >= 0

    def tolist(self) -> list[str | None]:
        """All rows as Python strings; for tools and tests, not for hot paths."""
        return [self[row] for row in range(len(self))]

    def java_hash(self, seeds: npt.NDArray[np.int32] | None = None) -> npt.NDArray[np.int32]:
        """``(n,)`` int32 Java string hash of every row, 0 (or its seed) where missing."""
        from reput.hashing import java_string_hash_column

        return java_string_hash_column(self.window, self.starts, self.sizes, seeds)


class PropertyColumns:
    """Finds properties by name in a column of property texts.

    The separators of all rows are found once, at the first question; each name then costs a few
    passes over them.
    """

    def __init__(
        self,
        window: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
    ) -> None:
        self._window = window
        self._starts = starts
        self._sizes = sizes
        self._classes: list[_SeparatedRows] | None = None

    def find(self, name: str) -> TextColumn:
        """Values of the property ``name``."""
        if self._classes is None:
            self._classes = [
                _SeparatedRows(rows, matrix, self._sizes[rows])
                for rows, matrix in rows_by_width(self._window, self._starts, self._sizes, slack=1)
            ]
        starts = np.zeros(len(self._starts), np.int64)
        sizes = np.full(len(self._starts), -1, np.int64)
        for separated in self._classes:
            rows, columns, value_sizes = separated.find(name.encode())
            # Repeated indices: the last one assigned stays, which is the rule for equal names.
            starts[rows] = self._starts[rows] + columns
            sizes[rows] = value_sizes
        return TextColumn(self._window, starts, sizes)


class _SeparatedRows:
    """Property texts of like size as a matrix, with the places of their separators."""

    def __init__(
        self,
        rows: npt.NDArray[np.int64],
        matrix: npt.NDArray[np.uint8],
        sizes: npt.NDArray[np.int64],
    ) -> None:
        self.rows = rows
        self.width = matrix.shape[1]
        self.flat = matrix.reshape(-1)
        within = np.arange(self.width, dtype=np.uint16) < sizes.astype(np.uint16)[:, None]
        is_name_end = matrix == NAME_END
        is_name_end &= within
        is_value_end = matrix == VALUE_END
        is_value_end &= within
        # The end of a text ends its last value too (the column behind it is there: slack).
        is_value_end[np.arange(len(rows)), sizes] = True
        self.name_ends = np.flatnonzero(is_name_end)
        self.value_ends = np.flatnonzero(is_value_end)

    def find(
        self, name: bytes
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows that have ``name``, the column where its value begins, the value's size."""
        ends = self.name_ends
        columns = ends % self.width
        keep = columns >= len(name)
        ends, columns = ends[keep], columns[keep]
        for back, byte in enumerate(reversed(name), start=1):
            keep = self.flat[ends - back] == byte
            if not keep.all():
                ends, columns = ends[keep], columns[keep]
        # The name begins its entry: first in the text, or right behind the entry before.
        begins = columns == len(name)
        keep = begins | (self.flat[ends - len(name) - (~begins)] == VALUE_END)
        ends, columns = ends[keep], columns[keep]
        value_ends = self.value_ends[np.searchsorted(self.value_ends, ends)]
        value_sizes = value_ends - ends - 1
        filled = value_sizes > 0
        return self.rows[ends[filled] // self.width], columns[filled] + 1, value_sizes[filled]
