"""Reads how far consumers and deliveries have come, from the JSON files in ``config/``.

A broker, or any program, wrote the file: values of another kind are ignored, and reported.

Source: RocketMQ ``ConsumerOffsetManager`` (``offsetTable``, keys ``topic@group``, values by queue
id), ``LmqConsumerOffsetManager`` (``lmqOffsetTable``), ``ScheduleMessageService`` (``offsetTable``,
values by delay level).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.files import system_clock
from reput_tools.brokerfiles import BrokerDocument, change_time, offset_of, table_of

if TYPE_CHECKING:
    from reput.files import Disk

_CONSUMERS: Final = ("consumerOffset.json", "lmqConsumerOffset.json")
_DELAYS: Final = "delayOffset.json"
_ENTRIES_MAX: Final = 200_000
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

    A broker with light queues keeps all offsets in a file of its own. What both files have is of
    the newer one.

    Args:
        root: the store's directory.
        disk: the store's.
        tell: called with what cannot be used.
    """
    files = [_file(root, disk, name, tell) for name in _CONSUMERS]
    there = [(each, document) for each in files if (document := _document(each)) is not None]
    if not there:
        return None
    times = [change_time(document) for _, document in there]
    if -1 in times or len({*times}) == 1:
        times = [each.modified_at() for each, _ in there]
    # The file of light queues is the last, and comes first where the times are equal.
    newest = sorted(range(len(there)), key=lambda number: (times[number], number), reverse=True)
    found: dict[tuple[str, str, int], Committed] = {}
    for number in newest:
        for each in _offsets_in(there[number][1], there[number][0].path, tell):
            if len(found) < _ENTRIES_MAX:
                found.setdefault((each.group, each.topic, each.queue_id), each)
    return [*found.values()]


def _offsets_in(
    document: dict[str, Any], path: str, tell: Callable[[str], None]
) -> Iterator[Committed]:
    passed = 0
    for key, queues in _table(document, "offsetTable", path, tell).items():
        topic, at, group = key.partition("@")
        if not at or not isinstance(queues, dict):
            passed += 1
            continue
        for queue, value in queues.items():
            queue_id, offset = _number(queue, _ID_MAX), _offset(value)
            if queue_id is None or offset is None:
                passed += 1
            else:
                yield Committed(group, topic, queue_id, offset)
    for key, value in _table(document, "lmqOffsetTable", path, tell).items():
        topic, at, group = key.partition("@")
        offset = _offset(value)
        if not at or offset is None:
            passed += 1
        else:
            yield Committed(group, topic, 0, offset)
    if passed:
        tell(f"{path}: {passed} entries are not an offset of a queue, and are ignored")


def read_delay_offsets(root: str, disk: Disk, tell: Callable[[str], None]) -> dict[int, int] | None:
    """Return by delay level the queue offset of the next message to deliver; None without a file.

    Args:
        root: the store's directory.
        disk: the store's.
        tell: called with what cannot be used.
    """
    file = _file(root, disk, _DELAYS, tell)
    path, document = file.path, _document(file)
    if document is None:
        return None
    found: dict[int, int] = {}
    for key, value in _table(document, "offsetTable", path, tell).items():
        level, offset = _number(key, _ID_MAX), _offset(value)
        if level is None or offset is None or len(found) >= _ENTRIES_MAX:
            tell(
                f"{path}: the entry {key[:80]!r} is not an offset of a delay level, and is ignored"
            )
        else:
            found[level] = offset
    return found


def _file(root: str, disk: Disk, name: str, tell: Callable[[str], None]) -> BrokerDocument:
    return BrokerDocument(os.path.join(root, "config"), name, disk, system_clock, tell)


def _document(file: BrokerDocument) -> dict[str, Any] | None:
    """Return a file's document; None if it is missing, or cannot be read."""
    try:
        if not file.exists:
            return None
    except OSError as error:
        file.note_problem(f"{file.path}: cannot be read, and is ignored: {error.strerror or error}")
        return None
    found = file.read()
    return None if not found and file.problem is not None else found


def _table(
    document: dict[str, Any], name: str, path: str, tell: Callable[[str], None]
) -> dict[str, Any]:
    try:
        return table_of(document, name)
    except ValueError:
        tell(f"{path}: {name} is not a JSON object, and is ignored")
        return {}


def _number(text: str, most: int) -> int | None:
    """Return the number that a key says; None if it says none."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return None
    found = int(text)
    return found if found <= most else None


def _offset(value: object) -> int | None:
    try:
        found = offset_of(value, "an entry")
    except ValueError:
        return None
    return found if found >= 0 else None
