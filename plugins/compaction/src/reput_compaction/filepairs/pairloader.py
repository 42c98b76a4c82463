"""Find the pairs of a queue on disk, and how much each of them holds.

Nothing is written here. A replacement that is going on, or that a crash interrupted, is taken into
account: the new pairs count, whichever directory their files are in.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from reput.errors import CorruptFileError
from reput.files import OWN_DIRECTORY
from reput_compaction.filepairs.filepair import Pair
from reput_compaction.filepairs.offsetnotelayout import NOTE_SIZE, TOMBSTONES, UNKNOWN
from reput_compaction.filepairs.queuenames import Places, is_queue_name, is_topic
from reput_compaction.filepairs.replacement import Replacement
from reput_compaction.layout import (
    CHECKPOINT,
    DIRECTORY,
    LOG_DIRECTORY,
    QUEUE_DIRECTORY,
    UNIT_SIZE,
    FileSizes,
    is_file_name,
)

if TYPE_CHECKING:
    from reput.files import Disk
    from reput.plugin import StoreContext
    from reput_compaction.filepairs.filepair import PairFiles
    from reput_compaction.filepairs.queuenames import InStore


def find_queues(context: StoreContext | InStore) -> list[tuple[str, int]]:
    """Return topic and queue id of every queue that has one of its directories."""
    disk, found = context.disk, set()
    for steps in (
        (DIRECTORY, LOG_DIRECTORY),
        (DIRECTORY, QUEUE_DIRECTORY),
        (OWN_DIRECTORY, DIRECTORY),
    ):
        for topic in disk.list(context.directory(*steps)):
            if topic.is_dir() and is_topic(topic.name):
                for queue in disk.list(topic.path):
                    if is_queue_name(queue.name) and queue.is_dir():
                        found.add((topic.name, int(queue.name)))
    return sorted(found)


def bases_in(disk: Disk, directory: str) -> dict[int, int]:
    """Return the sizes, by base, of the files in a directory that are named like a pair's."""
    found = {}
    for entry in disk.list(directory):
        if is_file_name(entry.name):
            try:
                if entry.is_file():
                    found[int(entry.name)] = entry.stat().st_size
            except FileNotFoundError:  # replaced in the meantime
                continue
    return found


def find_sizes(context: StoreContext | InStore, asked: FileSizes) -> FileSizes:
    """Return the sizes of the existing files; ``asked`` if no file exists or some have them."""
    logs: Counter[int] = Counter()
    queues: Counter[int] = Counter()
    for topic, queue_id in find_queues(context):
        places = Places.of(context, topic, queue_id)
        logs.update(bases_in(context.disk, places.log).values())
        queues.update(bases_in(context.disk, places.queue).values())
    if asked.log in logs or asked.queue in queues:
        return asked
    for log, _ in logs.most_common():
        for queue, _ in queues.most_common():
            if queue >= 2 * UNIT_SIZE and queue % UNIT_SIZE == 0 and log > 0 and log % queue == 0:
                return FileSizes(log, queue)
    return asked


def whole_sizes(store: InStore, asked: FileSizes) -> dict[str, int | None]:
    """Return how large the files of a store are if nothing is cut off; None for JSON documents."""
    sizes = find_sizes(store, asked)
    whole = sizes.log, sizes.queue, sizes.queue // UNIT_SIZE * NOTE_SIZE
    found: dict[str, int | None] = {}
    documents = [store.directory(DIRECTORY, CHECKPOINT)]
    for topic, queue_id in find_queues(store):
        places = Places.of(store, topic, queue_id)
        documents.append(f"{places.notes}/{TOMBSTONES}")
        for directory, size in zip(places, whole, strict=True):
            for base in bases_in(store.disk, directory):
                found[f"{directory}/{base:020d}"] = size
    found |= dict.fromkeys(path for path in documents if store.disk.exists(path))
    return {os.path.relpath(path, store.root): size for path, size in found.items()}


def paired(disk: Disk, places: Places) -> tuple[list[Pair], set[int]]:
    """Return a queue's pairs, and the bases with one file only. Looks at names, not contents."""
    logs, queues = set(bases_in(disk, places.log)), set(bases_in(disk, places.queue))
    replacement = Replacement.load(disk, places)
    if replacement is None:
        return [Pair.at(places, base) for base in sorted(logs & queues)], logs ^ queues
    found = {base: Pair.at(places, base) for base in (logs & queues) - set(replacement.old)}
    for base in replacement.new:
        pair, fresh = Pair.at(places, base), Pair.at(places.compacting, base)
        for handle, moving in zip(pair.handles, fresh.handles, strict=True):
            if disk.exists(moving.path):
                handle.path = moving.path
        found[base] = pair
    return [found[base] for base in sorted(found)], (logs ^ queues) - set(replacement.old) - set(
        replacement.new
    )


def unit_count(files: PairFiles, pair: Pair) -> int:
    """Return the number of units before the first slot that has no size."""
    low, high = 0, files.sizes.unit_count_max + 1
    while low < high:
        middle = (low + high) // 2
        units = files.read_units(pair, middle, middle + 1)
        if len(units) and int(units["size"][0]) > 0:
            low = middle + 1
        else:
            high = middle
    return low


def look_into(files: PairFiles, pair: Pair, limit: int | None = None) -> None:
    """Find out how much a pair holds, and set its fields.

    Args:
        files: what the queues share.
        pair: the pair.
        limit: physical offset; messages that end above it are not counted.

    Raises:
        CorruptFileError: the last unit leads out of its file.
    """
    pair.count = unit_count(files, pair)
    while limit is not None and pair.count:
        note = files.read_notes(pair, pair.count - 1, pair.count)[0]
        counts = note["queue_offset"] == files.read_unit(pair, pair.count - 1)["queue_offset"]
        if not counts or int(note["end_offset"]) <= limit:
            break
        pair.count -= 1
    pair.size = 0
    if pair.count:
        unit = files.read_unit(pair, pair.count - 1)
        pair.size = int(unit["position"]) + int(unit["size"]) - pair.base
        if not 0 < pair.size <= files.sizes.log:
            raise CorruptFileError(
                pair.queue.path,
                (pair.count - 1) * UNIT_SIZE,
                f"the unit leads to position {int(unit['position'])}, out of the file of records",
            )
    mark = files.read_units(pair, pair.count, pair.count + 1)
    if len(mark):
        pair.is_closed = int(mark["position"][0]) == -1
    else:  # no room for a mark, or a file that is shorter than it should be
        pair.is_closed = pair.count >= files.sizes.unit_count_max
    files.note_extent(pair)
    pair.lacks_notes = pair.count > 0 and pair.end_offset == UNKNOWN
