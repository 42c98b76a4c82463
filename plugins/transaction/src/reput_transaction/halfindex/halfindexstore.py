"""`HalfIndexStore`: an index that follows the log, and its snapshots on disk.

A snapshot is taken before the first record of every ``snapshot_size`` bytes of the log, so that an
opening reads no more than that again, and the same log gives the same files. The last few are kept:
a crash may set the plugin's progress back to that of the last flush.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from reput.errors import CorruptFileError
from reput.files import file_name, is_file_name
from reput_transaction.halfindex.halfindex import HalfIndex
from reput_transaction.halfindex.snapshotcodec import (
    check_snapshot,
    decode_snapshot,
    encode_snapshot,
)
from reput_transaction.layout import DIRECTORY

if TYPE_CHECKING:
    from reput.plugin import StoreContext
    from reput.record import DispatchBatch

logger = logging.getLogger(__name__)

_KEPT = 16


class HalfIndexStore:
    """Follows the log of one store. Not thread-safe."""

    def __init__(self, context: StoreContext, snapshot_size: int, max_open: int) -> None:
        self._context = context
        self._snapshot_size = snapshot_size
        self._max_open = max_open
        self._directory = context.directory(DIRECTORY)
        self._fresh: dict[int, bytes] = {}
        self.is_blank = True
        """Whether the index began without a snapshot."""
        self._begin(0)

    def _begin(self, offset: int) -> None:
        self.index = HalfIndex(self._context.log.read_message, self._max_open)
        self._go_on_at(offset)

    def _go_on_at(self, offset: int) -> None:
        self.dispatched_to = offset
        self._next_snapshot = (offset // self._snapshot_size + 1) * self._snapshot_size

    # ------------------------------------------------------------------ opening

    def recover(self, progress: int) -> int:
        """Load the newest snapshot up to ``progress``; return from where the log is needed."""
        if self._context.writable:
            flush = not self._context.clean
            self._context.disk.finish_replacing(self._directory, flush=flush)
        self._fresh.clear()
        self._begin(0)
        self.is_blank = True
        snapshots = self._on_disk()
        good = [each for each in snapshots if each[0] <= progress]
        for number, (offset, path) in enumerate(good):
            # All are checked, the oldest first: all after a damaged one are recreated. Only the
            # newest one fills the index, which takes twenty times as long as the checks.
            is_newest = number == len(good) - 1
            if not self._is_sound(offset, path, self.index if is_newest else None):
                good = good[:number]
                self._begin(0)
                while good and not self._is_sound(*good[-1], self.index):
                    good.pop()  # removed since by the process that writes
                    self._begin(0)
                break
        if self._context.writable:
            for each in snapshots[len(good) :]:
                self._context.disk.remove(each[1])  # damaged, or of bytes replaced since
        if good:
            self._go_on_at(good[-1][0])
        self.is_blank = not good
        self.index.trim(self._context.log.min_physical_offset)
        return self.dispatched_to

    def _is_sound(self, offset: int, path: str, index: HalfIndex | None) -> bool:
        try:
            self._read(offset, path, index)
        except (CorruptFileError, OSError) as error:
            logger.warning("snapshot not used, an older one is: %s", error)
            return False
        return True

    def _read(self, offset: int, path: str, index: HalfIndex | None = None) -> None:
        """Check a snapshot, and fill the empty ``index`` from it if one is given."""
        data = self._context.disk.read_file(path)
        if index is None:
            resume = check_snapshot(data, path)
        else:
            resume = decode_snapshot(data, path, index)
        if resume != offset:
            raise CorruptFileError(path, 12, f"it says that it is of offset {resume}")

    def begin_at(self, offset: int) -> None:
        """Begin with an empty index at a record before which no half message is open."""
        self._go_on_at(offset)
        self.is_blank = False

    # ------------------------------------------------------------------ following

    def take(self, batch: DispatchBatch) -> None:
        """Take the records of a batch that are new."""
        end = batch.end_offset
        batch = batch.after(self.dispatched_to)
        while len(batch):
            last = int(batch.physical_offset[-1])
            count = len(batch)
            if last >= self._next_snapshot:
                count = int(batch.physical_offset.searchsorted(self._next_snapshot))
            if count:
                part = batch[:count]
                self.index.take(part)
                # Only after the part: if a later part fails, the log is dispatched from there.
                self.dispatched_to = max(self.dispatched_to, part.end_offset)
            batch = batch[count:]
            if len(batch):
                resume = int(batch.physical_offset[0])
                if self._context.writable:
                    self._fresh[resume] = encode_snapshot(self.index, resume)
                    if len(self._fresh) > _KEPT:  # no flush came; it would keep only these
                        del self._fresh[min(self._fresh)]
                self._go_on_at(resume)
        self.dispatched_to = max(self.dispatched_to, end)

    def follow(self, end: int, has_enough: Callable[[], bool] = lambda: False) -> None:
        """Read the log directly up to ``end``, as far as it was not dispatched yet.

        Args:
            end: a physical offset.
            has_enough: asked after each batch whether to end early.
        """
        first = max(self.dispatched_to, self._context.log.min_physical_offset)
        if first < end:
            for batch in self._context.log.scan(first, end):
                self.take(batch)
                if has_enough():
                    return
            self.dispatched_to = max(self.dispatched_to, end)

    def trim(self, min_physical_offset: int) -> None:
        """Forget half messages from the removed head of the log."""
        self.index.trim(min_physical_offset)
        for offset in [offset for offset in self._fresh if offset < min_physical_offset]:
            del self._fresh[offset]
        if self._context.writable:
            for offset, path in self._on_disk():
                if offset < min_physical_offset:
                    self._context.disk.remove(path)

    def wrong_snapshots(self) -> Iterator[CorruptFileError]:
        """Yield why snapshots are not used; the index itself stays as it is."""
        for offset, path in self._on_disk():
            try:
                self._read(offset, path)
            except CorruptFileError as error:
                yield error

    # ------------------------------------------------------------------ files

    def take_fresh(self) -> dict[int, bytes]:
        """Take the snapshots that are not on disk yet; the caller must `write` them."""
        fresh, self._fresh = self._fresh, {}
        return fresh

    def put_back(self, fresh: dict[int, bytes]) -> None:
        """Take back snapshots that could not be written."""
        self._fresh = {**fresh, **self._fresh}

    def write(self, fresh: dict[int, bytes]) -> None:
        """Write snapshots, and remove the oldest ones; may run at the same time as `take`."""
        if not fresh:
            return
        disk = self._context.disk
        disk.make_directory(self._directory)
        for offset in sorted(fresh)[-_KEPT:]:
            disk.replace(os.path.join(self._directory, file_name(offset)), fresh[offset])
        for _, path in self._on_disk()[:-_KEPT]:
            disk.remove(path)

    def _on_disk(self) -> list[tuple[int, str]]:
        """Return offset and path of each snapshot, ascending."""
        return [
            (int(entry.name), entry.path)
            for entry in self._context.disk.list(self._directory)
            if is_file_name(entry.name)
        ]
