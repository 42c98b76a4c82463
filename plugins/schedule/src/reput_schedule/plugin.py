"""The plugin ``schedule``: its hooks, each of which serves both engines."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

import reput
from reput.errors import ReadOnlyStoreError
from reput.plugin import PutInterest
from reput_schedule import deliveryownership
from reput_schedule.config import DelayLevels, ScheduleConfig
from reput_schedule.delaylevels.delaystate import DelayState
from reput_schedule.delaylevels.layout import PROPERTY_LEVEL
from reput_schedule.delaylevels.parkedmessages import (
    TIMER_REQUESTS,
    deliver_times,
    level_of,
    may_be_delayed,
    park_at_level,
)
from reput_schedule.timerwheel.layout import (
    CHECK_FILE,
    CHECK_FILE_SIZE,
    CONFIG_DIRECTORY,
    METRICS_FILE,
    ROLL_WINDOW_SLOTS,
    TIMER_LOG_FILE_SIZE,
)
from reput_schedule.timerwheel.timer import Timer
from reput_schedule.timerwheel.timerparking import deliver_timestamp_of

if TYPE_CHECKING:
    import datetime as dt

    import numpy as np
    import numpy.typing as npt

    from reput.errors import CorruptFileError
    from reput.files import Disk
    from reput.log import Receipt
    from reput.plugin import StoreContext
    from reput.record import DispatchBatch, Message, MessageView
    from reput_schedule.api.scheduledmessages import Scheduled
    from reput_schedule.delaylevels.delivery import LevelDelivery

logger = logging.getLogger(__name__)

__all__ = ["ScheduleConfig", "SchedulePlugin"]

_REQUEST_START: Final = b"TIMER_DEL"  # of TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS


@attrs.define(eq=False)
class SchedulePlugin(reput.Plugin):
    """Delivers messages later: by RocketMQ's delay levels, and at any time by its timer wheel.

    A new store has this plugin by default: it costs next to nothing where no message is delayed,
    and without it delays are stored but not followed, and the queues of parked messages derived
    from a RocketMQ log state tags where RocketMQ looks for deliver times.
    """

    name: ClassVar[str] = "schedule"
    config_type: ClassVar[type] = ScheduleConfig
    roll_window_slots: ClassVar[int] = ROLL_WINDOW_SLOTS
    timer_log_file_size: ClassVar[int] = TIMER_LOG_FILE_SIZE
    requires: ClassVar[frozenset[str]] = frozenset({"consumequeue"})
    # A half message must be parked by its transaction before its delay is looked at.
    runs_after: ClassVar[frozenset[str]] = frozenset({"transaction"})

    config: ScheduleConfig = attrs.field(factory=ScheduleConfig)
    levels: DelayLevels = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: DelayLevels.parse(self.config.delay_levels), True),
    )
    delivers: bool = attrs.field(init=False, default=False)
    """Whether due messages are delivered here; see the option ``deliver``."""
    delivery: LevelDelivery | None = attrs.field(init=False, default=None)
    timer: Timer | None = attrs.field(init=False, default=None)
    _has_warned: bool = attrs.field(init=False, default=False)
    """Whether a level above the last one was reported."""
    _state: DelayState | None = attrs.field(init=False, default=None)
    _context: StoreContext | None = attrs.field(init=False, default=None)
    _progress: int = attrs.field(init=False, default=0)
    """The store's progress at opening."""

    # ------------------------------------------------------------------ opening

    @reput.hookimpl
    def reput_open(self, context: StoreContext) -> None:
        """Read what was saved: the offsets of the levels, and the timer's checkpoint."""
        self._context = context
        self.delivers = False
        self._state = DelayState(context)
        self._state.load()
        self.delivery = None
        self.timer = Timer(
            context,
            self.config.precision_ms,
            roll_window_slots=self.roll_window_slots,
            log_file_size=self.timer_log_file_size,
        )
        self.timer.load()

    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        """Decide whether to deliver, and bring the timer's files in line with the log."""
        assert self._context is not None
        assert self._state is not None
        assert self.timer is not None
        self._progress = progress
        if self._context.writable:
            from reput_schedule.delaylevels.delivery import LevelDelivery

            config, flush = self._context.directory(CONFIG_DIRECTORY), not self._context.clean
            self._context.disk.finish_replacing(config, CHECK_FILE, METRICS_FILE, flush=flush)
            self._state.document.finish_replacing(flush=False)  # the directory was flushed
            # A replica gets the deliveries of its master, and nothing here says who makes them.
            self.delivers = not self._context.replica and deliveryownership.take(
                self._context, self._state, self.config.deliver
            )
            if not (self.delivers or self._context.replica):
                self.timer.leave_deliveries()
            self.delivery = LevelDelivery(self._context, self.levels, self._state, self.delivers)
            # After a failed flush the files count up to `max_physical_offset`, but the log goes on
            # above it and holds what was delivered since.
            end = max(max_physical_offset, self._context.log.max_physical_offset)
            self.delivery.recover(end)
        return min(progress, self.timer.recover(max_physical_offset, progress))

    @reput.hookimpl
    def reput_ready(self, queue_offsets: Mapping[tuple[str, int], int]) -> None:
        """Lower offsets of levels that a power cut has left beyond the log.

        In a replica this is called when it is promoted: the next opening delivers.
        """
        assert self.delivery is not None
        assert self._context is not None
        assert self._state is not None
        if self._context.replica:
            deliveryownership.take_over(self._context, self._state, queue_offsets)
        else:
            self.delivery.lower_beyond(queue_offsets)

    @property
    def _is_replica(self) -> bool:
        return self._context is not None and self._context.replica

    @property
    def is_ours(self) -> bool:
        """Whether reput made all deliveries of this store, as far as is known."""
        if self._context is not None and self._context.writable:
            return self.delivers
        return self._state is not None and self._state.is_ours

    # ------------------------------------------------------------------ putting

    @property
    def put_interest(self) -> PutInterest:
        """Messages that ask to be delivered later."""
        return PutInterest(frozenset({PROPERTY_LEVEL, *TIMER_REQUESTS}))

    @reput.hookimpl
    def reput_put(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Park messages that are to be delivered later; see `reput.plugin.hookspecs.reput_put`."""
        changed: list[Message] | None = None
        delayed = []
        for row, message in enumerate(messages):
            if not message.properties:
                continue
            parked = self._parked(message)
            if parked is not message:
                if changed is None:
                    changed = list(messages)
                changed[row] = parked
                delayed.append(message)
        if delayed and self._context is not None:
            # When they are due, it is too late to refuse one.
            self._context.store.check_put(delayed)
        return changed

    def _parked(self, message: Message) -> Message:
        level = level_of(message)
        if level <= 0 and not _asks_for_a_time(message):
            return message
        if not may_be_delayed(message):
            return message
        if level > 0:
            if level > self.levels.max_level and not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "level=%d: the last delay level is %d, so the message is delivered after its "
                    "delay, %d ms; later messages with such a level are not reported",
                    level,
                    self.levels.max_level,
                    self.levels.delays_ms[-1],
                )
            return park_at_level(message, level, self.levels)
        assert self.timer is not None
        assert self._context is not None
        return self.timer.transform(message, self._context.clock())

    def asked_time(self, message: Message) -> int | None:
        """Return when ``message`` asks to be delivered, ms; None without a time of its own.

        For servers, which refuse times that are too far ahead. A delay level goes first.

        Raises:
            TimerIllegalError: the time is not a number.
        """
        if not _asks_for_a_time(message) or level_of(message) > 0:
            return None
        assert self._context is not None
        return deliver_timestamp_of(message, self._context.clock())

    # ------------------------------------------------------------------ dispatching

    @reput.hookimpl
    def reput_enrich(self, batch: DispatchBatch) -> Mapping[str, npt.NDArray[np.int64]] | None:
        """Give the units of delayed messages their deliver time in place of a tags code."""
        codes = deliver_times(batch, self.levels)
        return None if codes is None else {"tags_code": codes}

    @reput.hookimpl
    def reput_dispatch(self, batch: DispatchBatch) -> None:
        """Note the parked messages of ``batch``."""
        if self.timer is not None:
            self.timer.dispatch(batch)
        if self.delivery is not None:
            self.delivery.dispatch(batch)

    @reput.hookimpl
    def reput_flush(self) -> None:
        """Save what was delivered, and flush the timer's files."""
        if self.timer is None or self._context is None or not self._context.writable:
            return
        if self._state is not None:
            self._state.flush()
        self.timer.flush()
        if self.delivery is not None and self.delivery.clock_went_back(self._context.clock()):
            # A thread that sleeps until a due time would not notice before that time.
            self._context.wake()

    # ------------------------------------------------------------------ working

    @reput.hookimpl
    def reput_work(self, now: int) -> int | None:
        """Deliver what is due."""
        if self.delivery is None or self.timer is None or self._is_replica:
            return None
        times = [self.delivery.work(now)]
        if self.delivers:
            times.append(self.timer.work(now))
        return min((each for each in times if each is not None), default=None)

    # ------------------------------------------------------------------ what users call

    def cancel(
        self,
        what: Receipt | int | str,
        unique_key: str | None = None,
        deliver_at: int | dt.datetime | None = None,
    ) -> Receipt:
        """Cancel a timed message that was not delivered yet.

        Messages with a delay level cannot be cancelled: RocketMQ has no form for that.

        Args:
            what: the receipt of its put, its physical offset, or a recall handle; or its topic,
                with the other two arguments.
            unique_key: its ``UNIQ_KEY``, where ``what`` is the topic.
            deliver_at: the time that it was put with, where ``what`` is the topic.

        Returns:
            Receipt of the first of two messages that cancel it, which is for RocketMQ 5.3; the
            second is for other releases. Whether they came in time shows when it is due.

        Raises:
            ValueError: no timed message is parked there, or the arguments name none.
            TimerIllegalError: the message is due already.
        """
        from reput_schedule.api.cancellation import cancellation

        assert self._context is not None
        assert self.timer is not None
        if not self._context.writable:
            reason = 'it was opened with mode="r"; open it with mode="w"'
            raise ReadOnlyStoreError("store", None, None, reason)
        precision = self.config.precision_ms
        messages = cancellation(self._context.log, precision, what, unique_key, deliver_at)
        now = self._context.clock()
        parked = [self.timer.transform(message, now) for message in messages]
        return self._context.store.put_many(parked)[0]

    def scheduled(self) -> Scheduled:
        """Return what waits to be delivered, by level and by time; also in a read-only store.

        In a reader, timed messages that another process is dispatching at that moment may be
        counted twice: on the wheel, and at the end of the log.
        """
        from reput_schedule.api.scheduledmessages import scheduled

        assert self._context is not None
        assert self._state is not None
        assert self.timer is not None
        if self._context.writable and self.delivery is not None:
            offsets, delivered_to = self.delivery.offsets(), self.delivery.uncounted_from()
        else:
            saved = self._state.load()  # another process writes it
            offsets = {} if saved is None else saved.offsets
            delivered_to = None if saved is None else saved.delivered_to
        timed, dispatched_to = self.timer.pending(), self._dispatched_to()
        return scheduled(self._context, self.levels, offsets, timed, dispatched_to, delivered_to)

    def noted_time(self, message: MessageView) -> int | None:
        """Return the time of the slot of the timer wheel that leads to a parked message, ms.

        None if no slot leads to it: it is not dispatched yet, or the slot was used again since.
        """
        assert self.timer is not None
        return self.timer.noted_time(message)

    def _dispatched_to(self) -> int:
        """Return the physical offset below which parked messages are in their level's queue."""
        assert self._context is not None
        with_queues = self._context.store.dispatched_to
        if self._context.writable or with_queues < self._progress:
            return with_queues  # in a reader: the queues were being rebuilt when it opened
        recorded = self._context.recorded()
        if recorded is None or recorded.physical_offset > self._context.log.max_physical_offset:
            return self._progress
        return recorded.physical_offset

    # ------------------------------------------------------------------ maintaining

    @reput.hookimpl
    def reput_trim(self, min_physical_offset: int) -> None:
        """Let the timer forget messages that the log has lost."""
        if self.timer is not None:
            self.timer.trim(min_physical_offset)

    @reput.hookimpl
    def reput_hold(self) -> int | None:
        """Return the physical offset of the oldest message that waits."""
        if self.delivery is None or self.timer is None or self._is_replica:
            return None  # the master holds its own log
        held = [self.delivery.hold(), self.timer.hold()]
        return min((each for each in held if each is not None), default=None)

    @reput.hookimpl
    def reput_report(self) -> Mapping[str, object]:
        """Return what was delivered since the opening, and what the timer holds."""
        facts: dict[str, object] = {"delivers": self.delivers, "levels": self.config.delay_levels}
        if self.delivery is not None:
            facts["delivered"] = self.delivery.delivered
            facts["dropped"] = self.delivery.dropped
            facts["missing"] = self.delivery.missing
        if self.timer is not None:
            facts["timer"] = self.timer.report()
        return facts

    @reput.hookimpl(optionalhook=True)
    def reput_tools_sizes(self, root: str, disk: Disk) -> Mapping[str, int | None]:
        """See `reput_tools.offline.hookspecs.reput_tools_sizes`."""
        sizes = {
            os.path.join(CONFIG_DIRECTORY, CHECK_FILE): CHECK_FILE_SIZE,
            os.path.join(CONFIG_DIRECTORY, METRICS_FILE): None,
        }
        return {path: each for path, each in sizes.items() if disk.exists(os.path.join(root, path))}

    @reput.hookimpl(optionalhook=True)
    def reput_tools_wrong_entries(self) -> list[CorruptFileError]:
        """See `reput_tools.offline.hookspecs.reput_tools_wrong_entries`."""
        assert self._context is not None
        # A writer that was killed leaves slots ahead of the timer log, or behind it.
        if self.timer is None or not self._context.clean:
            return []
        return self.timer.wrong_entries()

    @reput.hookimpl
    def reput_close(self) -> None:
        """Close the timer's files."""
        if self.timer is not None:
            self.timer.close()


def _asks_for_a_time(message: Message) -> bool:
    given = message.properties
    if isinstance(given, bytes):
        return _REQUEST_START in given
    return given is not None and any(name in given for name in TIMER_REQUESTS)
