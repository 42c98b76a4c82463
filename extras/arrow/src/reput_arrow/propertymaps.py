"""All properties of a batch as maps: names and values of all texts, one behind the other.

Most texts are as writers make them: name, value, name, value, each name once per text. The texts
are joined, and one search for the separator bytes finds all borders. If any text of the batch is
different, all texts of the batch are read row by row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from reput.engine import kernel
from reput.record import TextColumn, parse_properties
from reput.record.layout import NAME_END, VALUE_END
from reput_arrow.textarrays import binaries, pieces

if TYPE_CHECKING:
    import numpy.typing as npt

    _Maps: TypeAlias = tuple[
        npt.NDArray[np.int32],
        npt.NDArray[np.int32],
        npt.NDArray[np.uint8],
        npt.NDArray[np.int32],
        npt.NDArray[np.uint8],
    ]

_COUNTED_MAX: Final = 1 << 22  # (row, name) pairs that are counted in an array


def maps_of_texts(texts: TextColumn, kind: pa.MapType) -> pa.MapArray:
    """Return each property text as a map.

    Args:
        texts: the encoded properties of each row; where they begin ascends.
        kind: the type of the answer, a map of strings.
    """
    first, *parts = property_maps(texts.window, texts.starts, texts.sizes)
    name_borders, names, value_borders, values = map(pa.py_buffer, parts)
    count = int(first[-1])
    return pa.MapArray.from_arrays(
        pa.array(first),
        pa.StringArray.from_buffers(count, name_borders, names),
        pa.StringArray.from_buffers(count, value_borders, values),
        kind,
    )


@kernel
def property_maps(
    window: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> _Maps:
    """Return all entries of ``n`` property texts, by the rules of `parse_properties`.

    Args:
        window: ``(w,)`` uint8, in which the texts are.
        starts: ``(n,)`` int64, where each begins; ascending.
        sizes: ``(n,)`` int64, bytes of each.

    Returns:
        ``(n + 1,)`` int32: the number of each text's first entry, and of all ``e`` entries; and for
        the names, then for the values: ``(e + 1,)`` int32, where each begins and the last ends, and
        their UTF-8, ``(w,)`` uint8.
    """
    texts = binaries(TextColumn(window, starts, sizes), starts)
    found = _regular(texts)
    if found is None:
        rows = [parse_properties(text) for text in texts.to_pylist()]
        first = np.zeros(len(rows) + 1, np.int32)
        np.cumsum([len(row) for row in rows], out=first[1:])
        names = pa.array([name for row in rows for name in row], pa.string())
        values = pa.array([value for row in rows for value in row.values()], pa.string())
        found = first, names, values
    first, names, values = found
    return first, *_buffers(names), *_buffers(values)


def _regular(
    texts: pa.BinaryArray,
) -> tuple[npt.NDArray[np.int32], pa.StringArray, pa.StringArray] | None:
    """Return the entries of texts without nulls; None if a text is not as writers make it."""
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
    names = pieces(data, starts, name_ends)
    found = names.dictionary_encode()
    code = found.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if _repeats(code, first, len(found.dictionary)):
        return None
    values = pieces(data, name_ends + 1, value_ends)
    try:
        return first, names.cast(pa.string()), values.cast(pa.string())
    except pa.ArrowInvalid:
        return None  # not UTF-8; two names may decode to the same text


def _buffers(
    texts: pa.BinaryArray | pa.StringArray,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
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
