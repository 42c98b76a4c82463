"""Read queues that another process may be writing, or compacting, at the same time.

Nothing is kept from one read to the next except how much closed pairs hold. A read that finds a
file missing, or a record that does not agree with its unit, met a replacement, and is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import attrs

from reput.errors import CorruptFileError
from reput.files import FilePool
from reput_compaction.filepairs.filepair import PairFiles
from reput_compaction.filepairs.pairloader import look_into, paired
from reput_compaction.filepairs.queuenames import Places
from reput_compaction.queue.compactedqueue import CompactedQueue

if TYPE_CHECKING:
    from reput.plugin import StoreContext
    from reput_compaction.filepairs.filepair import Pair
    from reput_compaction.layout import FileSizes

_Answer = TypeVar("_Answer")
_ATTEMPTS = 5
_FILES_OPEN = 64
_KNOWN_MAX = 1 << 16


@attrs.define(eq=False)
class TailingReader:
    """What a read-only store remembers of its queues."""

    context: StoreContext
    sizes: Callable[[], FileSizes]
    """Finds out how large files are; looks at the directories of all queues."""
    _sizes: FileSizes | None = attrs.field(init=False, default=None)
    """What `sizes` returned; forgotten when files contradict it: a rebuild may change it."""
    _known: dict[tuple[object, ...], tuple[int, ...]] = attrs.field(factory=dict)
    """Extent of closed pairs, by path and what else identifies a file."""

    def ask(
        self,
        topic: str,
        queue_id: int,
        question: Callable[[CompactedQueue], _Answer],
        is_sound: Callable[[_Answer], bool],
    ) -> _Answer:
        """Answer a question about a queue, and ask again if the answer is not sound.

        Raises:
            CorruptFileError: the files are damaged; only a writer can repair them.
        """
        pool = FilePool(self.context.disk, _FILES_OPEN, write=False)
        for attempt in range(_ATTEMPTS):
            is_last = attempt == _ATTEMPTS - 1
            try:
                answer = question(self._load(pool, topic, queue_id))
                if is_last or is_sound(answer):
                    return answer
            except (FileNotFoundError, CorruptFileError):
                if is_last:
                    raise
                self._sizes = None
            finally:
                pool.close()
                pool = FilePool(self.context.disk, _FILES_OPEN, write=False)
        raise AssertionError("the last attempt returns or raises")

    def _load(self, pool: FilePool, topic: str, queue_id: int) -> CompactedQueue:
        places = Places.of(self.context, topic, queue_id)
        sizes = self._sizes = self._sizes or self.sizes()
        files = PairFiles(self.context.root, self.context.disk, pool, sizes)
        # The log first: a note that is read later may state an offset that was not in the log yet.
        limit = self.context.log.max_physical_offset
        pairs, _ = paired(self.context.disk, places)
        found = [pair for pair in pairs if self._look(files, pair, limit, pair is pairs[-1])]
        return CompactedQueue(topic, queue_id, places, files, tuple(found))

    def _look(self, files: PairFiles, pair: Pair, limit: int, is_last: bool) -> bool:
        """Look into a pair, and return whether it holds anything."""
        for handle, size in zip(pair.handles[:2], files.sizes, strict=True):
            with files.pool.descriptor(handle) as descriptor:
                found = self.context.disk.size(descriptor)
            if found == 0 and is_last:
                return False  # the file is being made
            # A shorter last file is being cut: its missing bytes count as zero.
            if found > size or (found < size and not is_last):
                raise CorruptFileError(
                    handle.path,
                    found,
                    f"the file has {found} bytes where {size} are expected; open the store for "
                    "writing, which repairs it",
                )
        disk, path = self.context.disk, pair.queue.path
        key = (path, disk.identity(path), disk.modified_ms(path))
        known = self._known.get(key)
        if known is not None and not is_last:
            for name, value in zip(_EXTENT, known, strict=True):
                setattr(pair, name, value)
            return pair.count > 0
        look_into(files, pair, limit)
        if pair.is_closed and not is_last and len(self._known) < _KNOWN_MAX:
            self._known[key] = tuple(getattr(pair, name) for name in _EXTENT)
        return pair.count > 0


_EXTENT = ("count", "size", "first", "last", "end_offset", "timestamp")
