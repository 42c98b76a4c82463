"""`UncountedCopies`: finds the messages of delay levels that were delivered since the last save.

The saved offsets follow the deliveries by one flush. A kill, or a reader beside a writer, sees
messages as waiting whose copies are in the log; the next writer finds these before it delivers
(`CopyMatcher`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.errors import CorruptFileError
from reput_schedule.delaylevels.copysurvey import CopySurvey, FoundCopies
from reput_schedule.delaylevels.layout import SCHEDULE_TOPIC
from reput_schedule.delaylevels.restoredmessage import fingerprint
from reput_schedule.recordboundary import are_of_log

if TYPE_CHECKING:
    from reput.plugin import StoreContext
    from reput.record import MessageView

LONGEST: Final = 256 << 20  # bytes of log that are read to answer a question
_READ_COUNT: Final = 1_024


class BehindMessage(NamedTuple):
    """A parked message that is not in its level's queue yet."""

    store_timestamp: int
    """ms"""
    physical_offset: int


class UncountedCopies:
    """The copies that a log has after a physical offset. The log is read at the first question."""

    def __init__(self, context: StoreContext, start: int | None) -> None:
        self._context, self._start = context, start
        self._copies: Mapping[int, FoundCopies] | None = None  # by level

    def places(
        self, level: int, first: int, last: int, behind: Mapping[int, BehindMessage]
    ) -> set[int]:
        """Return the queue offsets in ``[first, last]`` of messages that have a copy.

        Args:
            level: delay level.
            first: queue offset of the first message that may have one.
            last: that of the last message.
            behind: messages that are not in the queue yet, by queue offset.
        """
        if self._copies is None:
            self._copies = self._survey()
        found: set[int] = set()
        copies = self._copies.get(level)
        if copies is None:
            return found
        left = copies.counted(each_once=False)
        for place, view in self._parked(level, first, last, behind):
            if view.physical_offset > copies.last_offset:
                break
            try:
                key = fingerprint(view)
            except CorruptFileError:
                continue
            if left[key] > 0:
                left[key] -= 1
                found.add(place)
        return found

    def _survey(self) -> Mapping[int, FoundCopies]:
        log, start = self._context.log, self._start
        end = log.max_physical_offset
        if start is None or not start < end <= start + LONGEST or not are_of_log(log, end, start):
            return {}
        survey = CopySurvey(log, start, end)
        while not survey.advance(1):
            pass
        return survey.copies

    def _parked(
        self, level: int, first: int, last: int, behind: Mapping[int, BehindMessage]
    ) -> Iterator[tuple[int, MessageView]]:
        place, store = first, self._context.store
        while place <= last and place not in behind:
            result = store.read(SCHEDULE_TOPIC, level - 1, place, _READ_COUNT)
            yield from zip(result.queue_offsets, result.messages, strict=True)
            if result.next_queue_offset <= place:
                break
            place = result.next_queue_offset
        for later in sorted(each for each in behind if place <= each <= last):
            view = self._context.log.read_message(behind[later].physical_offset)
            if view is not None:
                yield later, view
