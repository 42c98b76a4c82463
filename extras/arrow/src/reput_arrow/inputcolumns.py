"""Convert Arrow batches to `reput.Columns`, the inverse of `to_arrow`.

    columns = columns_of(batch)  # needs topic and body; takes the other columns if present
    store.put_many(columns)

Loops over rows only where `Columns` itself does: numbers are passed as arrays, bodies and property
texts as ``(offsets, data)``, topics by their distinct names.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from reput.errors import MessageIllegalError
from reput.record import Columns, pack_host
from reput.record.layout import BORN_HOST_V6, STORE_HOST_V6
from reput_arrow.propertytexts import property_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

_HOST_BITS: Final = BORN_HOST_V6 | STORE_HOST_V6
_PER_MS: Final = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
_TIME_MAX: Final = (1 << 63) // 1_000 - 1
_PORT_MAX: Final = 65_535
_KEPT_COUNT: Final = 1 << 14  # numbers that are kept to compare others with them


@attrs.frozen
class InputColumn:
    """One column that `columns_of` accepts."""

    name: str
    kind: str
    """``text``, ``bytes``, ``number``, ``time``, ``words``, ``texts by name`` or ``any``."""
    use: str
    """``needed``; ``taken`` if present; ``placed``: used only where whole files are written;
    ``derived``: ignored, as each record gets its own value."""
    about: str


INPUT_COLUMNS: Final = tuple(
    InputColumn(*each)
    for each in [
        ("topic", "text", "needed", "the topic; never null"),
        ("body", "bytes", "needed", "the body, text as UTF-8; never null"),
        ("queue_id", "number", "taken", "the queue of the topic; null is 0"),
        ("tags", "text", "taken", "the property TAGS; null for none"),
        ("keys", "words", "taken", "the property KEYS: a list of words, or one text of them"),
        ("uniq_key", "text", "taken", "the property UNIQ_KEY; null for none"),
        ("properties", "texts by name", "taken", "further properties; null values are left out"),
        ("flag", "number", "taken", "32 bits for the application; null is 0"),
        ("sys_flag", "number", "taken", "as read, but for kinds of hosts; null is 0"),
        ("born_timestamp", "time", "taken", "null is the store time"),
        ("reconsume_times", "number", "taken", "null is 0"),
        ("prepared_transaction_offset", "number", "taken", "as given; null is 0"),
        ("born_host", "text", "placed", "address:port, [address]:port for IPv6; null for own"),
        ("store_timestamp", "time", "placed", "null is now"),
        ("store_host", "text", "placed", "as born_host"),
        ("queue_offset", "any", "derived", "it is the next one of the queue"),
        ("physical_offset", "any", "derived", "it is where the record comes to stand"),
        ("size", "any", "derived", ""),
        ("tags_code", "any", "derived", ""),
        ("body_crc", "any", "derived", ""),
        ("msg_id", "any", "derived", ""),
    ]
)
"""Every column that `columns_of` accepts; contains all of `reput_arrow.COLUMNS`."""


@attrs.define(eq=False)
class _Accepted:
    """The schema that `columns_of` has accepted last: mostly it is that of the next batch, too."""

    schema: pa.Schema | None = None


_accepted: Final = _Accepted()
_NUMBERS: Final = ("queue_id", "flag", "reconsume_times", "prepared_transaction_offset")


def check_schema(schema: pa.Schema, others: Collection[str] = ()) -> None:
    """Refuse a schema whose columns do not describe messages.

    Args:
        schema: schema of the batches to come.
        others: names of further columns, which are ignored.

    Raises:
        ValueError: a column is unknown, missing, present twice, or of a type that cannot be
            converted; the text lists the accepted columns.
    """
    known = {column.name: column for column in INPUT_COLUMNS}
    for name in schema.names:
        if name not in known and name not in others:
            raise ValueError(
                f"column {name!r} is not a column of a message; known columns: {_listed(known)}"
            )
        if len(schema.get_all_field_indices(name)) > 1:
            raise ValueError(f"column {name!r} occurs twice")
    for column in INPUT_COLUMNS:
        place = schema.get_field_index(column.name)
        if place < 0 and column.use == "needed":
            raise ValueError(f"no column {column.name!r}; there may be: {_listed(known)}")
        if place >= 0 and not _FITS[column.kind](schema.field(place).type):
            kind = schema.field(place).type
            raise ValueError(f"column {column.name!r} has type {kind}; {column.kind} expected")


def columns_of(batch: pa.RecordBatch, others: Collection[str] = ()) -> Columns:
    """Convert a batch to messages for `reput.Store.put_many`.

    A column ``tags``, ``keys`` or ``uniq_key`` sets the property of its name, and where the column
    is null the message has no such property: ``properties`` is not asked for it.

    Args:
        batch: columns of `INPUT_COLUMNS`, in any order. Columns that only whole files can hold
            (hosts, store times), and columns that each record gets of its own, are ignored.
        others: names of further columns, which are ignored.

    Raises:
        ValueError: as of `check_schema`.
        MessageIllegalError: a null where there must be a value, or a value that a message cannot
            have; the text names column and row.
    """
    schema = batch.schema
    if others or _accepted.schema is None or not schema.equals(_accepted.schema):
        check_schema(schema, others)
        if not others:
            _accepted.schema = schema
    if batch.num_rows == 0:
        return Columns(topic=[], body=[])
    names = schema.names
    numbers: dict[str, Any] = {name: _numbers(batch, name) for name in _NUMBERS if name in names}
    numbers.setdefault("queue_id", 0)  # each task of a job writes alone, so no turns are taken
    if "sys_flag" in names:
        # The store that writes the record sets its hosts, and the bits that say if they are IPv6.
        numbers["sys_flag"] = _numbers(batch, "sys_flag") & ~_HOST_BITS
    return Columns(
        topic=_topics(batch.column("topic")),
        body=_bodies(batch.column("body")),
        properties=property_texts(batch),
        born_timestamp=_births(batch),
        **numbers,
    )


def times_of(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """Return column ``name`` as int64 ms, with its nulls; None if the batch lacks the column.

    Raises:
        MessageIllegalError: a time that milliseconds cannot hold.
    """
    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    mask = column.is_null().to_numpy(zero_copy_only=False)
    if not kinds.is_timestamp(column.type):
        return pa.array(_numbers(batch, name), mask=mask)
    times, parts = _PER_MS[column.type.unit]
    values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if times > 1 and len(values) and int(np.abs(values).max()) > _TIME_MAX:
        raise _refusal(name, np.abs(values) > _TIME_MAX, "a time that fits into milliseconds")
    return pa.array(values * times // parts, mask=mask)


def hosts_of(batch: pa.RecordBatch, name: str) -> tuple[list[bytes], npt.NDArray[np.int64]] | None:
    """Return the hosts of column ``name``; None if the batch lacks the column.

    Returns:
        The distinct hosts, packed as in records, and ``(n,)`` the index of each row's host, -1
        where the row is null.

    Raises:
        MessageIllegalError: a text that is not a host.
    """
    if name not in batch.schema.names:
        return None
    encoded = batch.column(name).cast(pa.string()).dictionary_encode()
    packed = [_packed(name, text) for text in encoded.dictionary.to_pylist()]
    codes = encoded.indices.cast(pa.int64()).fill_null(-1)
    return packed, codes.to_numpy(zero_copy_only=False)


# --------------------------------------------------------------------------- one column each


def _topics(column: pa.Array) -> str | list[str]:
    _refuse_null("topic", column)
    if not kinds.is_string(column.type):
        column = column.cast(pa.string())
    name = _only_topic(column)
    if name is not None:
        return name
    encoded = column.dictionary_encode()
    try:
        names = encoded.dictionary.to_pylist()
    except UnicodeDecodeError as error:
        raise MessageIllegalError("topic", None, None, f"not UTF-8: {error}") from None
    if len(names) == 1:
        return str(names[0])
    found: list[str] = (
        np.array(names, object).take(encoded.indices.to_numpy(zero_copy_only=False)).tolist()
    )
    return found


def _only_topic(column: pa.Array) -> str | None:
    """Return the topic that all rows have; None where they have several, or none is sure."""
    _, borders, data = column.buffers()
    ends = np.frombuffer(borders, np.int32, len(column) + 1, column.offset * 4)
    first, size = int(ends[0]), int(ends[1] - ends[0])
    if size <= 0 or not _are_even(ends - first if first else ends, size):
        return None
    text = data.slice(first, len(column) * size).to_pybytes()
    name = text[:size]
    return name.decode("ascii") if name.isascii() and name * len(column) == text else None


def _are_even(ends: npt.NDArray[np.int32], size: int) -> bool:
    """Return whether the first number is 0, and each next one larger by ``size``."""
    if len(ends) > _KEPT_COUNT:
        return bool((np.diff(ends) == size).all())
    return ends.tobytes() == _multiples(size, len(ends))


@lru_cache(maxsize=32)
def _multiples(size: int, count: int) -> bytes:
    """Return the bytes of ``(count,)`` int32: 0, ``size``, twice that and so on."""
    return (np.arange(count, dtype=np.int64) * size).astype(np.int32).tobytes()


def _bodies(column: pa.Array) -> tuple[npt.NDArray[np.integer[Any]], bytes]:
    _refuse_null("body", column)
    if not kinds.is_binary(column.type):
        column = column.cast(pa.binary())
    _, borders, data = column.buffers()
    offsets = np.frombuffer(borders, np.int32, len(column) + 1, column.offset * 4)
    first, end = int(offsets[0]), int(offsets[-1])
    # Only the bytes of these rows: a slice of a large batch still refers to the data of all rows.
    return offsets - first if first else offsets, b"" if data is None else data.slice(
        first, end - first
    ).to_pybytes()


def _numbers(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    column = batch.column(name)
    if kinds.is_signed_integer(column.type) and not column.null_count:
        # A seventh of the time of a cast.
        whole: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
        return whole
    try:
        column = column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise MessageIllegalError(name, None, None, str(error)) from None
    if column.null_count:
        column = column.fill_null(0)
    found: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False)
    return found


def _births(batch: pa.RecordBatch) -> Any:
    times = times_of(batch, "born_timestamp")
    if times is None or times.null_count == len(times):
        return None
    # `Columns` takes times with gaps only as a list.
    return times.to_pylist() if times.null_count else times.to_numpy(zero_copy_only=False)


def _packed(name: str, text: str) -> bytes:
    address, _, port = text.rpartition(":")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    if not (port.isascii() and port.isdigit() and len(port) <= len(str(_PORT_MAX))):
        raise MessageIllegalError(name, text, None, "address:port expected, or [address]:port")
    return pack_host(address, int(port))


def _refuse_null(name: str, column: pa.Array) -> None:
    if column.null_count:
        nulls = column.is_null().to_numpy(zero_copy_only=False)
        raise _refusal(name, nulls, "a value, not null")


def _refusal(name: str, wrong: npt.NDArray[np.bool_], expected: str) -> MessageIllegalError:
    return MessageIllegalError(name, None, None, f"row {int(wrong.argmax())}: {expected} expected")


# --------------------------------------------------------------------------- types


def _listed(known: dict[str, InputColumn]) -> str:
    return ", ".join(known)


def _is_text(kind: pa.DataType) -> bool:
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_null(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    is_binary = kinds.is_binary(kind) or kinds.is_large_binary(kind)
    return bool(is_binary or kinds.is_fixed_size_binary(kind) or _is_text(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_null(kind))


def _is_words(kind: pa.DataType) -> bool:
    is_list = kinds.is_list(kind) or kinds.is_large_list(kind)
    return _is_text(kind.value_type if is_list else kind)


def _is_texts_by_name(kind: pa.DataType) -> bool:
    return bool(kinds.is_map(kind)) and _is_text(kind.key_type) and _is_text(kind.item_type)


_FITS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "text": _is_text,
    "bytes": _is_bytes,
    "number": _is_number,
    "time": lambda kind: bool(kinds.is_timestamp(kind)) or _is_number(kind),
    "words": _is_words,
    "texts by name": _is_texts_by_name,
    "any": lambda kind: True,
}
