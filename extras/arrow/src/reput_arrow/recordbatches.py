"""A batch of records as a `pyarrow.RecordBatch`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from reput.record.layout import PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_UNIQ_KEY
from reput_arrow.bodies import Bodies
from reput_arrow.hostcolumns import HostColumns
from reput_arrow.logschema import schema_of
from reput_arrow.textcolumns import TextColumns

if TYPE_CHECKING:
    from reput.record import DispatchBatch

_TIMES_MAX: Final = {"ms": 1 << 62, "us": (1 << 63) // 1_000 - 1}
_PER_MS: Final = {"ms": 1, "us": 1_000}


def to_arrow(
    batch: DispatchBatch,
    columns: Iterable[str] | pa.Schema | None = None,
    *,
    unit: str = "ms",
    raw: bool = False,
) -> pa.RecordBatch:
    """Copy columns of a batch into a `pyarrow.RecordBatch`, which stays valid after the batch.

    Bodies that a producer compressed are unpacked, and ``sys_flag`` beside them names no
    compression then, so that the rows can be put again. A body that is not what its flag says stays
    as stored, with its flag.

    Args:
        batch: the records.
        columns: names of columns (`COLUMNS` lists them), or a schema made by `schema_of`; all
            columns when left out.
        unit: unit of the times, ``"ms"`` or ``"us"``; ignored for a schema, which has its own.
        raw: leave bodies and flags as stored. ``sys_flag`` without ``body`` is always as stored.

    Raises:
        ValueError: a name is not a column.
        CodecNotFoundError: a library that unpacks a body is not installed.
        UnpackError: the bodies are larger than 1 GiB in all when unpacked; convert parts.
    """
    schema = columns if isinstance(columns, pa.Schema) else schema_of(columns, unit=unit)
    texts, hosts = TextColumns(batch), HostColumns(batch)
    bodies = Bodies(batch, raw=raw or "body" not in schema.names)
    arrays = [_array(batch, texts, hosts, bodies, field) for field in schema]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(batch), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(
    batch: DispatchBatch, texts: TextColumns, hosts: HostColumns, bodies: Bodies, field: pa.Field
) -> pa.Array:
    if field.name == "body":
        return bodies.column()
    if field.name == "sys_flag":
        return pa.array(bodies.sys_flag())
    from_text = _FROM_TEXT.get(field.name)
    if from_text is not None:
        return from_text(texts, field.type)
    from_host = _FROM_HOST.get(field.name)
    if from_host is not None:
        return from_host(hosts, field.type)
    special = _SPECIAL.get(field.name)
    if special is not None:
        return special(batch, field.type)
    # A number's type has the same name in Arrow and numpy. The method `to_pandas_dtype` of pyarrow
    # needs pandas before pyarrow 19.
    return pa.array(batch.column(field.name).astype(str(field.type), copy=True))


def _topic(batch: DispatchBatch, kind: pa.DataType) -> pa.Array:
    return pa.array(batch.topics, kind).take(pa.array(batch.topic_code))


def _time(name: str) -> Callable[[DispatchBatch, pa.DataType], pa.Array]:
    def make(batch: DispatchBatch, kind: pa.DataType) -> pa.Array:
        times = batch.column(name)
        limit = _TIMES_MAX[kind.unit]
        beyond = (times > limit) | (times < -limit)
        scaled = np.where(beyond, 0, times) * _PER_MS[kind.unit]
        return pa.array(scaled, mask=beyond).cast(pa.timestamp(kind.unit)).cast(kind)

    return make


_FROM_TEXT: Final[dict[str, Callable[[TextColumns, pa.DataType], Any]]] = {
    "tags": lambda texts, kind: texts.column(PROPERTY_TAGS),
    "keys": lambda texts, kind: texts.words(PROPERTY_KEYS, kind),
    "uniq_key": lambda texts, kind: texts.column(PROPERTY_UNIQ_KEY),
    "properties": lambda texts, kind: texts.maps(kind),
}
_FROM_HOST: Final[dict[str, Callable[[HostColumns, pa.DataType], Any]]] = {
    "born_host": HostColumns.born_host,
    "store_host": HostColumns.store_host,
    "msg_id": HostColumns.msg_id,
}
_SPECIAL: Final[dict[str, Callable[[DispatchBatch, pa.DataType], Any]]] = {
    "topic": _topic,
    "born_timestamp": _time("born_timestamp"),
    "store_timestamp": _time("store_timestamp"),
}
