"""`CopyMatcher`: compares parked messages with their delivered copies, and moves the levels on.

A level delivers in its order, but a power cut keeps pages of the log in any order: the copy of one
message can be lost and the copy of a later message kept, and the log goes on after the damaged
range. So a copy is looked for of each parked message, not only the last copy. Messages without a
copy are delivered again; copies above them are remembered (`LevelQueue.delivered_ahead`).

This works also when the offsets are lost: a copy stands after its parked message in the log, and
is there as long as the parked message is, whichever process put it. A parked message that the log
does not prove to be delivered is delivered.

Messages that are equal in everything, birth time and key included, are counted where the number of
their copies can be known, and else taken for one.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError
from reput_schedule.delaylevels.layout import SCHEDULE_TOPIC
from reput_schedule.delaylevels.restoredmessage import fingerprint, restored

if TYPE_CHECKING:
    from reput.plugin import StoreContext
    from reput.record import MessageView
    from reput_schedule.delaylevels.copysurvey import FoundCopies
    from reput_schedule.delaylevels.levelqueue import LevelQueue

logger = logging.getLogger(__name__)

_READ_COUNT: Final = 1_024
_READ_SIZE: Final = 4 << 20
_READS: Final = 8  # by one call
_LOOK_AGAIN_MS: Final = 100


@attrs.define(eq=False, repr=False)
class _Walk:
    """The state of one level during the comparison."""

    left: Counter[bytes]
    last_offset: int
    """Physical offset of the last copy: messages parked after it were not delivered."""
    place: int | None = None
    following: int = -1
    """Queue offset after the last message that has a copy."""
    is_full: bool = False
    """Whether copies older than those in `left` were left out."""
    missing: int | None = None
    """Queue offset of the first message without a copy."""
    ahead: set[int] = attrs.field(factory=set)
    """Queue offsets of messages above `missing` that have a copy."""

    def take(self, key: bytes, place: int) -> bool:
        """Take the copy of the message at queue offset ``place``, if one is left.

        Returns:
            Whether there was one. No other message can have the same copy.
        """
        if self.left.get(key, 0) <= 0:
            return False
        self.left[key] -= 1
        if not self.left[key]:
            del self.left[key]
        self.following = place + 1
        if self.missing is not None:
            self.ahead.add(place)
        return True

    def miss(self, view: MessageView, place: int) -> None:
        """Note a message that has no copy."""
        if self.missing is not None:
            return
        if self.is_full and self.following < 0:
            return  # its copy may be among the rows that were left out
        if restored(view) is not None:
            self.missing = place


class CopyMatcher:
    """Finds the first message of each level that was not delivered.

    Attributes:
        pause_ms: how long to wait before the next slice.
    """

    def __init__(
        self, context: StoreContext, copies: Mapping[int, FoundCopies], *, each_once: bool
    ) -> None:
        self._context = context
        self.pause_ms = 0
        self._walks = {
            level: _Walk(
                each.counted(each_once=each_once),
                each.last_offset,
                is_full=each.is_full,
            )
            for level, each in copies.items()
        }

    def advance(
        self, queues: Mapping[int, LevelQueue], ends: Mapping[int, int] | None
    ) -> bool | None:
        """Compare the next slice.

        Returns:
            True when every level is known, False when another slice is needed. None when a queue
            ends too early: it is being rebuilt, or is complete; call again with ``ends``, the
            queue offsets that the queues will reach.
        """
        self.pause_ms = 0
        for _ in range(_READS):
            if not self._walks:
                return True
            level = min(self._walks)
            queue = queues.get(level)
            if queue is None or self._is_done(level, queue):
                self._finish(level, queue)
                continue
            is_at_end = self._read_on(level, queue)
            if is_at_end:
                if ends is None:
                    return None
                place = self._walks[level].place
                if place is not None and place >= ends.get(level, 0):
                    self._finish(level, queue)
                else:
                    self.pause_ms = _LOOK_AGAIN_MS  # the queue is still being rebuilt
                    return False
        return not self._walks

    def _is_done(self, level: int, queue: LevelQueue) -> bool:
        walk = self._walks[level]
        if walk.place is None:
            walk.place = queue.offset
        return not walk.left

    def _finish(self, level: int, queue: LevelQueue | None) -> None:
        walk = self._walks.pop(level)
        if queue is not None and walk.following > queue.offset:
            logger.info(
                "delayed messages were delivered already level=%d from=%d to=%d",
                level,
                queue.offset,
                walk.following,
            )
            if walk.missing is not None and walk.ahead:
                logger.warning(
                    "copies of delivered messages are lost, these messages are delivered again "
                    "level=%d from=%d",
                    level,
                    walk.missing,
                )
                queue.delivered_ahead |= walk.ahead
                queue.move_to(walk.missing)
            else:
                queue.move_to(walk.following)
            queue.forget()

    def _read_on(self, level: int, queue: LevelQueue) -> bool:
        """Compare the next messages of a level, and return whether its queue ends there."""
        walk = self._walks[level]
        assert walk.place is not None
        result = self._context.store.read(
            SCHEDULE_TOPIC, level - 1, walk.place, _READ_COUNT, _READ_SIZE
        )
        for view, place in zip(result.messages, result.queue_offsets, strict=True):
            if place in queue.delivered_ahead:
                continue
            if view.physical_offset > walk.last_offset:
                walk.left.clear()
                return False
            try:
                key = fingerprint(view)
            except CorruptFileError:
                continue
            if not walk.take(key, place):
                walk.miss(view, place)
            elif not walk.left:
                return False
        if walk.place >= result.max_queue_offset or result.next_queue_offset <= walk.place:
            return True
        walk.place = result.next_queue_offset
        return False
