"""Compares the bytes of records, and names the fields that differ.

What says where a record stands is left out unless it is asked for: its own physical offset, and
that of the half message that it ends.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.record import Decoder, parse_properties
from reput.record.layout import (
    BORN_HOST_POSITION,
    BORN_HOST_V6,
    HOST_SIZE,
    HOST_SIZE_V6,
    STORE_HOST_V6,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

PHYSICAL_FIELDS: Final = ("physical_offset", "prepared_transaction_offset")
"""Fields that say where records stand."""
_NUMBERS: Final = (
    "magic",
    "flag",
    "sys_flag",
    "born_timestamp",
    "store_timestamp",
    "reconsume_times",
    "body_crc",
    *PHYSICAL_FIELDS,
)
FIELDS: Final = (*_NUMBERS, "born_host", "store_host", "body", "properties")
"""All fields that may differ between messages of the same topic, queue and queue offset."""
_OWN_OFFSET: Final = (28, 36)  # bytes of the record that hold its own physical offset
_PREPARED_AT: Final = 76  # behind IPv4 hosts
_SYS_FLAG_AT: Final = 36
_NAMES_MAX: Final = 10


def differing(
    window_a: npt.NDArray[np.uint8],
    starts_a: npt.NDArray[np.int64],
    sizes_a: npt.NDArray[np.int64],
    window_b: npt.NDArray[np.uint8],
    starts_b: npt.NDArray[np.int64],
    sizes_b: npt.NDArray[np.int64],
    *,
    physical: bool,
) -> npt.NDArray[np.int64]:
    """Return which pairs of records differ, as places in the arrays, ascending.

    Args:
        window_a: bytes in which the records of one store lie.
        starts_a: ``(n,)`` positions of records there.
        sizes_a: ``(n,)`` bytes of each.
        window_b: the other store's, and so on.
        starts_b: likewise.
        sizes_b: likewise.
        physical: whether the fields `PHYSICAL_FIELDS` count.
    """
    is_alike = sizes_a == sizes_b
    alike = np.flatnonzero(is_alike)
    found = [np.flatnonzero(~is_alike)]
    if len(alike):
        sizes = sizes_a[alike]
        bytes_a = _gathered(window_a, starts_a[alike], sizes)
        bytes_b = _gathered(window_b, starts_b[alike], sizes)
        places = np.flatnonzero(bytes_a != bytes_b)
        if len(places):
            ends = np.cumsum(sizes)
            rows = np.searchsorted(ends, places, side="right")
            columns = places - (ends - sizes)[rows]
            if not physical:
                kept = (columns < _OWN_OFFSET[0]) | (columns >= _OWN_OFFSET[1])
                prepared = _PREPARED_AT + _extra(bytes_a, (ends - sizes)[rows])
                kept &= (columns < prepared) | (columns >= prepared + 8)
                rows = rows[kept]
            found.append(alike[np.unique(rows)])
    return np.sort(np.concatenate(found))


def changed_fields(
    records_a: Sequence[bytes], records_b: Sequence[bytes], *, physical: bool
) -> dict[str, npt.NDArray[np.bool_]]:
    """Return by field in which pairs it differs, ``(n,)``; no field that differs in none.

    Args:
        records_a: ``n`` records of one store.
        records_b: those of the other one.
        physical: whether the fields `PHYSICAL_FIELDS` count.
    """
    a, b = _decoded(records_a), _decoded(records_b)
    if a is None or b is None:
        return {"record": np.ones(len(records_a), np.bool_)}
    names = _NUMBERS if physical else tuple(set(_NUMBERS) - set(PHYSICAL_FIELDS))
    found = {name: a.column(name) != b.column(name) for name in names if name != "physical_offset"}
    if physical:
        found["physical_offset"] = _own_offsets(a) != _own_offsets(b)
    for name, get in (("born_host", _born_host), ("store_host", _store_host)):
        found[name] = _unlike(list(map(get, records_a)), list(map(get, records_b)))
    found["body"] = _unlike(a.body.as_bytes(), b.body.as_bytes())
    found["properties"] = _unlike(a.properties_text.as_bytes(), b.properties_text.as_bytes())
    return {name: found[name] for name in FIELDS if name in found and found[name].any()}


def property_names(a: bytes, b: bytes) -> tuple[str, ...]:
    """Return names of properties that differ between two records; at most a few."""
    batch_a, batch_b = _decoded([a]), _decoded([b])
    if batch_a is None or batch_b is None:
        return ()
    [text_a], [text_b] = batch_a.properties_text.as_bytes(), batch_b.properties_text.as_bytes()
    own, its = parse_properties(text_a or b""), parse_properties(text_b or b"")
    names = [name for name in {**own, **its} if own.get(name) != its.get(name)]
    return tuple(sorted(names)[:_NAMES_MAX])


def _gathered(
    window: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint8]:
    """Return the bytes of records one after the other; a view where they lie so already."""
    ends = starts + sizes
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    if len(breaks) == 0:
        return window[int(starts[0]) : int(ends[-1])]
    first = [0, *breaks.tolist()]
    last = [*(breaks - 1).tolist(), len(starts) - 1]
    pieces = [
        window[low:high]
        for low, high in zip(starts[first].tolist(), ends[last].tolist(), strict=True)
    ]
    return np.concatenate(pieces)


def _extra(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return by how many bytes the hosts of records are longer than two of IPv4."""
    flag = data[starts + _SYS_FLAG_AT + 3].astype(np.int64)
    longer: npt.NDArray[np.int64] = (flag & BORN_HOST_V6 != 0).astype(np.int64) + (
        flag & STORE_HOST_V6 != 0
    )
    longer *= HOST_SIZE_V6 - HOST_SIZE
    return longer


def _decoded(records: Sequence[bytes]) -> DispatchBatch | None:
    window = np.frombuffer(b"".join(records), np.uint8)
    batch = Decoder(check_offset=False).decode(window, 0).batch
    return batch if len(batch) == len(records) else None


def _own_offsets(batch: DispatchBatch) -> npt.NDArray[np.int64]:
    stated = [
        int.from_bytes(batch.record(row)[_OWN_OFFSET[0] : _OWN_OFFSET[1]], "big")
        for row in range(len(batch))
    ]
    return np.array(stated, np.uint64).astype(np.int64)


def _born_host(record: bytes) -> bytes:
    size = HOST_SIZE_V6 if record[_SYS_FLAG_AT + 3] & BORN_HOST_V6 else HOST_SIZE
    return record[BORN_HOST_POSITION : BORN_HOST_POSITION + size]


def _store_host(record: bytes) -> bytes:
    flag = record[_SYS_FLAG_AT + 3]
    at = BORN_HOST_POSITION + (HOST_SIZE_V6 if flag & BORN_HOST_V6 else HOST_SIZE) + 8
    return record[at : at + (HOST_SIZE_V6 if flag & STORE_HOST_V6 else HOST_SIZE)]


def _unlike(a: Sequence[bytes | None], b: Sequence[bytes | None]) -> npt.NDArray[np.bool_]:
    return np.fromiter(map(operator.ne, a, b), np.bool_, len(a))


def check_ignored(names: Collection[str]) -> None:
    """Check names of fields.

    Raises:
        ValueError: a name is none of `FIELDS`.
    """
    for name in names:
        if name not in FIELDS:
            raise ValueError(
                f"{name!r} is not a field of a message; the fields are: {', '.join(FIELDS)}"
            )
