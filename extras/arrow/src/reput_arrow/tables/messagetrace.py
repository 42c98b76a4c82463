"""Messages of a trace topic: which producer sent what, and which consumer took how long for it.

A body holds records; in a record fields end with byte 1, and the last one with byte 2. What a
client left out is the text ``null``, and clients of earlier releases wrote fewer fields.

Source: RocketMQ ``TraceDataEncoder``, ``TraceConstants``, ``MessageType``. RocketMQ stops at a
record that it cannot read; here such a record is a row with what could be read of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput_arrow.tables.tablebatch import batch_of

if TYPE_CHECKING:
    import pyarrow as pa

    from reput_arrow.logs.logplace import LogPlace

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
TRACE_COLUMNS: Final = (
    "store string, broker string, physical_offset long, store_timestamp timestamp, "
    "kind string, timestamp timestamp, region string, group string, topic string, msg_id string, "
    "tags string, keys string, store_host string, client_host string, body_size int, "
    "cost_ms int, message_type string, offset_msg_id string, is_success boolean, "
    "request_id string, retry_times int, context_code int, transaction_id string, "
    "transaction_state string, from_check boolean"
)
"""Columns in SQL: where a trace message is, then those of a record; times in rows are ms."""
_WHO: Final = ("timestamp", "region", "group")
_MESSAGE: Final = (*_WHO, "topic", "msg_id", "tags", "keys", "store_host")
_FIELDS: Final = {
    "Pub": (
        *(*_MESSAGE, "body_size", "cost_ms", "message_type"),
        *("offset_msg_id", "is_success", "client_host"),
    ),
    "SubBefore": (*_WHO, "request_id", "msg_id", "retry_times", "keys", "client_host"),
    "SubAfter": (
        *("request_id", "msg_id", "cost_ms", "is_success", "keys", "context_code"),
        *("timestamp", "group"),
    ),
    "EndTransaction": (
        *(*_MESSAGE, "message_type", "transaction_id", "transaction_state", "from_check"),
    ),
    "Recall": (*_WHO, "topic", "msg_id", "is_success"),
}
_NUMBERS: Final = {
    "timestamp": 1 << 53,  # ms; more does not fit into microseconds
    **dict.fromkeys(("body_size", "cost_ms", "retry_times", "context_code"), 1 << 31),
}
_FLAGS: Final = frozenset({"is_success", "from_check"})
_MESSAGE_TYPES: Final = ("normal", "half", "committed", "delay", "order")


def records_of(body: bytes) -> list[dict[str, Any]]:
    """Return the records of one trace message, each as values by the names of `TRACE_COLUMNS`."""
    texts = body.decode("utf-8", "replace").split("\2")
    return [_record(text.split("\1")) for text in texts if text.strip("\1")]


def trace_batch(batch: pa.RecordBatch, place: LogPlace) -> pa.RecordBatch:
    """Return the records of trace messages, a row for each.

    Args:
        batch: columns ``physical_offset``, ``store_timestamp`` (µs) and ``body``.
        place: the log they are from.
    """
    rows = []
    times = batch.column("store_timestamp").cast("int64").to_pylist()
    offsets, bodies = batch.column("physical_offset").to_pylist(), batch.column("body")
    for physical_offset, time, body in zip(offsets, times, bodies.to_pylist(), strict=True):
        where = {
            "store": place.store,
            "broker": place.broker,
            "physical_offset": physical_offset,
            "store_timestamp": None if time is None else time // 1_000,
        }
        rows += [{**where, **record} for record in records_of(body)]
    return batch_of(rows, TRACE_COLUMNS)


def _record(words: list[str]) -> dict[str, Any]:
    kind, values = words[0], words[1:]
    names = _FIELDS.get(kind, ())
    if kind == "Pub" and len(values) == 12:  # of the oldest clients, which knew no such id
        names = tuple(name for name in names if name != "offset_msg_id")
    found = {name: _value(name, text) for name, text in zip(names, values, strict=False)}
    return {"kind": kind, **found}


def _value(name: str, text: str) -> Any:
    if text in ("", "null"):
        return None
    if name in _FLAGS:
        return text.lower() == "true"
    if name == "message_type":
        known = text.isascii() and text.isdigit() and len(text) == 1
        return _MESSAGE_TYPES[int(text)] if known and int(text) < len(_MESSAGE_TYPES) else text
    if name in _NUMBERS:
        sign, digits = text[:1] == "-", text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            return None
        number = -int(digits) if sign else int(digits)
        return number if abs(number) < _NUMBERS[name] else None
    return text
