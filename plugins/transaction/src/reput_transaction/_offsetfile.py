"""``config/consumerOffset.json``: read as the broker's serializer writes it, and written so again.

Keys that are whole numbers stand there without quotes, which is no JSON. They are marked while the
text is in memory, so that everything else in the file comes out as it went in.

Source: RocketMQ ``ConsumerOffsetManager``, ``ConfigManager#persist``; fastjson's pretty form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from reput.errors import CorruptFileError
from reput_transaction.layout import HALF_TOPIC, OP_TOPIC, SYSTEM_GROUP

__all__ = ["encode_offsets", "offset_of", "parse_offsets", "with_offsets"]

HALF_KEY: Final = f"{HALF_TOPIC}@{SYSTEM_GROUP}"
OP_KEY: Final = f"{OP_TOPIC}@{SYSTEM_GROUP}"
_TABLE: Final = "offsetTable"
_BARE: Final = "\0"  # in front of a key that stood without quotes; no text in JSON begins with it
_STRING_OR_BARE_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|(-?\d+)(?=\s*:)')
_OFFSET_MAX: Final = (1 << 63) - 1


def parse_offsets(data: bytes, path: str) -> dict[str, Any]:
    """The document in the file.

    Raises:
        CorruptFileError: no such document.
    """
    try:
        text = data.decode()
        quoted = _STRING_OR_BARE_KEY.sub(
            lambda found: found[0] if found[1] is None else f'"\\u0000{found[1]}"', text
        )
        document = json.loads(quoted)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(path, 0, f"no JSON as RocketMQ writes it: {error}") from error
    table = document.get(_TABLE, {}) if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise CorruptFileError(path, 0, f"an object that has the object {_TABLE!r} expected")
    return document  # type: ignore[no-any-return]


def offset_of(document: Mapping[str, Any], key: str) -> int | None:
    """Offset of queue 0 that is noted for ``topic@group``; None where there is none."""
    queues = document.get(_TABLE, {}).get(key)
    if not isinstance(queues, dict):
        return None
    found = queues.get(f"{_BARE}0", queues.get("0"))
    if not isinstance(found, int) or isinstance(found, bool):
        return None
    return found if 0 <= found <= _OFFSET_MAX else None


def with_offsets(
    document: Mapping[str, Any], offsets: Mapping[str, int], now: int
) -> dict[str, Any]:
    """``document`` with other offsets of queue 0, by ``topic@group``; all else as it was."""
    changed = dict(document)
    table = dict(changed.get(_TABLE, {}))
    for key, offset in offsets.items():
        queues = table.get(key)
        kept = dict(queues) if isinstance(queues, dict) else {}
        kept.pop("0", None)
        table[key] = {**kept, f"{_BARE}0": offset}
    changed[_TABLE] = table
    version = changed.get("dataVersion")
    if isinstance(version, dict):
        counter = version.get("counter")
        counter = counter + 1 if isinstance(counter, int) else 1
        changed["dataVersion"] = {**version, "counter": counter, "timestamp": now}
    return changed


def encode_offsets(document: Mapping[str, Any]) -> bytes:
    """The file's bytes: tabs, no space behind a colon, number keys without quotes on one line."""
    return _encode(document, 0).encode()


def _encode(value: Any, depth: int) -> str:
    tabs = "\t" * depth
    if isinstance(value, Mapping):
        if not value:
            return "{}"
        if all(name.startswith(_BARE) for name in value):
            inner = ",".join(f"{name[1:]}:{_encode(each, depth)}" for name, each in value.items())
            return f"{{{inner}\n{tabs}}}"
        parts = [f"{tabs}\t{_key(name)}:{_encode(each, depth + 1)}" for name, each in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{tabs}}}"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _key(name: str) -> str:
    return name[1:] if name.startswith(_BARE) else json.dumps(name, ensure_ascii=False)
