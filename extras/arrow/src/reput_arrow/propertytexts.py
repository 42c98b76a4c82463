"""Encoded property texts from Arrow columns: the inverse of `reput_arrow.propertymaps`.

Every property of every row is an entry: row, name, value. The entries are sorted by row and joined
to one run of bytes; each row's text is a part of the run. The compiled kernel joins plain columns
row by row instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from reput.engine import kernel
from reput.errors import MessageIllegalError
from reput.record.layout import (
    KEY_SEPARATOR,
    NAME_END,
    PROPERTY_CRC,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    VALUE_END,
)

if TYPE_CHECKING:
    import numpy.typing as npt

_NAME_END, _VALUE_END = chr(NAME_END), chr(VALUE_END)
_NAMES: Final = ("keys", "tags", "uniq_key", "properties")
_PROPERTIES: Final = (PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_UNIQ_KEY)
# Made once: Arrow looks for a module that few have whenever it makes one of a Python value, which
# took more than half of the time of a thousand messages.
_SCALARS: Final = {
    text: pa.scalar(text, pa.string())
    for text in (
        "",
        KEY_SEPARATOR,
        _NAME_END,
        _VALUE_END,
        PROPERTY_CRC,
        *_PROPERTIES,
    )
}
_NO_TEXT: Final = pa.scalar(None, pa.string())


@attrs.define(eq=False)
class _Entries:
    """Properties of many rows."""

    rows: npt.NDArray[np.int64]
    names: pa.StringArray
    values: pa.StringArray

    def only(self, wanted: npt.NDArray[np.bool_]) -> _Entries:
        if wanted.all():
            return self
        mask = pa.array(wanted)
        return _Entries(self.rows[wanted], self.names.filter(mask), self.values.filter(mask))


def property_texts(
    batch: pa.RecordBatch,
) -> tuple[npt.NDArray[np.int64], bytes] | None:
    """Return ``(offsets, data)`` of the rows' property texts; None if no column holds properties.

    Raises:
        MessageIllegalError: a name or value that would be read back as something else.
    """
    names = batch.schema.names
    columns = [batch.column(name) if name in names else None for name in _NAMES]
    if all(column is None for column in columns):
        return None
    return joined_texts(batch.num_rows, *columns)


@kernel
def joined_texts(
    count: int,
    keys: pa.Array | None,
    tags: pa.Array | None,
    uniq_key: pa.Array | None,
    properties: pa.MapArray | None,
) -> tuple[npt.NDArray[np.int64], bytes]:
    """Return ``(offsets, data)`` of the property texts of ``count`` rows.

    A column gives each row the property of its name: in the place where the row's map has it, or
    else in front of the others. Where the column is null the row has no such property. The checksum
    of a record, which another one had, is left out.

    Args:
        count: rows of each column.
        keys: lists of words, or texts; rows without words have no such property.
        tags: texts.
        uniq_key: texts.
        properties: maps of texts to texts; entries without a value are left out.

    Raises:
        MessageIllegalError: a name or value that would be read back as something else.
    """
    parts: list[_Entries] = []
    further = None if properties is None else _of_map(properties)
    for column, name in zip((keys, tags, uniq_key), _PROPERTIES, strict=True):
        if column is not None:
            is_words = name == PROPERTY_KEYS
            texts = _joined_words(column) if is_words else column.cast(pa.string())
            if further is not None:
                texts, further = _in_place(further, name, texts)
            rows = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
            if len(rows):
                names = pa.repeat(_SCALARS[name], len(rows))
                parts.append(_Entries(rows, names, texts.drop_null()))
    if further is not None:
        parts.append(further)
    return _joined(_ordered(parts), count)


def _of_map(column: pa.MapArray) -> _Entries:
    """Return all entries of a column of maps but the checksum, which belongs to another record."""
    offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    rows = np.repeat(np.arange(len(column)), np.diff(offsets))
    names = column.keys.slice(first, count).cast(pa.string())
    values = column.items.slice(first, count).cast(pa.string())
    wanted = values.is_valid().to_numpy(zero_copy_only=False)
    if column.null_count:
        wanted = wanted & column.is_valid().to_numpy(zero_copy_only=False)[rows]
    return _Entries(rows, names, values).only(wanted & ~_are(names, PROPERTY_CRC))


def _are(names: pa.StringArray, name: str) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.equal(names, _SCALARS[name]).to_numpy(zero_copy_only=False)
    return found


def _in_place(further: _Entries, name: str, texts: pa.StringArray) -> tuple[Any, _Entries]:
    """Give the maps' property ``name`` the column's texts; return unused texts, and the entries."""
    hits = _are(further.names, name)
    if not hits.any():
        return texts, further
    given = texts.take(pa.array(further.rows))
    if name == PROPERTY_KEYS:
        # Words with other spaces between them are the same words: then the text stays as it was.
        same = pc.equal(_words_of(further.values), pc.fill_null(given, _SCALARS[""]))
        given = pc.if_else(same, further.values, given)
    values = pc.if_else(pa.array(hits), given, further.values)
    placed = np.zeros(len(texts), bool)
    placed[further.rows[hits]] = True
    replaced = _Entries(further.rows, further.names, values)
    left = pc.if_else(pa.array(placed), _NO_TEXT, _unsliced(texts))
    return left, replaced.only(values.is_valid().to_numpy(zero_copy_only=False))


def _unsliced(texts: pa.StringArray) -> pa.StringArray:
    """Return the same texts as an array that is not a part of another one.

    Of a part, pyarrow up to 21 makes invalid text where some values are replaced by null.
    """
    return pa.concat_arrays([texts, texts.slice(0, 0)]) if texts.offset else texts


def _words_of(texts: pa.StringArray) -> pa.StringArray:
    words = pc.split_pattern_regex(pc.utf8_trim(texts, KEY_SEPARATOR), f"{KEY_SEPARATOR}+")
    return pc.binary_join(words, _SCALARS[KEY_SEPARATOR])


def _joined_words(column: pa.Array) -> pa.StringArray:
    """Join each row's words with spaces, or take plain texts; null without words."""
    if not (kinds.is_list(column.type) or kinds.is_large_list(column.type)):
        texts = _unsliced(column.cast(pa.string()))
        return pc.if_else(pc.equal(texts, _SCALARS[""]), _NO_TEXT, texts)
    offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    rows = np.repeat(np.arange(len(column)), np.diff(offsets))
    words = column.values.slice(first, count).cast(pa.string())
    wanted = words.is_valid().to_numpy(zero_copy_only=False)
    if column.null_count:
        wanted = wanted & column.is_valid().to_numpy(zero_copy_only=False)[rows]
    rows, words = rows[wanted], words.filter(pa.array(wanted))
    spaced = pc.match_substring(words, " ").to_numpy(zero_copy_only=False)
    if spaced.any():
        row, word = int(rows[spaced][0]), words[int(spaced.argmax())].as_py()
        raise MessageIllegalError("keys", word, None, f"row {row}: a space inside a key splits it")
    borders = np.zeros(len(column) + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=len(column)), out=borders[1:])
    joined = pc.binary_join(
        pa.ListArray.from_arrays(pa.array(borders), words), _SCALARS[KEY_SEPARATOR]
    )
    return pc.if_else(pc.equal(joined, _SCALARS[""]), _NO_TEXT, joined)


