"""List the queues of a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Final, TypeAlias

from reput.files import is_system_name
from reput_consumequeue.queuefiles import unit_files

if TYPE_CHECKING:
    from reput.files import Disk

Listed: TypeAlias = tuple[str, int, Sequence[tuple[int, int]]]
"""Topic, queue id and `unit_files` of a queue."""
QUEUE_ID_MAX: Final = (1 << 31) - 1


def listed(
    disk: Disk,
    directory: str,
    is_good: Callable[[str], bool],
    unchanged: Callable[[str, str], Set[str]] = lambda topic, path: frozenset(),
) -> Iterator[Listed]:
    """Yield the queues of a directory.

    Args:
        disk: of the store.
        directory: of all queues of one kind.
        is_good: returns whether a topic may name a directory.
        unchanged: returns names of queues that are left out, by topic and path of its directory.
    """
    for topic in disk.list(directory):
        if is_system_name(topic.name) or not topic.is_dir() or not is_good(topic.name):
            continue
        known = unchanged(topic.name, topic.path)
        if known and known >= {*disk.list_names(topic.path)}:
            continue
        for queue in disk.list(topic.path):
            name = queue.name
            if name in known or not (name.isascii() and name.isdigit() and queue.is_dir()):
                continue
            if int(name) > QUEUE_ID_MAX or str(int(name)) != name:
                continue
            yield topic.name, int(name), unit_files(disk, queue.path)
