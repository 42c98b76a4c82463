"""Reads what queues say of the log, from files that may be damaged in any way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from reput.errors import MessageIllegalError
from reput.files import is_file_name
from reput_consumequeue.layout import DIRECTORY, UNIT_DTYPE, UNIT_SIZE
from reput_consumequeue.queue.queuenames import check_name
from reput_tools.offline import RecordHints

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput.files import Disk, Entry

_CHUNK: Final = UNIT_SIZE << 17
_QUEUE_ID_MAX: Final = (1 << 31) - 1
_FILL_SIZE: Final = _QUEUE_ID_MAX  # of RocketMQ's blank units, which keep a queue's place
_POSITION_MAX: Final = 1 << 62


def leads(root: str, disk: Disk) -> Iterator[RecordHints]:
    """Yield the units of every queue below ``root``, a part of a file at a time.

    The place of a file in its queue is its name; files that have another name, or cannot be read,
    are left out.
    """
    for topic in _directories(disk, f"{root}/{DIRECTORY}"):
        try:
            check_name(topic.name)
        except MessageIllegalError:
            continue
        for queue in _directories(disk, topic.path):
            number = queue.name
            if number.isascii() and number.isdigit() and int(number) <= _QUEUE_ID_MAX:
                yield from _of_queue(disk, queue.path, topic.name, int(number))


def _of_queue(disk: Disk, directory: str, topic: str, queue_id: int) -> Iterator[RecordHints]:
    for entry in _entries(disk, directory):
        if not is_file_name(entry.name) or int(entry.name) > _POSITION_MAX:
            continue
        first = int(entry.name) // UNIT_SIZE
        try:
            descriptor = disk.open(entry.path)
        except OSError:
            continue
        try:
            for at in range(0, disk.size(descriptor), _CHUNK):
                data = disk.read(descriptor, _CHUNK, at)
                units = np.frombuffer(data[: len(data) // UNIT_SIZE * UNIT_SIZE], UNIT_DTYPE)
                found = _used(units, first + at // UNIT_SIZE, topic, queue_id)
                if len(found.size):
                    yield found
        except OSError:
            continue
        finally:
            disk.close(descriptor)


def _used(
    units: np.ndarray[tuple[int], np.dtype[np.void]], first: int, topic: str, queue_id: int
) -> RecordHints:
    size = units["size"].astype(np.int64)
    physical = units["physical_offset"].astype(np.int64)
    used = np.flatnonzero((size > 0) & (size != _FILL_SIZE) & (physical >= 0))
    return RecordHints(physical[used], size[used], topic, queue_id, used + first)


def _directories(disk: Disk, path: str) -> Iterator[Entry]:
    for entry in _entries(disk, path):
        try:
            if entry.is_dir(follow_symlinks=disk.follows_links):
                yield entry
        except OSError:
            continue


def _entries(disk: Disk, path: str) -> list[Entry]:
    try:
        return disk.list(path)
    except OSError:
        return []
