"""Finds which rows of a batch are in the log already, after a commit that did not end.

A row and a record are the same where topic, queue, birth, and length and checksum of the body are.
Rows that do not say when they were born get the time at which their commit began, which no message
of somebody else has: so what others have put in the meantime is not taken for a row. Rows that are
the same in all of that are counted: it does not matter which of them are there.

What a plugin has put aside for later (a delayed message) names its own topic and queue in
properties; its delivery is another record, and not another row.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from reput.arrow import columns_of
from reput.columns import prepare_columns
from reput_spark.sink.segments import PASSED_OVER

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.batch import DispatchBatch
    from reput.columns import Columns
    from reput.encode import Encoder
    from reput.logreader import CommitLogReader

__all__ = ["FACTS_DTYPE", "found_rows", "messages_of"]

FACTS_DTYPE: Final = np.dtype(
    [
        ("topic", np.int32),  # number in a list of names
        ("queue_id", np.int64),
        ("body_crc", np.int64),
        ("body_size", np.int64),  # bytes
        ("born_timestamp", np.int64),  # ms
    ]
)
"""What a row and its record have in common."""
_REAL_TOPIC: Final = "REAL_TOPIC"
_REAL_QUEUE: Final = "REAL_QID"
_CRC_MASK: Final = 0x7FFFFFFF


def messages_of(batch: pa.RecordBatch, born_timestamp: int) -> Columns:
    """The messages of a batch; those that do not say when they were born were born then."""
    columns = columns_of(batch, PASSED_OVER)
    born = columns.born_timestamp
    if born is None:
        return attrs.evolve(columns, born_timestamp=born_timestamp)
    if isinstance(born, list):
        filled = [born_timestamp if each is None else each for each in born]
        return attrs.evolve(columns, born_timestamp=filled)
    return columns


def found_rows(
    batches: Iterable[pa.RecordBatch],
    born_timestamp: int,
    log: CommitLogReader,
    encoder: Encoder,
    start: int,
) -> npt.NDArray[np.bool_]:
    """Which rows the log has at ``start`` or behind it.

    Args:
        batches: the rows, in their order.
        born_timestamp: of rows that have none, ms.
        log: where they were put.
        encoder: the log's.
        start: where a record begins, or the log's end.

    Returns:
        ``(rows,)``.
    """
    names: dict[str, int] = {}
    rows = [_facts_of(messages_of(each, born_timestamp), encoder, names) for each in batches]
    wanted = np.concatenate([np.zeros(0, FACTS_DTYPE), *rows])
    direct, parked = [np.zeros(0, FACTS_DTYPE)], [np.zeros(0, FACTS_DTYPE)]
    for batch in log.scan(start, check_crc=True):
        facts, is_parked = _facts_in(batch, names)
        direct.append(facts[~is_parked])
        parked.append(facts[is_parked])
    return _first_ones(wanted, np.concatenate(direct), np.concatenate(parked))


def _facts_of(columns: Columns, encoder: Encoder, names: dict[str, int]) -> npt.NDArray[np.void]:
    facts = np.zeros(len(columns), FACTS_DTYPE)
    prepared = prepare_columns(columns, encoder)
    if prepared is None:  # rows of a rare kind, which are put one by one as well
        messages = columns.to_messages()
        topics: Iterable[str] = [each.topic for each in messages]
        facts["queue_id"] = [each.queue_id for each in messages]
        facts["body_crc"] = [zlib.crc32(each.body) & _CRC_MASK for each in messages]
        facts["body_size"] = [len(each.body) for each in messages]
        facts["born_timestamp"] = [each.born_timestamp for each in messages]
    else:
        topics = prepared.topics
        for name in ("queue_id", "body_crc", "body_size", "born_timestamp"):
            facts[name] = prepared.header[name]
    facts["topic"] = [names.setdefault(topic, len(names)) for topic in topics]
    return facts


def _facts_in(
    batch: DispatchBatch, names: dict[str, int]
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.bool_]]:
    """Facts of records, and which of them stand aside for later."""
    facts = np.zeros(len(batch), FACTS_DTYPE)
    numbers = [names.setdefault(topic, len(names)) for topic in batch.topics]
    facts["topic"] = np.array([*numbers, 0], np.int32)[batch.topic_code]
    facts["body_size"] = batch.body.sizes
    for name in ("queue_id", "body_crc", "born_timestamp"):
        facts[name] = batch.column(name)
    topics = batch.text(_REAL_TOPIC)
    queues = batch.text(_REAL_QUEUE)
    is_parked = np.zeros(len(batch), bool)
    for row in np.flatnonzero((topics.sizes >= 0) & (queues.sizes >= 0)).tolist():
        topic = names.get(_text(topics, row), -1)
        queue = _text(queues, row)
        if topic not in (-1, int(facts["topic"][row])) and queue.isascii() and queue.isdigit():
            is_parked[row] = True
            facts["topic"][row], facts["queue_id"][row] = topic, int(queue[:10])
    return facts, is_parked


def _text(column: Any, row: int) -> str:
    start, size = int(column.starts[row]), int(column.sizes[row])
    return bytes(column.window[start : start + size]).decode(errors="replace")


def _first_ones(
    wanted: npt.NDArray[np.void], direct: npt.NDArray[np.void], parked: npt.NDArray[np.void]
) -> npt.NDArray[np.bool_]:
    """Of the rows with the same facts, as many of the first as there are records."""
    _, kind = np.unique(np.concatenate([wanted, direct, parked]), return_inverse=True)
    count = int(kind.max()) + 1 if len(kind) else 0
    rows, rest = kind[: len(wanted)], kind[len(wanted) :]
    direct_count = np.bincount(rest[: len(direct)], minlength=count)
    parked_count = np.bincount(rest[len(direct) :], minlength=count)
    # What stands aside comes again when it is delivered.
    there = np.where(parked_count > 0, parked_count, direct_count)
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    place = np.arange(len(rows)) - np.searchsorted(ordered, ordered)
    found = np.zeros(len(rows), bool)
    found[order] = place < there[ordered]
    return found
