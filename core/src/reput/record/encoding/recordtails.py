"""Encodes the tails of many records, the bytes after the body: topic, property size, properties.

Rows of one batch mostly have properties of the same names. Then the text of all rows is joined,
checked and cut at once. Other rows (different names, text that is not ASCII, errors) are encoded
row by row, which also gives the error texts.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from reput.errors import MessageIllegalError, MessageTooLargeError, PropertiesSizeError
from reput.record.checksum import SECTOR_SIZE, looks_torn
from reput.record.layout import (
    MAGIC_V1,
    PROPERTIES_SIZE_MAX,
    PROPERTY_CRC,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    VALUE_END,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record.encoding.encoder import Encoder

__all__ = ["Tails", "are", "refuse_above", "tails_at_once", "tails_one_by_one", "transposed"]

_SPECIAL = "INNER_"
_PLACES_OF_SIZES = 3  # one byte of the topic's size, two of the properties'


@attrs.frozen(eq=False)
class Tails:
    """The tails of many records, one for each row."""

    texts: list[bytes]
    size: npt.NDArray[np.int64]
    """``(n,)`` bytes of each tail."""
    special: bool
    """Whether a row may have properties of light queues or inner batches, or a record checksum."""


def tails_at_once(
    encoder: Encoder,
    topics: Sequence[str],
    keys: Any,
    tags: Any,
    properties: Mapping[Any, Any] | None,
) -> Tails | None:
    """Return the tails of rows with properties of the same names; None if `tails_one_by_one` must.

    Args:
        encoder: encodes topics.
        topics: ``(n,)``.
        keys: ``(n,)`` texts, or all None.
        tags: ``(n,)`` texts, or all None.
        properties: ``(n,)`` texts for each further name; None if rows have different names.
    """
    if properties is None or not topics:
        return None
    fields: dict[str, Any] = {}
    for name, column in ((PROPERTY_KEYS, keys), (PROPERTY_TAGS, tags)):
        if column[0] is not None:
            fields[name] = column
        elif not are(column, NoneType):
            return None
    # Exact `str` names, as f-strings use them below.
    named = {
        str.__str__(name): column for name, column in properties.items() if isinstance(name, str)
    }
    # An empty key would be left out of its row, and a name given twice would appear twice.
    if len(named) < len(properties) or not fields.keys().isdisjoint(named):
        return None
    try:
        if PROPERTY_KEYS in fields and not all(keys):
            return None
    except ValueError:  # an array of keys is neither true nor false
        return None
    fields.update(named)
    if not fields or not all(name and name.isascii() and name.isprintable() for name in fields):
        return None
    known = {topic: encoder.encode_topic(topic) for topic in dict.fromkeys(topics)}
    if any(magic != MAGIC_V1 for magic, _ in known.values()):
        return None
    try:
        text = "".join(_pieces(topics, known, fields))
    except TypeError:  # a value that is not a text
        return None
    if not text.isascii() or PROPERTY_CRC in text:
        return None
    return _cut(np.frombuffer(text.encode(), np.uint8), topics, fields)


def _pieces(
    topics: Sequence[str], known: Mapping[str, Any], fields: Mapping[str, Any]
) -> list[str]:
    """Return the text of all rows in pieces; a row's last separator begins the next row's piece."""
    count, width = len(topics), 2 * len(fields)
    first, *others = fields
    # Zeros reserve the bytes of the sizes, which are not known yet.
    begins = {topic: f"\x02\0{topic}\0\0{first}\x01" for topic in known}
    pieces = ["\x02"] * (width * count + 1)
    pieces[0:-1:width] = map(begins.__getitem__, topics)
    pieces[1::width] = fields[first]
    for place, name in enumerate(others, start=1):
        pieces[2 * place : -1 : width] = [f"\x02{name}\x01"] * count
        pieces[2 * place + 1 :: width] = fields[name]
    return pieces


def _cut(
    joined: npt.NDArray[np.uint8], topics: Sequence[str], fields: Mapping[str, Any]
) -> Tails | None:
    count = len(topics)
    data = joined[1:].copy()
    ends = np.flatnonzero(data == VALUE_END)
    if len(ends) != len(fields) * count:
        return None  # a value holds a separator
    borders = np.zeros(count + 1, np.int64)
    borders[1:] = ends[len(fields) - 1 :: len(fields)] + 1
    starts, size = borders[:-1], np.diff(borders)
    topic_size = np.fromiter(map(len, topics), np.int64, count)
    properties_size = size - topic_size - _PLACES_OF_SIZES
    largest = int(properties_size.max())
    if largest > PROPERTIES_SIZE_MAX or (largest >= SECTOR_SIZE and looks_torn(data.tobytes())):
        return None
    data[starts] = topic_size
    data[starts + topic_size + 1] = properties_size >> 8
    data[starts + topic_size + 2] = properties_size & 0xFF
    packed = data.tobytes()
    texts = [packed[start:end] for start, end in itertools.pairwise(borders.tolist())]
    return Tails(texts, size, any(_SPECIAL in name for name in fields))


def tails_one_by_one(encoder: Encoder, topics: Sequence[str], properties: Sequence[bytes]) -> Tails:
    """Return the tails of rows with any property texts.

    Raises:
        PropertiesSizeError: a property text is over the limit.
        MessageIllegalError: no valid topic, or a property text that looks torn.
    """
    count = len(topics)
    properties_size = np.fromiter(map(len, properties), np.int64, count)
    refuse_above("properties", properties_size, PROPERTIES_SIZE_MAX, PropertiesSizeError)
    suspects = (text for text in properties if text[-1:] == b"\0" or len(text) >= SECTOR_SIZE)
    for reason in map(looks_torn, suspects):
        if reason is not None:
            raise MessageIllegalError("properties", None, None, reason)
    known = {topic: encoder.encode_topic(topic)[1] for topic in dict.fromkeys(topics)}
    sizes = properties_size.astype(">i2").view("V2").tolist()
    named = map(known.__getitem__, topics)
    texts = list(map(b"".join, zip(named, sizes, properties, strict=True)))
    size = np.fromiter(map(len, texts), np.int64, count)
    joined = b"".join(properties)
    return Tails(texts, size, _SPECIAL.encode() in joined or PROPERTY_CRC.encode() in joined)


def are(values: Sequence[Any], kind: type) -> bool:
    """Whether all values are of exactly this class; the first one decides it mostly."""
    return not values or (type(values[0]) is kind and set(map(type, values)) == {kind})


def refuse_above(
    field: str,
    sizes: npt.NDArray[np.int64],
    limit: int,
    error: type[MessageTooLargeError | PropertiesSizeError],
) -> None:
    """Raise ``error`` for the largest of ``sizes``, which are of rows, if it is over the limit."""
    if len(sizes) and int(sizes.max()) > limit:
        row = int(sizes.argmax())
        raise error(field, int(sizes[row]), limit, f"row {row}: bytes")


def transposed(rows: Sequence[Any]) -> dict[str, list[Any]] | None:
    """Return values by name if all rows are dicts of the same names in the same order, or None."""
    if are(rows, NoneType):
        return {}
    if not are(rows, dict):
        return None
    names = list(rows[0])
    if list(itertools.chain.from_iterable(rows)) != names * len(rows):
        return None
    return {name: [row[name] for row in rows] for name in names}
