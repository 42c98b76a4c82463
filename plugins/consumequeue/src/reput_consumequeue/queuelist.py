"""List the queues of a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from reput.files import is_system_name
from reput_consumequeue.queuefiles import unit_files

if TYPE_CHECKING:
    from reput.files import Disk

__all__ = ["QUEUE_ID_MAX", "Listed", "listed"]

Listed: TypeAlias = tuple[str, int, Sequence[tuple[int, int]]]
"""Topic, queue id and `unit_files` of a queue."""
QUEUE_ID_MAX: Final = (1 << 31) - 1


def listed(disk: Disk, directory: str, is_good: Callable[[str], bool]) -> Iterator[Listed]:
    """Yield every queue of a directory.

    Args:
        disk: of the store.
        directory: of all queues of one kind.
        is_good: returns whether a topic may name a directory.
    """
    for topic in disk.list(directory):
        if is_system_name(topic.name) or not topic.is_dir() or not is_good(topic.name):
            continue
        for queue in disk.list(topic.path):
            name = queue.name
            if not (name.isascii() and name.isdigit() and queue.is_dir()):
                continue
            if int(name) > QUEUE_ID_MAX or str(int(name)) != name:
                continue
            yield topic.name, int(name), unit_files(disk, queue.path)
