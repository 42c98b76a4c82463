"""A batch of records as a `pyarrow.RecordBatch`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.record import fixed_rows, host_of
from reput.record.layout import (
    BORN_HOST_POSITION,
    BORN_HOST_V6,
    HOST_EXTRA_V6,
    HOST_SIZE,
    HOST_SIZE_V6,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    STORE_HOST_V6,
)
from reput_arrow.bodies import Bodies
from reput_arrow.fields import schema_of
from reput_arrow.textcolumns import TextColumns

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

__all__ = ["to_arrow"]

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
    texts = TextColumns(batch, has_all="properties" in schema.names)
    bodies = Bodies(batch, raw=raw or "body" not in schema.names)
    arrays = [_array(batch, texts, bodies, field) for field in schema]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(batch), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(batch: DispatchBatch, texts: TextColumns, bodies: Bodies, field: pa.Field) -> pa.Array:
    if field.name == "body":
        return bodies.column()
    if field.name == "sys_flag":
        return pa.array(bodies.sys_flag())
    from_text = _FROM_TEXT.get(field.name)
    if from_text is not None:
        return from_text(texts, field.type)
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


# --------------------------------------------------------------------------- hosts


def _host_bytes(
    batch: DispatchBatch, bit: int, position: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], list[bytes], npt.NDArray[np.int64]]:
    """Return whether each row's host is IPv6, the distinct hosts, and each row's index in them."""
    is_v6 = (batch.sys_flag & bit) != 0
    found: list[bytes] = []
    numbers = np.zeros(len(batch), np.int64)
    for rows, size in [
        (np.flatnonzero(~is_v6), HOST_SIZE),
        (np.flatnonzero(is_v6), HOST_SIZE_V6),
    ]:
        if len(rows):
            items = fixed_rows(batch.window, position[rows], np.dtype((np.void, size)))
            letters = items.view(np.uint32).reshape(len(rows), -1)
            if (letters == letters[0]).all():  # mostly one host; else sorting finds all
                numbers[rows] = len(found)
                found.append(items[0].tobytes())
                continue
            hosts, places = np.unique(items, return_inverse=True)
            numbers[rows] = places + len(found)
            found += [host.tobytes() for host in hosts]
    return is_v6, found, numbers


def _born_host(batch: DispatchBatch, kind: pa.DataType) -> pa.Array:
    _, hosts, numbers = _host_bytes(batch, BORN_HOST_V6, batch.start + BORN_HOST_POSITION)
    return pa.array(map(_host_text, hosts), kind).take(pa.array(numbers))


def _store_host_position(batch: DispatchBatch) -> npt.NDArray[np.int64]:
    extra = np.where(batch.sys_flag & BORN_HOST_V6, HOST_EXTRA_V6, 0)
    return batch.start + BORN_HOST_POSITION + HOST_SIZE + 8 + extra


def _store_host(batch: DispatchBatch, kind: pa.DataType) -> pa.Array:
    _, hosts, numbers = _host_bytes(batch, STORE_HOST_V6, _store_host_position(batch))
    return pa.array(map(_host_text, hosts), kind).take(pa.array(numbers))


def _host_text(host: bytes) -> str:
    address, port = host_of(host)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _msg_id(batch: DispatchBatch, kind: pa.DataType) -> pa.Array:
    """Return message ids: hex digits of the store host, then of the physical offset."""
    _, hosts, numbers = _host_bytes(batch, STORE_HOST_V6, _store_host_position(batch))
    digits = _HEX[batch.physical_offset.astype(">i8").view(np.uint8)].view(np.uint8)
    digits = digits.reshape(len(batch), 16)
    if len({len(host) for host in hosts}) <= 1:  # nearly always: one store has one address
        heads = np.array([list(host.hex().upper().encode()) for host in hosts], np.uint8)
        if not hosts:
            return _NO_TEXTS
        letters = np.empty((len(batch), heads.shape[1] + 16), np.uint8)
        letters[:, :-16] = heads[0] if len(hosts) == 1 else heads[numbers]
        letters[:, -16:] = digits
        return _strings(letters)
    texts = pa.array([host.hex().upper() for host in hosts], pa.string()).take(pa.array(numbers))
    return pc.binary_join_element_wise(texts, _strings(digits), "")


def _strings(letters: npt.NDArray[np.uint8]) -> pa.StringArray:
    """Return ``n`` texts of one width, made of ``(n, width)`` ASCII letters."""
    count, width = letters.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    data = np.ascontiguousarray(letters)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(data))


_NO_TEXTS: Final = pa.array([], pa.string())
_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)
"""Both hex digits of each byte, in memory order."""
_FROM_TEXT: Final[dict[str, Callable[[TextColumns, pa.DataType], Any]]] = {
    "tags": lambda texts, kind: texts.column(PROPERTY_TAGS),
    "tags_code": lambda texts, kind: pa.array(texts.tags_code()),
    "keys": lambda texts, kind: texts.words(PROPERTY_KEYS, kind),
    "uniq_key": lambda texts, kind: texts.column(PROPERTY_UNIQ_KEY),
    "properties": lambda texts, kind: texts.maps(kind),
}
_SPECIAL: Final[dict[str, Callable[[DispatchBatch, pa.DataType], Any]]] = {
    "topic": _topic,
    "born_timestamp": _time("born_timestamp"),
    "store_timestamp": _time("store_timestamp"),
    "born_host": _born_host,
    "store_host": _store_host,
    "msg_id": _msg_id,
}
