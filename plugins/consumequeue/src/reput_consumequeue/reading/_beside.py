"""Reads queues beside a writer, which may be cutting them, or making them again.

A writer that mends what a crash has left cuts units and writes them again; a backfill from the
start cuts all of them; a rebuild puts other directories in the place of the old ones. Who reads
meanwhile, or finds what a killed one of these has left, is told of what it has seen: messages, and
otherwise that there is nothing *yet*. That a message is lost, or that there is nothing up to some
place, is said only of files that did not change while they were looked at, and a place behind the
queue's end is corrected only where the plugin's recorded progress says that the queue is complete.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError
from reput.plugin import ReadResult
from reput.status import ReadStatus
from reput_consumequeue.layout import valid_count
from reput_consumequeue.queue._recover import correct_min_offset, extend, recover, truncate

if TYPE_CHECKING:
    from reput.plugin import StoreContext
    from reput_consumequeue.queue._queue import ConsumeQueue

__all__ = ["Follower"]

_TRIES: Final = 8
_UNFINISHED: Final = (ReadStatus.NO_MESSAGE_IN_QUEUE, ReadStatus.OFFSET_OVERFLOW_BADLY)
_LOST: Final = (ReadStatus.MESSAGE_WAS_REMOVING, ReadStatus.OFFSET_FOUND_NULL)


@attrs.define(eq=False)
class Follower:
    """Looks at the queues of a store that another process may be writing. Thread-safe."""

    context: StoreContext
    lock: threading.Lock = attrs.field(factory=threading.Lock)
    """Held while the extent of a queue is looked for."""

    def read(
        self, queue: ConsumeQueue, queue_offset: int, ask: Callable[[], ReadResult]
    ) -> ReadResult:
        """Answer a read; ``ask`` answers it from what is known of the queue."""
        answer = ask()
        if not _is_doubtful(answer):
            return answer  # messages are, whoever is writing
        recorded, before = self.context.recorded(), None
        for _ in range(_TRIES):
            if not _is_doubtful(answer) or _facts(answer) == before:
                break
            before = _facts(answer)
            try:
                self._look(queue, queue_offset, answer)
            except CorruptFileError:
                break  # damage, and no writer's work: what can be read is read
            answer = ask()
        else:
            return _nothing_yet(queue_offset, answer)  # it is being changed all the time
        if answer.status is ReadStatus.OFFSET_FOUND_NULL:
            return _nothing_yet(queue_offset, answer)
        if answer.status in _UNFINISHED and not self._is_complete(recorded):
            return _nothing_yet(queue_offset, answer)
        return answer

    def read_none(self, queue_offset: int, find: Callable[[], object]) -> ReadResult:
        """Answer a read of a queue that was not found; ``find`` looks for it once more."""
        recorded = self.context.recorded()
        empty = ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        if find() is not None or not self._is_complete(recorded):
            return _nothing_yet(queue_offset, empty)
        return empty

    def _look(self, queue: ConsumeQueue, queue_offset: int, answer: ReadResult) -> None:
        """Look at the files once more, as far as what was not found in them asks for it."""
        if queue.max_offset == 0 or self._is_cut(queue, queue_offset, answer):
            self.look_again(queue)
        else:
            self.refresh(queue)

    def _is_cut(self, queue: ConsumeQueue, queue_offset: int, answer: ReadResult) -> bool:
        """Whether units that the answer looked at are gone, and are no damage.

        Only units behind the recorded progress are ever cut. So in front of one that lies below it
        nothing was.
        """
        if answer.status is ReadStatus.OFFSET_FOUND_NULL:
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
        """Whether queues have had all of the log since progress was read the last time."""
        now = self.context.recorded()
        if now != recorded:
            return False
        return now is None or now.physical_offset >= self.context.log.max_physical_offset

    # ------------------------------------------------------------------ extents

    def refresh(self, queue: ConsumeQueue) -> None:
        """Notice what another process did to the queue."""
        # The log first: what a unit points to that is seen behind it may not be in the log yet.
        max_physical_offset = self.context.log.max_physical_offset
        with self.lock:
            if not queue.files.bases:
                _load(queue)
            extend(queue, max_physical_offset)
            correct_min_offset(queue, self.context.log.min_physical_offset)

    def look_again(self, queue: ConsumeQueue) -> None:
        """Find the extent of the queue as if nothing had been known of it."""
        max_physical_offset = self.context.log.max_physical_offset
        with self.lock:
            _load(queue)
            recover(queue, clean=False)
            truncate(queue, max_physical_offset)
            correct_min_offset(queue, self.context.log.min_physical_offset)


def _load(queue: ConsumeQueue) -> None:
    """Read the directory; once more where files came and went while it was read."""
    for left in reversed(range(_TRIES)):
        try:
            queue.files.load()
            return
        except CorruptFileError:
            if not left:
                raise


def _is_doubtful(answer: ReadResult) -> bool:
    return bool(answer.holes) or answer.status in _LOST or answer.status in _UNFINISHED


def _facts(answer: ReadResult) -> tuple[object, ...]:
    return answer.status, answer.next_queue_offset, answer.queue_offsets, answer.holes


def _nothing_yet(queue_offset: int, answer: ReadResult) -> ReadResult:
    """What a read says at a queue's end: the same place is to be asked for again."""
    return ReadResult(
        ReadStatus.OFFSET_OVERFLOW_ONE,
        queue_offset,
        answer.min_queue_offset,
        answer.max_queue_offset,
    )
