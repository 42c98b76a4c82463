"""Stamps: a property that identifies each row, with the option ``stamp``.

    reput_stamp = <who writes>:<batch>:<row>        2f6b7c0e-…:17:4711

The writer is a query's id, the option ``txn_app_id``, or the name of a write; the rows of a batch
count from 0, in the order in which they are put. It is a property like any other: RocketMQ keeps
and delivers it, and a delayed message has it while it waits and when it comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.record import encode_properties, parse_properties
from reput.record.layout import NAME_END, VALUE_END
from reput_spark.writer.rows import binary_of, pair_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.log import LogReader
    from reput.record import Columns

STAMP: Final = "reput_stamp"
"""Name of the property."""
_DIGITS: Final = 20
"""Most of a number of 64 bits."""
_NAME: Final = STAMP.encode() + bytes([NAME_END])


def prefix_of(key: str, batch_id: int) -> str:
    """Return how the stamps of a batch begin."""
    return f"{key}:{batch_id}:"


def stamp_size(key: str) -> int:
    """Return the most bytes that a stamp takes in a property text."""
    return len(_NAME) + len(key) + 2 * (_DIGITS + 1) + 1


def stamped(columns: Columns, prefix: str, first: int) -> Columns:
    """Return messages with stamps, without the stamps of another write.

    Args:
        columns: with property texts, if any, as ``(offsets, data)``.
        prefix: see `prefix_of`.
        first: number of the first row.
    """
    count = len(columns)
    texts: Any = columns.properties or (np.zeros(count + 1, np.int64), b"")
    if _NAME in texts[1]:
        texts = _without_stamps(*texts)
    numbers = pa.array(np.arange(first, first + count)).cast(pa.large_string())
    joined = pc.binary_join_element_wise(
        binary_of(*texts),
        _scalar(_NAME + prefix.encode()),
        numbers.cast(pa.large_binary()),
        _scalar(bytes([VALUE_END])),
        _scalar(b""),
    )
    return attrs.evolve(columns, properties=pair_of(joined))


def stamped_rows(
    log: LogReader, start: int, prefix: str, first: int, count: int
) -> npt.NDArray[np.bool_]:
    """Find which rows the log has at ``start`` or after it, by their stamps.

    Args:
        log: where they were put.
        start: where a record begins, or the log's end.
        prefix: see `prefix_of`.
        first: number of the first row that is looked for.
        count: how many rows are looked for.

    Returns:
        ``(count,)``.
    """
    found = np.zeros(count, bool)
    begin = prefix.encode()
    for batch in log.scan(start, check_crc=True):
        column = batch.text(STAMP)
        for row in np.flatnonzero(column.sizes > len(begin)).tolist():
            place, size = int(column.starts[row]), int(column.sizes[row])
            text = column.window[place : place + size].tobytes()
            digits = text[len(begin) :]
            if text.startswith(begin) and digits.isdigit() and len(digits) <= _DIGITS:
                number = int(digits) - first
                if 0 <= number < count:
                    found[number] = True
    return found


def _without_stamps(
    borders: npt.NDArray[np.int64], data: bytes
) -> tuple[npt.NDArray[np.int64], bytes]:
    texts = []
    for start, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        text = data[start:end]
        if _NAME in text:
            entries = parse_properties(text)
            entries.pop(STAMP, None)
            text = encode_properties(entries).encode()
        texts.append(text)
    sizes = np.array([0, *map(len, texts)], np.int64)
    return sizes.cumsum(), b"".join(texts)


def _scalar(data: bytes) -> pa.Scalar:
    return pa.scalar(data, pa.large_binary())
