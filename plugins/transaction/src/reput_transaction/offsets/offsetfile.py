"""``config/consumerOffset.json``: read and write it in the form of the broker's serializer.

Source: RocketMQ ``ConsumerOffsetManager``, ``ConfigManager#persist``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reput.errors import CorruptFileError
from reput.files import brokerjson
from reput_transaction.layout import HALF_TOPIC, OP_TOPIC, SYSTEM_GROUP

__all__ = ["encode_offsets", "offset_of", "parse_offsets", "with_offsets"]

HALF_KEY: Final = f"{HALF_TOPIC}@{SYSTEM_GROUP}"
OP_KEY: Final = f"{OP_TOPIC}@{SYSTEM_GROUP}"
_TABLE: Final = "offsetTable"
_OFFSET_MAX: Final = (1 << 63) - 1


def parse_offsets(data: bytes, path: str) -> dict[str, Any]:
    """Return the document in the file.

    Raises:
        CorruptFileError: the bytes are not such a document.
    """
    try:
        document = brokerjson.decode(data)
    except ValueError as error:
        raise CorruptFileError(path, 0, f"no JSON as RocketMQ writes it: {error}") from error
    table = document.get(_TABLE, {}) if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise CorruptFileError(path, 0, f"an object that has the object {_TABLE!r} expected")
    return document  # type: ignore[no-any-return]


def offset_of(document: Mapping[str, Any], key: str) -> int | None:
    """Return the offset of queue 0 that is noted for ``topic@group``; None without one."""
    queues = document.get(_TABLE, {}).get(key)
    if not isinstance(queues, dict):
        return None
    found = queues.get("0")
    if not isinstance(found, int) or isinstance(found, bool):
        return None
    return found if 0 <= found <= _OFFSET_MAX else None


def with_offsets(
    document: Mapping[str, Any], offsets: Mapping[str, int], now: int
) -> dict[str, Any]:
    """Return ``document`` with other offsets of queue 0, by ``topic@group``; all else is kept."""
    changed = dict(document)
    table = dict(changed.get(_TABLE, {}))
    for key, offset in offsets.items():
        queues = table.get(key)
        kept = dict(queues) if isinstance(queues, dict) else {}
        kept.pop("0", None)
        table[key] = {**kept, brokerjson.BareKey("0"): offset}
    changed[_TABLE] = table
    version = changed.get("dataVersion")
    if isinstance(version, dict):
        counter = version.get("counter")
        counter = counter + 1 if isinstance(counter, int) else 1
        changed["dataVersion"] = {**version, "counter": counter, "timestamp": now}
    return changed


def encode_offsets(document: Mapping[str, Any]) -> bytes:
    """Return the file's bytes."""
    return brokerjson.encode(document).encode()
