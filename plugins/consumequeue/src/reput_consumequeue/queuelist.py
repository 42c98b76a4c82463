"""List the queues of a directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from reput.files import file_name, is_system_name
from reput_consumequeue.queuefiles import unit_files

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_consumequeue.queueextents import ClosedFile

__all__ = ["QUEUE_ID_MAX", "Listed", "listed"]

Listed: TypeAlias = tuple[str, int, Sequence[tuple[int, int]]]
"""Topic, queue id and `unit_files` of a queue."""
QUEUE_ID_MAX: Final = (1 << 31) - 1


def listed(
    disk: Disk,
    directory: str,
    is_good: Callable[[str], bool],
    closed: MutableMapping[tuple[str, int], ClosedFile] | None = None,
) -> Iterator[Listed]:
    """Yield every queue of a directory.

    Args:
        disk: of the store.
        directory: of all queues of one kind.
        is_good: returns whether a topic may name a directory.
        closed: facts of queues by topic and queue id; wrong ones are removed. Directories of the
            other queues are not read.
    """
    for topic in disk.list(directory):
        if is_system_name(topic.name) or not topic.is_dir() or not is_good(topic.name):
            continue
        found = {}
        for queue in disk.list(topic.path):
            name = queue.name
            if not (name.isascii() and name.isdigit() and queue.is_dir()):
                continue
            if int(name) > QUEUE_ID_MAX or str(int(name)) != name:
                continue
            found[int(name)] = name
        known = {each: closed.get((topic.name, each)) for each in found} if closed else {}
        noted = [(each, file) for each, file in known.items() if file is not None]
        names = [(found[each], file_name(file.position)) for each, file in noted]
        facts = disk.look_below(topic.path, names) if names else ()
        same = {}
        for (each, file), fact in zip(noted, facts, strict=True):
            if closed and fact != file.facts:
                del closed[topic.name, each]
            else:
                same[each] = ((file.position, file.size),)
        for each, name in found.items():
            yield topic.name, each, same.get(each) or unit_files(disk, f"{topic.path}/{name}")
