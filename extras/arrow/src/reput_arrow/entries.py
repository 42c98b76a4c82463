"""The entries of all property texts of a batch: every border of a name or value, found in one pass.

The texts are joined, and one search for the separator bytes finds all borders. The search suffices
where texts are as writers make them: name, value, name, value, each name once per text. One
property, or all properties as a map, is then given as positions in the joined bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import attrs
import numpy as np
import pyarrow as pa

from reput.record import TextColumn
from reput.record.layout import NAME_END, VALUE_END
from reput_arrow.texts import as_text, pieces

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["PropertyEntries"]

_COUNTED_MAX = 1 << 22  # (row, name) pairs that are counted in an array


@attrs.define(eq=False)
class PropertyEntries:
    """The entries of ``n`` texts, in the order of the texts."""

    data: npt.NDArray[np.uint8]
    """The texts, joined."""
    text_starts: npt.NDArray[np.int64]
    """``(n,)`` start of each text in ``data``."""
    first: npt.NDArray[np.int32]
    """``(n + 1,)`` number of each text's first entry; last, the number of all entries."""
    name_ends: npt.NDArray[np.int64]
    """``(entries,)`` positions of `NAME_END`."""
    value_ends: npt.NDArray[np.int64]
    """``(entries,)`` positions of `VALUE_END`."""
    code: npt.NDArray[np.int64]
    """``(entries,)`` index in ``names`` of each entry's name."""
    names: pa.StringArray
    """The distinct names."""

    @classmethod
    def of(cls, texts: pa.BinaryArray) -> Self | None:
        """Find the entries of texts without nulls; None if a text is not regular."""
        offsets, data = _buffers(texts)
        ends = np.flatnonzero((data - np.uint8(NAME_END)) < 2)  # the separators are adjacent values
        if len(ends) % 2:
            return None
        name_ends, value_ends = ends[0::2], ends[1::2]
        starts = np.empty(len(value_ends), np.int64)
        starts[:1], starts[1:] = 0, value_ends[:-1] + 1
        filled = offsets[1:][np.diff(offsets) > 0]
        # An entry begins where the entry before it ends, so each text must end with an entry's end.
        is_regular = (
            (data[name_ends] == NAME_END).all()
            and (data[value_ends] == VALUE_END).all()
            and (name_ends > starts).all()
            and (value_ends > name_ends + 1).all()
            and (data[filled - 1] == VALUE_END).all()
        )
        if not is_regular:
            return None
        first = np.searchsorted(value_ends, offsets, "left").astype(np.int32)
        found = pieces(data, starts, name_ends).dictionary_encode()
        code = found.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if _repeats(code, first, len(found.dictionary)):
            return None
        names = as_text(found.dictionary)
        if names.null_count or len(names.unique()) != len(names):
            return None  # two names that are not UTF-8 may decode to the same text
        starts_of_texts = offsets[:-1].astype(np.int64)
        return cls(data, starts_of_texts, first, name_ends, value_ends, code, names)

    def text(self, name: str) -> TextColumn:
        """Return the values of one property, as positions in `data`."""
        starts = np.zeros(len(self.text_starts), np.int64)
        sizes = np.full(len(self.text_starts), -1, np.int64)
        number = self.names.index(name).as_py()
        if number >= 0:
            found = np.flatnonzero(self.code == number)
            if len(found) == len(starts):  # every row has it exactly once
                rows: npt.NDArray[np.int64] | slice = slice(None)
            else:
                rows = np.searchsorted(self.first, found, "right") - 1
            starts[rows] = self.name_ends[found] + 1
            sizes[rows] = self.value_ends[found] - self.name_ends[found] - 1
        return TextColumn(self.data, starts, sizes)

    def maps(self, kind: pa.MapType) -> pa.MapArray:
        """Return every text as a map."""
        values = as_text(pieces(self.data, self.name_ends + 1, self.value_ends))
        names = self.names.take(pa.array(self.code))
        return pa.MapArray.from_arrays(pa.array(self.first), names, values, kind)


def _buffers(texts: pa.BinaryArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return the offsets ``(n + 1,)`` of the texts, and their bytes."""
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(texts) + 1, texts.offset * 4)
    if data_buffer is None:
        return offsets, np.zeros(0, np.uint8)
    return offsets, np.frombuffer(data_buffer, np.uint8)[: int(offsets[-1])]


def _repeats(code: npt.NDArray[np.int64], first: npt.NDArray[np.int32], name_count: int) -> bool:
    """Whether any text has a name twice."""
    if len(code) == 0:
        return False
    # Names are numbered in order of appearance: texts with the same names in the same order ascend.
    ascends = code[1:] > code[:-1]
    inner = first[1:-1]
    ascends[inner[(inner > 0) & (inner < len(code))] - 1] = True  # another text begins
    if ascends.all():
        return False
    rows = np.repeat(np.arange(len(first) - 1), np.diff(first))
    pairs = rows * name_count + code
    if (len(first) - 1) * name_count <= _COUNTED_MAX:
        return int(np.bincount(pairs).max()) > 1
    return len(np.unique(pairs)) != len(pairs)
