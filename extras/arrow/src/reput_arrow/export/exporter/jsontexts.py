"""Columns as JSON, each row's text made by operations on whole columns.

Only rows with characters that are rare in texts, or with bodies that are not text, are looked at
one by one.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

_SCALARS: Final = {text: pa.scalar(text) for text in ('"', "", ",", "[", "]", "{", "}", "}\n")}
_NULL: Final = pa.scalar("null")
_ESCAPES: Final = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_CONTROL: Final = "[\x00-\x1f]"


def json_lines(rows: pa.RecordBatch) -> bytes:
    """Return the rows as JSON objects, one a line."""
    if rows.num_rows == 0:
        return b""
    parts: list[Any] = []
    for place, name in enumerate(rows.schema.names):
        parts.append(pa.scalar(f"{'{' if place == 0 else ','}{json.dumps(name)}:"))
        parts.append(_json_of(rows.column(place)))
    lines = pc.binary_join_element_wise(*parts, _SCALARS["}\n"], _SCALARS[""])
    _, offsets, data = lines.buffers()
    places = np.frombuffer(offsets, np.int32, len(lines) + 1, lines.offset * 4)
    found: bytes = data.slice(int(places[0]), int(places[-1] - places[0])).to_pybytes()
    return found


def _json_of(column: pa.Array) -> pa.StringArray:
    """Return each row's JSON; null is ``null``."""
    kind = column.type
    if kinds.is_integer(kind):
        return pc.fill_null(column.cast(pa.string()), _NULL)
    if kinds.is_timestamp(kind):
        return pc.fill_null(column.cast(pa.int64()).cast(pa.string()), _NULL)
    if kinds.is_map(kind):
        return json_maps(column)
    if kinds.is_list(kind):
        first, count, borders = _borders(column)
        texts = _quoted(column.values.slice(first, count))
        return _wrapped(borders, texts, "[", "]")
    return pc.fill_null(_quoted(column), _NULL)


def json_maps(column: pa.MapArray) -> pa.StringArray:
    """Return maps of texts as JSON objects."""
    first, count, borders = _borders(column)
    names = _quoted(column.keys.slice(first, count))
    values = _quoted(column.items.slice(first, count))
    pairs = pc.binary_join_element_wise(names, values, pa.scalar(":"))
    return _wrapped(borders, pairs, "{", "}")


def joined_words(column: pa.ListArray) -> pa.StringArray:
    """Return the words of each row with spaces between them."""
    first, count, borders = _borders(column)
    words = pa.ListArray.from_arrays(borders, column.values.slice(first, count))
    return pc.binary_join(words, pa.scalar(" "))


def _borders(column: Any) -> tuple[int, int, pa.Array]:
    offsets = column.offsets.to_numpy(zero_copy_only=False)
    first, stop = int(offsets[0]), int(offsets[-1])
    return first, stop - first, pa.array((offsets - first).astype(np.int32))


def _wrapped(borders: pa.Array, texts: pa.StringArray, begin: str, end: str) -> pa.StringArray:
    joined = pc.binary_join(pa.ListArray.from_arrays(borders, texts), _SCALARS[","])
    return pc.binary_join_element_wise(_SCALARS[begin], joined, _SCALARS[end], _SCALARS[""])


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    """Return texts as JSON has them; null stays null."""
    found = texts
    letters = _letters(texts)
    if letters is not None:
        for letter, code in _ESCAPES:
            if (letters == ord(letter)).any():
                found = pc.replace_substring(found, letter, code)
        if _has_other_controls(letters):
            rare = pc.fill_null(pc.match_substring_regex(found, _CONTROL), False)
            values = [
                json.dumps(each, ensure_ascii=False)[1:-1]
                for each in texts.filter(rare).to_pylist()
            ]
            found = pc.replace_with_mask(found, rare, pa.array(values, pa.string()))
    return pc.binary_join_element_wise(_SCALARS['"'], found, _SCALARS['"'], _SCALARS[""])


def _letters(texts: pa.StringArray) -> Any:
    """Return the bytes of all texts; None without any."""
    _, offsets, data = texts.buffers()
    if data is None or len(texts) == 0:
        return None
    places = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
    return np.frombuffer(data, np.uint8)[int(places[0]) : int(places[-1])]


def _has_other_controls(letters: Any) -> bool:
    low = letters[letters < 0x20]
    return bool(len(low) and (~np.isin(low, np.array([9, 10, 13], np.uint8))).any())


def readable_bodies(bodies: pa.BinaryArray) -> tuple[pa.StringArray, pa.StringArray]:
    """Return bodies as text, and how: ``utf-8``, or ``base64`` for other bytes."""
    try:
        texts = bodies.cast(pa.string())
    except pa.ArrowInvalid:
        pairs = [_readable(body) for body in bodies.to_pylist()]
        texts = pa.array([text for text, _ in pairs], pa.string())
        return texts, pa.array([encoding for _, encoding in pairs], pa.string())
    return texts, pa.repeat(pa.scalar("utf-8"), len(bodies))


def _readable(body: bytes) -> tuple[str, str]:
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