def _ordered(parts: list[_Entries]) -> _Entries:
    """Return all entries sorted by row; the entries of one row keep the order of the parts."""
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([np.zeros(0, np.int64), *(part.rows for part in parts)])
    order = np.argsort(rows, kind="stable")
    empty = [pa.array([], pa.string())]
    names = pa.concat_arrays([part.names for part in parts] or empty)
    values = pa.concat_arrays([part.values for part in parts] or empty)
    return _Entries(rows[order], names.take(pa.array(order)), values.take(pa.array(order)))


def _joined(entries: _Entries, row_count: int) -> tuple[npt.NDArray[np.int64], bytes]:
    _check_names(entries)
    pairs = pc.binary_join_element_wise(entries.names, entries.values, _SCALARS[_NAME_END])
    texts = pc.binary_join_element_wise(pairs, _SCALARS[""], _SCALARS[_VALUE_END])
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise MessageIllegalError("properties", None, None, str(error)) from None
    borders = np.zeros(row_count + 1, np.int64)
    np.cumsum(np.bincount(entries.rows, minlength=row_count), out=borders[1:])
    if len(texts) == 0:
        return borders, b""
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    joined = b"" if data is None else data.slice(0, int(places[-1])).to_pybytes()
    # Names were checked, so extra ends must be in values.
    if joined.count(_VALUE_END.encode()) != len(texts):
        wrong = pc.match_substring(entries.values, _VALUE_END).to_numpy(zero_copy_only=False)
        row, name = int(entries.rows[wrong][0]), entries.names[int(wrong.argmax())].as_py()
        raise MessageIllegalError(
            name, None, None, f"row {row}: the character 0x02 separates properties"
        )
    return places[borders], joined


def _check_names(entries: _Entries) -> None:
    """Refuse names that no property can have; a column has few distinct names."""
    encoded = entries.names.dictionary_encode()
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        if not name or _NAME_END in name or _VALUE_END in name:
            codes = encoded.indices.to_numpy(zero_copy_only=False)
            row = int(entries.rows[int((codes == number).argmax())])
            raise MessageIllegalError(
                "properties", name, None, f"row {row}: a name without 0x01 and 0x02 expected"
            )
