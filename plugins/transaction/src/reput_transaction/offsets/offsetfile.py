"""``config/consumerOffset.json``: read and write it in the form of the broker's serializer.

Source: RocketMQ ``ConsumerOffsetManager``, ``ConfigManager#persist``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reput_tools.brokerfiles import BareKey, offsets_of, section_of, table_of
from reput_transaction.layout import HALF_TOPIC, OP_TOPIC, SYSTEM_GROUP

HALF_KEY: Final = f"{HALF_TOPIC}@{SYSTEM_GROUP}"
OP_KEY: Final = f"{OP_TOPIC}@{SYSTEM_GROUP}"
_TABLE: Final = "offsetTable"
_ONLY: Final = range(1)


def check(document: Mapping[str, Any]) -> None:
    """Refuse a document whose offsets cannot be read.

    Raises:
        ValueError: the document has something else than offsets there.
    """
    for key in (HALF_KEY, OP_KEY):
        offset_in(document, key)


def offset_in(document: Mapping[str, Any], key: str) -> int | None:
    """Return the offset of queue 0 that is noted for ``topic@group``; None without one.

    Raises:
        ValueError: the document has something else there.
    """
    queues = table_of(document, _TABLE).get(key)
    return None if queues is None else offsets_of(queues, key, _ONLY).get(0)


def fill_in(document: dict[str, Any], offsets: Mapping[str, int]) -> bool:
    """Set offsets of queue 0, by ``topic@group``; return whether that changed anything."""
    table, is_changed = section_of(document, _TABLE), False
    for key, offset in offsets.items():
        queues = table.get(key)
        kept = dict(queues) if isinstance(queues, dict) else {}
        is_changed |= kept.pop("0", None) != offset
        table[key] = {**kept, BareKey("0"): offset}
    return is_changed
