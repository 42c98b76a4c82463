"""Reads how far consumers and deliveries have come, from the JSON files in ``config/``.

A broker, or any program, wrote the file: values of another kind are ignored, and reported.

Source: RocketMQ ``ConsumerOffsetManager`` (``offsetTable``, keys ``topic@group``, values by queue
id), ``LmqConsumerOffsetManager`` (``lmqOffsetTable``), ``ScheduleMessageService`` (``offsetTable``,
values by delay level).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.files import brokerjson

if TYPE_CHECKING:
    from reput.files import Disk

__all__ = ["Committed", "read_consumer_offsets", "read_delay_offsets"]

_CONSUMERS: Final = ("consumerOffset.json", "lmqConsumerOffset.json")
_DELAYS: Final = "delayOffset.json"
_ENTRIES_MAX: Final = 200_000
_OFFSET_MAX: Final = (1 << 63) - 1
_ID_MAX: Final = (1 << 31) - 1


@attrs.frozen
class Committed:
    """How far a consumer group has read one queue."""

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    """Queue offset of the next message to read."""


def read_consumer_offsets(
    root: str, disk: Disk, tell: Callable[[str], None]
) -> list[Committed] | None:
    """Return the offsets of all groups; None if the store has no file of them.

    Args:
        root: the store's directory.
        disk: the store's.
        tell: called with what cannot be used.
    """
    found: list[Committed] | None = None
    for name in _CONSUMERS:
        path = os.path.join(root, "config", name)
        document = _document(disk, path, tell)
        if document is None:
            continue
        found = [] if found is None else found
        passed = 0
        for key, queues in _table(document, "offsetTable", path, tell).items():
            topic, at, group = key.partition("@")
            if not at or not isinstance(queues, dict):
                passed += 1
                continue
            for queue, offset in queues.items():
                queue_id = _number(queue, _ID_MAX)
                if queue_id is None or not _is_offset(offset):
                    passed += 1
                elif len(found) < _ENTRIES_MAX:
                    found.append(Committed(group, topic, queue_id, offset))
                else:
                    passed += 1
        if passed:
            tell(f"{path}: {passed} entries are not an offset of a queue, and are ignored")
    return found


def read_delay_offsets(root: str, disk: Disk, tell: Callable[[str], None]) -> dict[int, int] | None:
    """Return by delay level the queue offset of the next message to deliver; None without a file.

    Args:
        root: the store's directory.
        disk: the store's.
        tell: called with what cannot be used.
    """
    path = os.path.join(root, "config", _DELAYS)
    document = _document(disk, path, tell)
    if document is None:
        return None
    found: dict[int, int] = {}
    for key, offset in _table(document, "offsetTable", path, tell).items():
        level = _number(key, _ID_MAX)
        if level is None or not _is_offset(offset) or len(found) >= _ENTRIES_MAX:
            tell(
                f"{path}: the entry {key[:80]!r} is not an offset of a delay level, and is ignored"
            )
        else:
            found[level] = offset
    return found


def _document(disk: Disk, path: str, tell: Callable[[str], None]) -> dict[str, Any] | None:
    try:
        if not disk.exists(path) and not disk.exists(brokerjson.backup_of(path)):
            return None
    except OSError as error:
        tell(f"{path}: cannot be read, and is ignored: {error.strerror or error}")
        return None
    return brokerjson.read(disk, path, tell)


def _table(
    document: dict[str, Any], name: str, path: str, tell: Callable[[str], None]
) -> dict[str, Any]:
    found = document.get(name, {})
    if isinstance(found, dict):
        return found
    tell(f"{path}: {name} is not a JSON object, and is ignored")
    return {}


def _number(text: str, most: int) -> int | None:
    """Return the number that a key says; None if it says none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    found = int(text)
    return found if found <= most else None


def _is_offset(value: object) -> bool:
    return type(value) is int and 0 <= value <= _OFFSET_MAX
