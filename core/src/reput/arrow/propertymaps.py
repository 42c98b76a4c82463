"""All properties of a batch as one Arrow map column.

The texts are brought together, and every border between names and values is found at once. That is
all where texts are as writers make them: name, value, name, value, each name once. A batch in which
any text is otherwise is read row by row, by the rules of `reput.properties.parse_properties`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from reput.arrow.texts import as_text, binaries, pieces
from reput.layout import NAME_END, VALUE_END
from reput.properties import parse_properties

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.batch import DispatchBatch

__all__ = ["property_maps"]

_COUNTED_MAX = 1 << 22  # (row, name) pairs that are counted in an array


def property_maps(batch: DispatchBatch, kind: pa.MapType) -> pa.MapArray:
    """The properties of each row."""
    texts = binaries(batch.properties_text, batch.start)
    whole = _whole(texts, kind)
    if whole is not None:
        return whole
    rows = [list(parse_properties(text).items()) for text in texts.to_pylist()]
    return pa.array(rows, kind)


def _whole(texts: pa.BinaryArray, kind: pa.MapType) -> pa.MapArray | None:
    """The maps, where every text is regular; else None."""
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(texts) + 1, texts.offset * 4)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else _NO_BYTES
    data = data[: int(offsets[-1])]
    name_ends, value_ends = np.flatnonzero(data == NAME_END), np.flatnonzero(data == VALUE_END)
    if len(data) == 0:
        return pa.array([[] for _ in range(len(texts))], kind)
    if len(name_ends) != len(value_ends) or len(name_ends) == 0:
        return None
    # Each entry begins behind the one before it; so each text must end with an entry's end.
    starts = np.empty(len(value_ends), np.int64)
    starts[:1], starts[1:] = 0, value_ends[:-1] + 1
    filled = offsets[1:][np.diff(offsets) > 0]
    is_regular = (
        (name_ends > starts).all()
        and (value_ends > name_ends + 1).all()
        and int(value_ends[-1]) + 1 == len(data)
        and (data[filled - 1] == VALUE_END).all()
    )
    if not is_regular:
        return None
    entries = np.searchsorted(value_ends, offsets, "left").astype(np.int32)
    names = pieces(data, starts, name_ends)
    if _repeats(names, entries):
        return None
    values = pieces(data, name_ends + 1, value_ends)
    return pa.MapArray.from_arrays(pa.array(entries), as_text(names), as_text(values), kind)


def _repeats(names: pa.BinaryArray, entries: npt.NDArray[np.int32]) -> bool:
    """Whether any row has a name twice."""
    encoded = names.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    rows = np.repeat(np.arange(len(entries) - 1), np.diff(entries))
    pairs = rows * len(encoded.dictionary) + codes
    if (len(entries) - 1) * len(encoded.dictionary) <= _COUNTED_MAX:
        return len(pairs) > 0 and int(np.bincount(pairs).max()) > 1
    return len(np.unique(pairs)) != len(pairs)


_NO_BYTES = np.zeros(0, np.uint8)
