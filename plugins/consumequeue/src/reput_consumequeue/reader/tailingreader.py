"""Read queues while another process writes, which may be cutting or rebuilding them.

A writer that recovers from a crash cuts units and writes them again; a backfill from the start cuts
all of them; a rebuild replaces the directories. A reader in another process meanwhile, or after one
of these was killed, gets what it saw: messages, or the answer that nothing exists *yet*. The answer
that a message is lost, or that nothing exists up to some queue offset, comes only from files that
did not change during the read. A queue offset above the queue's end is corrected only if the
plugin's recorded progress says that the queue is complete.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from reput.errors import CorruptFileError
from reput.plugin import ReadColumns, ReadResult
from reput.status import ReadStatus
from reput_consumequeue.layout import valid_count
from reput_consumequeue.queue.recovery import correct_min_offset, extend, recover, truncate

if TYPE_CHECKING:
    from reput.plugin import StoreContext
    from reput_consumequeue.queue.consumequeue import ConsumeQueue

_Found = ReadResult | ReadColumns
_Answer = TypeVar("_Answer", bound=_Found)

_TRIES: Final = 8
_UNFINISHED: Final = (ReadStatus.NO_MESSAGE_IN_QUEUE, ReadStatus.OFFSET_OVERFLOW_BADLY)
_LOST: Final = (ReadStatus.MESSAGE_WAS_REMOVING, ReadStatus.OFFSET_FOUND_NULL)


@attrs.define(eq=False, repr=False)
class TailingReader:
    """Reads the queues of a store that another process may be writing. Thread-safe."""

    context: StoreContext
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    """Held while the extent of a queue is determined."""

    def read(
        self, queue: ConsumeQueue, queue_offset: int, ask: Callable[[], _Answer]
    ) -> _Answer | ReadResult:
        """Answer a read; ``ask`` answers it from the known state of the queue."""
        answer = ask()
        if not _is_doubtful(answer):
            return answer  # messages are true, also while a process writes
        recorded, before = self.context.recorded(), None
        for _ in range(_TRIES):
            if not _is_doubtful(answer) or _facts(answer) == before:
                break
            before = _facts(answer)
            try:
                self._look(queue, queue_offset, answer)
            except CorruptFileError:
                break  # damage, and not caused by a writer: read what can be read
            answer = ask()
        else:
            return _nothing_yet(queue_offset, answer)  # it changes all the time
        if answer.status is ReadStatus.OFFSET_FOUND_NULL:
            return _nothing_yet(queue_offset, answer)
        if answer.status in _UNFINISHED and not self._is_complete(recorded):
            return _nothing_yet(queue_offset, answer)
        return answer

    def read_none(self, queue_offset: int, find: Callable[[], object]) -> ReadResult:
        """Answer a read of an unknown queue; ``find`` looks for the queue again."""
        recorded = self.context.recorded()
        empty = ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        if find() is not None or not self._is_complete(recorded):
            return _nothing_yet(queue_offset, empty)
        return empty

    def _look(self, queue: ConsumeQueue, queue_offset: int, answer: _Found) -> None:
        """Read the files again, as far as needed to confirm what ``answer`` did not find."""
        if queue.max_offset == 0 or self._is_cut(queue, queue_offset, answer):
            self.look_again(queue)
        else:
            self.refresh(queue)

    def _is_cut(self, queue: ConsumeQueue, queue_offset: int, answer: _Found) -> bool:
        """Return whether units that the answer is based on were cut, and not damaged.

        Only units above the recorded progress are ever cut. So nothing was cut before a unit that
        lies below the progress.
        """
        if queue.is_batch or answer.status is ReadStatus.OFFSET_FOUND_NULL:
            return True
        units = queue.files.read(queue_offset, queue.files.per_file)
        gap = valid_count(units)
        if gap == len(units) or queue_offset + gap >= answer.next_queue_offset:
            return False
        recorded = self.context.recorded()
        behind = units[gap:]
        behind = behind[(behind["size"] > 0) & (behind["physical_offset"] >= 0)]
        if recorded is None or len(behind) == 0:
            return recorded is not None
        return int(behind["physical_offset"][0]) >= recorded.physical_offset

    def _is_complete(self, recorded: object) -> bool:
        """Return whether progress is still as ``recorded``, and covers the whole log."""
        now = self.context.recorded()
        if now != recorded:
            return False
        return now is None or now.physical_offset >= self.context.log.max_physical_offset

    # ------------------------------------------------------------------ extents

    def refresh(self, queue: ConsumeQueue) -> None:
        """Notice what another process did to the queue."""
        # The log first: units read later may point to records that were not in it yet.
        max_physical_offset = self.context.log.max_physical_offset
        with self.lock:
            if not queue.files.bases:
                _load(queue)
            extend(queue, max_physical_offset)
            correct_min_offset(queue, self.context.log.min_physical_offset)

    def look_again(self, queue: ConsumeQueue) -> None:
        """Determine the extent of the queue without using the known one."""
        max_physical_offset = self.context.log.max_physical_offset
        with self.lock:
            _load(queue)
            recover(queue, clean=False)
            truncate(queue, max_physical_offset)
            correct_min_offset(queue, self.context.log.min_physical_offset)


def _load(queue: ConsumeQueue) -> None:
    """Read the directory; read it again if files came and went meanwhile."""
    for left in reversed(range(_TRIES)):
        try:
            queue.files.load()
            return
        except CorruptFileError:
            if not left:
                raise


def _is_doubtful(answer: _Found) -> bool:
    return bool(answer.holes) or answer.status in _LOST or answer.status in _UNFINISHED


def _facts(answer: _Found) -> tuple[object, ...]:
    return answer.status, answer.next_queue_offset, list(answer.queue_offsets), answer.holes


def _nothing_yet(queue_offset: int, answer: _Found) -> ReadResult:
    """Return the answer of a read at a queue's end, so that the caller asks again for the place."""
    return ReadResult(
        ReadStatus.OFFSET_OVERFLOW_ONE,
        queue_offset,
        answer.min_queue_offset,
        answer.max_queue_offset,
    )
