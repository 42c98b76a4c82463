"""Batches of messages that have given properties."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from reput.record import DispatchBatch, Message
from reput_testing import SmallLog

FILE_SIZE = 1 << 20


def property_text(properties: Mapping[str, str | bytes]) -> bytes:
    """The text of a record, as it stands; values may be bytes that are no UTF-8."""
    return b"".join(
        name.encode() + b"\x01" + (value if isinstance(value, bytes) else value.encode()) + b"\x02"
        for name, value in properties.items()
    )


def log_of(rows: Iterable[Mapping[str, str | bytes]], topic: str = "orders") -> SmallLog:
    """A log with one message for each row of properties."""
    return SmallLog.of(
        [Message(topic, b"body", properties=property_text(row)) for row in rows], FILE_SIZE
    )


def batches_of(rows: Iterable[Mapping[str, str | bytes]]) -> Iterator[DispatchBatch]:
    """Those messages as batches; nearly always one."""
    return log_of(rows).batches()
