"""Rows as they are put: numbers, bodies, and one property text for each row.

Tasks convert rows and check them, side by side; the driver, which puts all of them, has little left
to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from reput.errors import MessageTooLargeError, PropertiesSizeError
from reput.log import LOG_SECTION, CommitLogConfig
from reput.plugin import build_config
from reput.record import Encoder, inner_message_count, pack_host, prepare_columns
from reput.record.layout import (
    BLANK_MIN_SIZE,
    HEADER_SIZE,
    HOST_SIZE,
    PROPERTIES_SIZE_MAX,
    PROPERTY_CRC,
    TOPIC_SIZE_MAX,
)
from reput_arrow import columns_of
from reput_arrow.addedcolumns import ADDED_COLUMNS
from reput_arrow.inputcolumns import times_of
from reput_tools.offline import inspect_store

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk
    from reput.record import Columns

_NUMBERS: Final = (
    "queue_id",
    "flag",
    "sys_flag",
    "reconsume_times",
    "prepared_transaction_offset",
)
_NARROW: Final = np.iinfo(np.int32)
_RARE: Final = (b"INNER_", PROPERTY_CRC.encode(), b"\0")
"""What property texts of rows hold that the store itself has to look at."""


@attrs.frozen
class Limits:
    """What a store takes."""

    file_size: int
    max_message_size: int
    store_host: bytes
    record_crc: bool

    @classmethod
    def of(cls, root: str, disk: Disk, file_size: int | None) -> Limits:
        """Return those of the store at ``root``; ``file_size`` is that of a new one."""
        manifest = inspect_store(root, disk=disk).manifest
        section = {} if manifest is None else manifest.config.get(LOG_SECTION, {})
        config = build_config(CommitLogConfig, LOG_SECTION, section)
        own = config.file_size if manifest is not None or file_size is None else file_size
        host = pack_host(*config.store_host)
        return cls(own, config.max_message_size, host, config.record_crc)


def put_form(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    """Return what is put of rows, and nothing else.

    Args:
        batch: columns of `reput_arrow.INPUT_COLUMNS`.
        columns: the same as messages.
    """
    given: dict[str, Any] = {
        "topic": batch.column("topic").cast(pa.string()),
        "body": batch.column("body").cast(pa.binary()),
    }
    for name in _NUMBERS:
        if name in batch.schema.names:
            given[name] = pa.array(getattr(columns, name))
    born = times_of(batch, "born_timestamp")
    if born is not None:
        given["born_timestamp"] = born
    if columns.properties is not None:
        texts: Any = columns.properties  # ``(offsets, data)``, as `columns_of` makes them
        given["properties"] = binary_of(*texts)
    return pa.RecordBatch.from_pydict(given)


def messages_of(batch: pa.RecordBatch, born_timestamp: int) -> Columns:
    """Return the messages of a batch; ``born_timestamp``, ms, is the default of rows."""
    place = batch.schema.get_field_index("properties")
    if place >= 0 and pa.types.is_large_binary(batch.schema.field(place).type):
        texts = pair_of(batch.column(place))
        columns = attrs.evolve(columns_of(batch.drop_columns(["properties"])), properties=texts)
    else:
        columns = columns_of(batch, ADDED_COLUMNS)
    born = columns.born_timestamp
    if born is None:
        return attrs.evolve(columns, born_timestamp=born_timestamp)
    if isinstance(born, list):
        filled = [born_timestamp if each is None else each for each in born]
        return attrs.evolve(columns, born_timestamp=filled)
    return columns


def binary_of(borders: npt.NDArray[np.integer[Any]], data: bytes) -> pa.Array:
    """Return texts as Arrow has them; without a copy of ``data``."""
    offsets = pa.py_buffer(np.ascontiguousarray(borders, np.int64))
    parts = [None, offsets, pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(borders) - 1, parts)


def pair_of(column: pa.Array) -> tuple[npt.NDArray[np.int64], bytes]:
    """Return ``(offsets, data)`` of large binaries without a null."""
    _, borders, data = column.buffers()
    offsets = np.frombuffer(borders, np.int64, len(column) + 1, column.offset * 8)
    first, end = int(offsets[0]), int(offsets[-1])
    return offsets - first, b"" if data is None else data.slice(first, end - first).to_pybytes()


class RowCheck:
    """Refuses what a store would refuse, by the store's own checks and limits."""

    def __init__(self, limits: Limits, stamp_size: int = 0) -> None:
        """Make a check.

        Args:
            limits: of the store.
            stamp_size: most bytes that each property text comes to have more when it is put.
        """
        self._limits, self._stamp_size = limits, stamp_size
        self._encoder = Encoder(
            limits.store_host, limits.max_message_size, record_crc=limits.record_crc
        )
        self._size_max = limits.file_size - BLANK_MIN_SIZE

    def __call__(self, columns: Columns) -> None:
        """Check rows.

        Raises:
            PutError: a row that the store refuses, or that no file of its size can hold.
            MessageIllegalError: a row that is not a message.
        """
        if self._are_plain(columns):
            return
        sizes = self._sizes(columns) + self._stamp_size
        row = int(sizes.argmax())
        if sizes[row] > self._size_max:
            reason = f"row {row}: bytes, in files of this size"
            raise MessageTooLargeError("record", int(sizes[row]), self._size_max, reason)
        texts = columns.properties
        if isinstance(texts, tuple) and self._stamp_size:
            sizes = np.diff(texts[0]) + self._stamp_size
            row = int(sizes.argmax())
            if sizes[row] > PROPERTIES_SIZE_MAX:
                reason = f"row {row}: bytes, with its stamp"
                raise PropertiesSizeError(
                    "properties", int(sizes[row]), PROPERTIES_SIZE_MAX, reason
                )

    def _are_plain(self, columns: Columns) -> bool:
        """Return whether rows are far from every limit, and nothing about them is rare.

        Most rows are, and to see this costs a hundredth of what it costs to encode them.
        """
        limits = self._limits
        if len(limits.store_host) != HOST_SIZE or limits.record_crc:
            return False
        bodies = np.diff(columns.body[0])
        pair: Any = columns.properties or (np.zeros(len(bodies) + 1, np.int64), b"")
        borders, data = pair
        texts = np.diff(borders) + self._stamp_size
        if bodies.max() > limits.max_message_size or texts.max() > PROPERTIES_SIZE_MAX:
            return False
        if any(rare in data for rare in _RARE):
            return False
        most = int((bodies + texts).max()) + HEADER_SIZE + 2 + TOPIC_SIZE_MAX + 2
        if most > self._size_max or not all(_is_narrow(columns, name) for name in _NUMBERS[:-1]):
            return False
        topics = {columns.topic} if isinstance(columns.topic, str) else set(columns.topic)
        for topic in topics:
            self._encoder.encode_topic(topic)
        return True

    def _sizes(self, columns: Columns) -> npt.NDArray[np.int64]:
        prepared = prepare_columns(columns, self._encoder)
        if prepared is not None:
            return prepared.size
        # Rows of a rare kind go the way for single messages, with what that one refuses.
        singles = [self._encoder.prepare(each) for each in columns.to_messages()]
        for each in singles:
            if each[10]:
                inner_message_count(each)
        return np.array([each[0] for each in singles])


def _is_narrow(columns: Columns, name: str) -> bool:
    """Whether numbers are 32 bits wide; those of queues count from 0."""
    values = np.asarray(getattr(columns, name))
    least = 0 if name == "queue_id" else _NARROW.min
    return least <= int(values.min()) and int(values.max()) <= _NARROW.max
