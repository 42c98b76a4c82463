"""Extend files of queues: which queue has them, and how an opening recovers both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.files import is_system_name
from reput_consumequeue.extend.extendfiles import ExtendFiles
from reput_consumequeue.extend.extendunits import ExtendUnits, plain_units
from reput_consumequeue.extend.layout import (
    EXTEND_DIRECTORY,
    is_address,
    positions_of,
)
from reput_consumequeue.layout import UNIT_DTYPE
from reput_consumequeue.queue.recovery import truncate
from reput_consumequeue.queuefiles import unit_file_size

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    import numpy.typing as npt

    from reput.files import Disk
    from reput.plugin import StoreContext
    from reput_consumequeue.queue.consumequeue import ConsumeQueue
    from reput_consumequeue.recordfiles import FileSet

_CHUNK = 16_384  # units of one read
_PAGE_SIZE = 4_096  # bytes


def extend_of(queue: ConsumeQueue, context: StoreContext, file_size: int) -> ExtendFiles:
    """Return the extend files of a queue, created if unknown; files on disk keep their size.

    Args:
        queue: the queue.
        context: the store.
        file_size: bytes of a file if the queue has none yet.
    """
    if queue.extend is None:
        directory = context.directory(EXTEND_DIRECTORY, queue.topic, str(queue.queue_id))
        shared = queue.files.shared
        size = shared.extend_file_size
        # What a reader does not find, another process may make; a writer knows what is there.
        if size is None or (not size and not context.writable):
            shared.extend_file_size = _size_on_disk(context)
        files = ExtendFiles(directory, shared, shared.extend_file_size or file_size)
        files.load()
        if not files.bases and not context.writable:
            return files  # the writer may create them with another size: look again next time
        queue.extend = files
    return queue.extend


def _size_on_disk(context: StoreContext) -> int:
    """Return the size in bytes of extend files on disk; 0 if none has a size that it was made with.

    A file that was cut short is smaller than the others. If it is the only one, its size is hardly
    a number of whole pages. A store that is being rebuilt elsewhere is looked at, too.
    """
    for root in filter(None, (context.root, context.sizes_from)):
        listed = (context.disk.list(path) for _, _, path in _on_disk(context.disk, root))
        size = max((unit_file_size(each) or 0 for entries in listed for each in entries), default=0)
        if size and size % _PAGE_SIZE == 0:
            return size
    return 0


def _on_disk(disk: Disk, root: str) -> Iterator[tuple[str, str, str]]:
    """Yield topic, queue id and path of every directory of extend files."""
    for topic in disk.list(f"{root}/{EXTEND_DIRECTORY}"):
        if is_system_name(topic.name) or not topic.is_dir():
            continue
        for queue in disk.list(topic.path):
            if queue.is_dir():
                yield topic.name, queue.name, queue.path


def clear_orphans(
    queues: Container[tuple[str, int]], context: StoreContext, shared: FileSet
) -> None:
    """Remove extend files, left by a crash, whose queue does not exist."""
    for topic, name, path in list(_on_disk(context.disk, context.root)):
        if name.isascii() and name.isdigit() and (topic, int(name)) not in queues:
            for entry in reversed(context.disk.list(path)):
                if unit_file_size(entry) is not None:  # of any size
                    shared.remove(entry.path)


def extended(
    queue: ConsumeQueue, context: StoreContext, file_size: int, units: npt.NDArray[np.void]
) -> ExtendUnits:
    """Return what is known of the messages of some units without reading the log.

    Args:
        queue: the queue.
        context: the store.
        file_size: as for `extend_of`.
        units: ``(n,)`` of `UNIT_DTYPE`.
    """
    tags_codes = units["tags_code"].astype(np.int64)
    if is_address(tags_codes).any():
        return extend_of(queue, context, file_size).read(tags_codes)
    return plain_units(tags_codes)


def recover_extend(queue: ConsumeQueue, extend: ExtendFiles) -> bool:
    """Cut extend units without a unit and units without their extend unit.

    Returns:
        Whether there were units of the second kind.
    """
    last = _last_position(queue) if extend.bases or _is_addressed(queue) else None
    if last is None:
        extend.cut_behind(None)
        return False
    first = _position_at(queue, queue.min_offset)
    if first is None:
        first = min(extend.bases[0] if extend.bases else last, last)
    lost = extend.first_lost(first, last)
    if lost is not None:
        _cut_from(queue, lost)
        extend.cut_behind(_last_position(queue))
        return True
    extend.cut_behind(last)
    return False


def trim_extend(queue: ConsumeQueue, extend: ExtendFiles) -> None:
    """Remove extend files to which only units below the queue's minimum lead."""
    first = _position_at(queue, queue.min_offset)
    if first is not None:
        extend.trim(first)


def _is_addressed(queue: ConsumeQueue) -> bool:
    return _position_at(queue, queue.max_offset - 1) is not None


def _position_at(queue: ConsumeQueue, unit: int) -> int | None:
    """Return the position of the extend unit of a unit; None without one."""
    if not queue.min_offset <= unit < queue.max_offset:
        return None
    found = _positions(queue.files.read(unit, 1))
    return int(found[0]) if len(found) else None


def _last_position(queue: ConsumeQueue) -> int | None:
    """Return the position of the last extend unit to which a unit leads."""
    stop = queue.max_offset
    while stop > queue.min_offset:
        base = queue.files.base_of(stop - 1)
        if base is None:
            return None
        first = max(base, stop - _CHUNK, queue.min_offset)
        found = _positions(queue.files.read(first, stop - first))
        if len(found):
            return int(found[-1])
        stop = first
    return None


def _cut_from(queue: ConsumeQueue, position: int) -> None:
    """Cut the queue from the first unit on that leads to ``position`` or above."""
    at = queue.min_offset
    while at < queue.max_offset:
        units = queue.files.read(at, min(_CHUNK, queue.max_offset - at))
        if len(units) == 0:
            return
        tags_codes = units["tags_code"].astype(np.int64)
        leads = is_address(tags_codes) & (positions_of(tags_codes) >= position)
        if leads.any():
            truncate(queue, int(units["physical_offset"][int(leads.argmax())]))
            return
        at += len(units)


def _positions(units: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    assert units.dtype == UNIT_DTYPE
    tags_codes = units["tags_code"].astype(np.int64)
    return positions_of(tags_codes[is_address(tags_codes)])
