"""`Timer`: delivers messages at any time, by RocketMQ 5's timer wheel.

A timed message is parked in the topic ``rmq_sys_wheel_timer``. When it is dispatched, it gets a
record in the timer log and a place on the wheel; when it is due, it is put under its real topic.

One lock guards wheel, agenda and the end of the timer log. It is held briefly: reading chains and
messages, putting, and flushing happen without it.

Source: RocketMQ ``TimerMessageStore``.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import numpy as np

from reput.errors import CorruptFileError, NotAFileError, ServiceNotAvailableError
from reput.record.layout import BLANK_MAGIC, SIZE_AND_MAGIC
from reput_schedule.recordboundary import are_of_log
from reput_schedule.timerwheel.deliveredcopies import DeliveredCopies
from reput_schedule.timerwheel.deliveryprogress import DeliveryProgress
from reput_schedule.timerwheel.deliverysteps import Step
from reput_schedule.timerwheel.durablequeueoffset import DurableQueueOffset
from reput_schedule.timerwheel.files.placement import parked_rows
from reput_schedule.timerwheel.files.slotchain import slot_ticks
from reput_schedule.timerwheel.files.timercheckpoint import (
    CheckpointRecord,
    TimerCheckpoint,
)
from reput_schedule.timerwheel.files.timerfiles import TimerFiles
from reput_schedule.timerwheel.layout import (
    RECORD_SIZE,
    ROLL_WINDOW_SLOTS,
    TIMER_LOG_FILE_SIZE,
    TIMER_TOPIC,
)
from reput_schedule.timerwheel.notedtime import noted_time, wrong_entries
from reput_schedule.timerwheel.pendingmessages import LONGEST, LogTail
from reput_schedule.timerwheel.persistence import TimerPersistence
from reput_schedule.timerwheel.settledlook import settled
from reput_schedule.timerwheel.timerdelivery import TimerDelivery
from reput_schedule.timerwheel.timerparking import (
    TimerIllegalError,
    deliver_timestamp_of,
    park,
)
from reput_schedule.timerwheel.waitingcounts import WaitingCounts

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from reput.plugin import StoreContext
    from reput.record import DispatchBatch, Message, MessageView

    Integers = npt.NDArray[np.int64]

logger = logging.getLogger(__name__)

__all__ = ["TIMER_TOPIC", "Timer", "TimerIllegalError"]

_Answer = TypeVar("_Answer")

_SLICE: Final = 2_000  # messages delivered by one call
_LOOK_AGAIN_MS: Final = 100


class Timer:
    """The timer of one store.

    `dispatch` is called on the reput thread, `work` on the working thread, the rest on any thread.
    """

    def __init__(
        self,
        context: StoreContext,
        precision_ms: int,
        *,
        roll_window_slots: int = ROLL_WINDOW_SLOTS,
        log_file_size: int = TIMER_LOG_FILE_SIZE,
    ) -> None:
        """Make the timer; nothing is read.

        Args:
            context: the store.
            precision_ms: of delivery times, if the store has no timer files yet.
            roll_window_slots: a message that is due more slots ahead is parked again on the way.
            log_file_size: bytes of a timer-log file, if the store has none yet.
        """
        self._context = context
        self._roll_window_slots = roll_window_slots
        self._log_file_size = log_file_size
        self._lock = threading.RLock()
        self._saving = TimerPersistence(context, self._lock)
        self._counts = WaitingCounts(TimerDelivery(context), precision_ms)
        self._use(precision_ms)
        self._delivery = TimerDelivery(context)
        self._dispatched_to = 0
        self._opened_at = 0  # where the log ended at opening
        self._complete_to = 0  # of a reader: the store's progress when it was opened
        self._tail: LogTail | None = None  # of a reader
        self._is_caught_up = False  # whether the log as it was at opening is on the wheel
        self._refused = 0
        self._is_open = False

    def _use(self, precision: int) -> None:
        self._precision, distrust = precision, self._saving.distrust_broker_part
        self._files = TimerFiles(
            self._context, precision, self._roll_window_slots, self._log_file_size, distrust
        )
        self._agenda = DeliveryProgress(self._files, precision)
        if precision != self._counts.precision:
            self._counts = WaitingCounts(TimerDelivery(self._context), precision)

    # ------------------------------------------------------------------ opening

    def load(self) -> None:
        """Read what was saved. Write nothing."""
        try:
            self._saving.load()
        except NotAFileError:
            if self._context.writable:
                raise
            # `recover` notes it, and `pending` raises it

    def leave_deliveries(self) -> None:
        """Keep in the checkpoint how far a broker has delivered, as this store delivers nothing."""
        self._saving.keep_broker_read()

    def recover(self, max_physical_offset: int, progress: int) -> int:
        """Bring the files in line with the log.

        Two notes meet here, and a kill may have come between them. ``progress`` decides which
        records the timer log has: records above it are cut, and their messages dispatched again.
        The checkpoint decides what was delivered: its physical offsets hold whatever the timer log
        contains. Until the cut records are there again, nothing is delivered and no slot is passed.

        Returns:
            The physical offset from which on the log has to be dispatched.
        """
        if not self._context.writable:
            self._complete_to = progress
            try:
                self._look()
            except (CorruptFileError, NotAFileError) as error:
                # `pending` raises it; levels, and units of parked messages, need no timer.
                self._context.note_problem(f"what the timer holds is not shown: {error}")
            return progress
        self._files.load()
        check = self._saving.saved
        # After a failed flush `max_physical_offset` is where the files are valid, but the log goes
        # on above it and holds later deliveries.
        self._opened_at = max(max_physical_offset, self._context.log.max_physical_offset)
        limit = min(max_physical_offset, progress)
        if check is None or not self._is_believable(check, self._opened_at, progress):
            needed = self._recreate_files(self._opened_at)
        else:
            needed = min(self._take_up(check, limit), check.copies_to)
        self._dispatched_to = max(min(needed, progress), self._context.log.min_physical_offset)
        self._look_whether_caught_up()
        # Last: if this call fails, a closing must not save what nothing was read of.
        self._is_open = True
        return needed

    def _take_up(self, check: CheckpointRecord, limit: int) -> int:
        """Go on from ``check``; return the physical offset from which on records are missing."""
        is_whole = self._files.recover(check, limit)
        counted = DurableQueueOffset(check.queue_offset)
        self._saving.start(check.reached, check.copies_to, counted)
        self._agenda.start(check.reached)
        self._delivery.copies = [DeliveredCopies(check.copies_to, self._opened_at)]
        self._delivery.copies_end = check.copies_to
        if self._files.is_rebuilt or not (check.is_closed and self._saving.metrics.version):
            self._rebuild_metrics()  # the file of counts is missing, or of another moment
        return limit if is_whole else self._files.covered_to

    def _is_believable(self, check: CheckpointRecord, end: int, progress: int) -> bool:
        """Return whether ``check`` still tells what was delivered.

        False with another precision, as a slot's time then means something else; also if the log is
        shorter than its flushed part was, or is another log.
        """
        if check.precision_ms != self._precision:
            logger.info(
                "timer wheel is rebuilt precision_ms=%d before=%d",
                self._precision,
                check.precision_ms,
            )
            return False
        log, places = self._context.log, (check.copies_to, check.reached.examined_to)
        if progress == 0 < check.copies_to:
            logger.warning("timer begins again: nothing of the log is known to be dispatched")
            return False
        if not are_of_log(log, end, *places):
            logger.warning("timer begins again: its checkpoint is of another log")
            return False
        return True

    def _recreate_files(self, end: int) -> int:
        """Find everything again in the commit log: what waits and what was delivered."""
        self._files.recreate()
        now = self._context.clock() // self._precision * self._precision
        reached = TimerCheckpoint(read_timestamp=now, examined_to=0)
        self._agenda.start(reached)
        self._saving.start(reached, 0, DurableQueueOffset())
        self._delivery.copies = [DeliveredCopies(0, end)]
        self._saving.metrics.clear()
        return 0

    def _rebuild_metrics(self) -> None:
        log = self._files.log
        waiting = (self._waiting_of(records) for _, records in log.chunks(log.first, log.end))
        self._saving.metrics.rebuild(waiting, self._context.log, self._context.clock())

    def _waiting_of(self, records: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Return those records whose messages are not delivered."""
        times = slot_ticks(records, self._precision) * self._precision
        return records[~self._agenda.reached.delivered(times, records["physical_offset"])]

    def _look(self) -> None:
        """Read what another process has saved, to show it."""
        self._files.close()
        self._saving.load()
        check = self._saving.saved
        if check is None or check.is_superseded:
            self._look_at_broker()
            return
        self._use(check.precision_ms)
        if not self._files.look(check):
            self._files.look_at_log(check)  # its writer was between two writes, or was killed
        self._agenda.start(check.reached)

    def _look_at_broker(self) -> None:
        """Read wheel and timer log of a broker, if they agree; else the log tells what waits."""
        self._use(self._precision)
        check = self._saving.stated(self._precision)
        if check is None:
            return
        if not self._files.look(check) or self._files.covered_to == 0:
            self._use(self._precision)
            return
        self._agenda.start(attrs.evolve(check.reached, examined_to=self._files.covered_to))

    # ------------------------------------------------------------------ putting

    def transform(self, message: Message, now: int) -> Message:
        """Return what is stored for a message that is put: the message itself, or a parked one.

        Raises:
            TimerIllegalError: the time that it asks for is invalid.
            PropertiesSizeError: no room for the properties of a timer.
        """
        asked = deliver_timestamp_of(message, now)
        if asked is None:
            return message
        return park(message, asked, now, self._precision)

    # ------------------------------------------------------------------ dispatching

    def dispatch(self, batch: DispatchBatch) -> None:
        """Put the parked messages of ``batch`` on the wheel."""
        was_caught_up = self._is_caught_up
        for copies in self._delivery.copies:
            copies.look_at(batch)  # does nothing once its part of the log was seen
        changes = self._append(batch)
        before = self._dispatched_to
        self._dispatched_to = max(before, batch.end_offset)
        self._look_whether_caught_up()
        is_news = was_caught_up != self._is_caught_up or before < self._delivery.rolled_end
        if changes or is_news:
            self._context.wake()

    def _append(self, batch: DispatchBatch) -> bool:
        parked = parked_rows(batch, self._files.covered_to)
        if parked is None:
            return False
        for physical_offset in parked.refused:
            self._refused += 1
            logger.warning(
                "message of the timer's topic has no time or no topic, and is ignored "
                "physical_offset=%d",
                physical_offset,
            )
        with self._lock:
            self._saving.counted.add(parked.queue_offset + 1, batch.end_offset)
            if len(parked) == 0:
                return False
            records = self._files.append(parked)
            self._saving.metrics.name(parked.topics)
            # If the timer log was lost, delivered messages are dispatched again: they do not wait.
            waiting = self._waiting_of(records)
            self._saving.metrics.add(waiting, 1, self._context.clock())
            return self._agenda.take(records)

    def _look_whether_caught_up(self) -> None:
        """Notice when everything that was in the log at opening is on the wheel.

        Until then nothing is delivered: a copy of a message, or its cancellation, may stand farther
        on in the log, and a slot that is passed must have all its records.
        """
        if self._is_caught_up:
            return
        place, end = self._dispatched_to, self._opened_at
        if place < end:
            # A kill can leave the log's end in the blank of a file, which is never dispatched.
            head = self._context.log.read(place, SIZE_AND_MAGIC.size)
            if len(head) == SIZE_AND_MAGIC.size:
                size, magic = SIZE_AND_MAGIC.unpack(head)
                place += size if magic == BLANK_MAGIC else 0
        if place >= end:
            with self._lock:  # keep only the parts of the log in which a message was delivered
                self._delivery.copies = [each for each in self._delivery.copies if each]
                self._is_caught_up = True

    # ------------------------------------------------------------------ working

    def work(self, now: int) -> int | None:
        """Deliver one slice of what is due.

        Returns:
            When to call again, ms; None when nothing waits.

        Raises:
            CorruptFileError: the timer log contradicts itself; the next opening repairs it.
        """
        try:
            return self._work(now)
        except CorruptFileError:
            with self._lock:
                self._saving.distrust_wheel()
            raise

    def _work(self, now: int) -> int | None:
        if not self._is_caught_up:
            self._dispatched_to = max(self._dispatched_to, self._passed_to())
            self._look_whether_caught_up()
        if not self._is_caught_up:
            return now + _LOOK_AGAIN_MS  # a dispatch wakes it, skipped damage does not
        with self._lock:
            if not self._agenda.set_clock(now):
                return self._agenda.reached.read_timestamp
        left = _SLICE
        while left > 0:
            if self._agenda.step is None and self._dispatched_to < self._delivery.rolled_end:
                return None  # a rolled message or cancellation may belong into the next slot
            step = self._agenda.step or self._begin(now)
            if step is None:
                with self._lock:
                    self._forget_copies()
                    return now if self._agenda.has_late else self._agenda.due()
            dealt_with = step.run(self._delivery, left, now)
            left -= max(len(dealt_with), 1)
            with self._lock:
                self._saving.metrics.add(dealt_with, -1, now)
                self._agenda.settle(step, self._delivery.copies_end)
                if step.is_done:
                    self._agenda.step = None
        return now

    def _passed_to(self) -> int:
        """Return how far the log was dispatched, or skipped as damage and dead letters."""
        try:
            return self._context.store.dispatched_to
        except ServiceNotAvailableError:
            return 0  # the store is not built yet

    def _begin(self, now: int) -> Step | None:
        agenda = self._agenda
        with self._lock:
            found = agenda.next_step(now)
            if not isinstance(found, tuple):
                agenda.step = found
                return found
        step = agenda.read_slot(*found)
        with self._lock:
            agenda.step = step
        return step

    def _forget_copies(self) -> None:
        """Forget copies found in the log once all messages they can be of are counted."""
        read = self._agenda.reached.read_timestamp
        copies = self._delivery.copies
        if copies and not self._agenda.has_late and all(each.newest < read for each in copies):
            copies.clear()

    # ------------------------------------------------------------------ flushing

    def flush(self) -> None:
        """Flush all files of the timer; see `TimerPersistence`.

        Raises:
            OSError: a write failed, in this call or an earlier one; the state of the files is
                unknown then, unless the disk was full: the next call writes the same again.
        """
        if self._is_open:
            self._saving.flush(self._agenda, self._delivery)

    # ------------------------------------------------------------------ maintaining

    def trim(self, min_physical_offset: int) -> None:
        """Remove timer-log files whose messages the log has lost."""
        with self._lock:
            if self._context.writable:
                self._files.log.trim(min_physical_offset)

    def hold(self) -> int | None:
        """Return the physical offset of the oldest waiting message; None if no message waits."""
        with self._lock:
            found = self._agenda.hold()
            if self._is_open and not self._is_caught_up:
                found = self._dispatched_to if found is None else min(found, self._dispatched_to)
            return found

    def pending(self) -> tuple[Integers, Integers]:
        """Return delivery times, ms, ascending, and message counts; ``(n,)`` int64 each.

        A message beyond the wheel counts at the time of its next roll.
        """
        if not self._context.writable:
            with self._lock:
                return self._seen(self._pending_seen)
        # Without the lock, as it may have to read some of the log; messages dispatched meanwhile
        # may be missed.
        known = self._is_caught_up and not self._delivery.copies
        start = self._dispatched_to if known else min(self._dispatched_to, self._saving.copies_to)
        tail = LogTail(self._context.log, self._precision, self._roll_window_slots, start)
        tail.follow()
        with self._lock:
            covered_to = max(self._dispatched_to, self._files.covered_to)
            # Messages delivered since this opening left the wheel.
            copies = range(0) if known else range(self._saving.copies_to, self._opened_at)
            return self._waiting(tail, covered_to, copies)

    def noted_time(self, message: MessageView) -> int | None:
        """Return the time of the slot that leads to a parked message, ms; None without one."""

        def find() -> int | None:
            return noted_time(self._files, message, self._precision, self._roll_window_slots)

        with self._lock:
            try:
                return find() if self._context.writable else self._seen(find)
            except (CorruptFileError, OSError):
                return None

    def wrong_entries(self) -> list[CorruptFileError]:
        """Return what is wrong with files and chains; for a store that was closed."""
        with self._lock:
            if not self._context.writable:
                self._look()
            ticks = np.unique(self._files.wheel.pending()[0])
        log_begin = self._context.log.min_physical_offset
        check = self._saving.stated(self._precision)
        return wrong_entries(self._files, check, ticks, self._precision, log_begin)

    def _seen(self, ask: Callable[[], _Answer]) -> _Answer:
        """Look at the files of another process, and return ``ask()``, which reads more of them."""
        return settled(self._look, ask, lambda: (self._files, self._saving.broker_data))

    def _pending_seen(self) -> tuple[Integers, Integers]:
        """Return `pending` of a store that another process writes, or wrote until it was killed."""
        saved, covered_to = self._saving.saved, self._files.covered_to
        # A wheel of a broker has what the timer log covers, whatever the store has dispatched.
        start = copies_to = covered_to
        if saved is not None:
            copies_to = saved.copies_to
            start = min(copies_to, self._complete_to)
            if not self._files.is_whole and self._complete_to - covered_to <= LONGEST:
                start = min(start, covered_to)  # the rest is dispatched again
        if self._tail is None or start < self._tail.start:  # kept, so that nothing is read twice
            self._tail = LogTail(self._context.log, self._precision, self._roll_window_slots, start)
        self._tail.follow()
        return self._waiting(self._tail, covered_to, range(copies_to, self._tail.seen_to))

    def _waiting(self, tail: LogTail, covered_to: int, copies: range) -> tuple[Integers, Integers]:
        coming = tail.coming(covered_to, self._agenda.reached)
        ticks, counts = self._counts.of(self._agenda, coming)
        tail.take_copies(ticks, counts, copies)
        wanted = counts > 0
        return (ticks[wanted] + 1) * self._precision, counts[wanted]

    def report(self) -> dict[str, object]:
        """Return facts for people, JSON-like."""
        times, counts = self.pending()
        with self._lock:
            delivery, reached = self._delivery, self._agenda.reached
            return {
                "precision_ms": self._precision,
                "pending": int(counts.sum()),
                "next_timestamp": int(times[0]) if len(times) else None,
                "read_timestamp": reached.read_timestamp,
                "by_topic": self._saving.metrics.by_topic(),
                "delivered": delivery.delivered - delivery.rolled,
                "rolled": delivery.rolled,
                "cancelled": delivery.cancelled,
                "missing": delivery.missing,
                "dropped": delivery.dropped,
                "refused": self._refused,
                "log_size": (self._files.log.end - self._files.log.first) * RECORD_SIZE,
            }

    def close(self) -> None:
        """Save that everything is in order, if so, and close the files."""
        try:
            if self._is_open and not self._files.log.unflushed.has_failed:
                self._saving.flush(self._agenda, self._delivery, is_closing=True)
        finally:
            self._is_open = False
            self._files.close()
