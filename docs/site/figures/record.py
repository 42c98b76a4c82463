"""A record, field by field, drawn from the dtype that decodes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paper import Drawing

from reput.record.layout import HEADER_DTYPE

_BYTE = 28  # pixels
_ROW = 28  # bytes
_BY = {
    "check": ("mark", "checked first, by whoever reads"),
    "log": ("log", "set by the log"),
    "producer": ("plugin", "given by the producer"),
}
_KINDS = {
    "size": "check",
    "magic": "check",
    "body_crc": "check",
    "queue_offset": "log",
    "physical_offset": "log",
    "store_timestamp": "log",
    "store_host": "log",
    "body_size": "check",
}
# Parts of any length behind the header, as wide as they are drawn: name, bytes as shown, pixels.
_TAIL = (
    ("body", "body_size", 182, "producer"),
    ("topic_size", "1", 84, "check"),
    ("topic", "topic_size", 112, "producer"),
    ("properties_size", "2", 110, "check"),
    ("properties", "properties_size", 184, "producer"),
)


def draw() -> Drawing:
    """Rows of 28 bytes, each field as wide as it is long."""
    fields: Mapping[str, Any] = HEADER_DTYPE.fields or {}
    names = HEADER_DTYPE.names or ()
    page = Drawing(
        "record",
        820,
        408,
        "A record of version 1",
        "The header of 88 bytes: "
        + ", ".join(f"{name} at {fields[name][1]}" for name in names)
        + "; behind it body, topic_size, topic, properties_size and properties.",
    )
    for number, (kind, about) in enumerate(_BY.values()):
        page.box(18 + number * 262, 16, 18, 18, kind, 3)
        page.text(44 + number * 262, 30, about, "soft", 13, "start")
    row, used = 0, 0
    x, y = 18.0, 66.0
    for name in names:
        dtype, at = fields[name][:2]
        if used + dtype.itemsize > _ROW:
            row, used = row + 1, 0
        x, y = 18.0 + used * _BYTE, 66.0 + row * 84
        _cell(page, x, y, dtype.itemsize * _BYTE, name, f"{dtype.itemsize} bytes", str(at))
        used += dtype.itemsize
    x = 18.0 + used * _BYTE
    for name, size, width, by in _TAIL:
        about = f"{size} bytes" if not size.isdigit() else f"{size} byte{'s' * (size != '1')}"
        _cell(page, x, y, width, name, about, "88" if name == "body" else "", by)
        x += width
    page.text(410, 396, "size = 88 + body_size + 1 + topic_size + 2 + properties_size", "mono", 13)
    return page


def _cell(
    page: Drawing, x: float, y: float, width: float, name: str, about: str, at: str, by: str = ""
) -> None:
    kind = _BY[by or _KINDS.get(name, "producer")][0]
    page.text(x + 3, y - 5, at, "soft mono", 11, "start")
    page.box(x, y, width, 52, kind, 0)
    size = min(14.0, (width - 8) / (0.61 * len(name)))
    page.text(x + width / 2, y + 23, name, "mono", round(size, 1))
    page.text(x + width / 2, y + 41, about, "soft", 11 if len(about) * 6 < width else 10)
