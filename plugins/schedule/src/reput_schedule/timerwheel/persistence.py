"""`TimerPersistence`: what a timer keeps on disk, and in which order it gets there.

The timer log first, then the wheel, then the checkpoint, which says that both are on disk; the
counts by topic last, as they can be rebuilt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.errors import ServiceNotAvailableError
from reput.files import is_disk_full
from reput_schedule.timerwheel.durablequeueoffset import DurableQueueOffset
from reput_schedule.timerwheel.files.slotchain import slot_ticks
from reput_schedule.timerwheel.files.timercheckpoint import (
    CheckpointRecord,
    TimerCheckpoint,
    decode_broker_check,
    decode_check,
    encode_check,
    is_damaged,
    with_whole_log,
)
from reput_schedule.timerwheel.files.timermetrics import TimerMetrics
from reput_schedule.timerwheel.layout import (
    CHECK_DTYPE,
    CHECK_FILE,
    CONFIG_DIRECTORY,
    METRICS_FILE,
    RECORD_SIZE,
    SECTOR_SIZE,
)

if TYPE_CHECKING:
    import threading

    from reput.plugin import StoreContext
    from reput_schedule.timerwheel.deliveryprogress import DeliveryProgress
    from reput_schedule.timerwheel.timerdelivery import TimerDelivery

_TRIES: Final = 5  # how often a reader reads a file that changes all the time


class TimerPersistence:
    """Checkpoint and counts of one timer; flushes all of its files.

    Attributes:
        saved: what the checkpoint's file says; None without a valid one.
        broker_data: the checkpoint's file, in which a broker's part may be valid.
        metrics: how many messages of each topic wait; the timer's lock guards it.
        counted: messages of the timer's topic; guarded likewise.
        copies_to: physical offset above which messages lie that were delivered after the state at
            opening, and are not counted in it.
        broker_read: ms, the time to which a broker has delivered, in a store that delivers nothing;
            the checkpoint keeps it. None in other stores.
    """

    def __init__(self, context: StoreContext, lock: threading.RLock) -> None:
        """Nothing is read.

        Args:
            context: the store.
            lock: the timer's.
        """
        self._context = context
        self._lock = lock
        self._check_path = context.directory(CONFIG_DIRECTORY, CHECK_FILE)
        self._metrics_path = context.directory(CONFIG_DIRECTORY, METRICS_FILE)
        self.saved: CheckpointRecord | None = None
        self.broker_data = b""
        self.metrics = TimerMetrics()
        self.counted = DurableQueueOffset()
        self.copies_to = 0
        self.broker_read: int | None = None
        self._base = TimerCheckpoint(read_timestamp=0, examined_to=0)  # the state at opening

    def load(self) -> None:
        """Read what was saved. Write nothing."""
        disk = self._context.disk
        if disk.exists(self._check_path):
            data = self._read_check()
            self.saved, self.broker_data = decode_check(data), data
            if self.saved is None and is_damaged(data):
                self._context.note_problem(f"{self._check_path}: damaged, and ignored")
        if disk.exists(self._metrics_path):
            self.metrics = TimerMetrics.decode(disk.read_file(self._metrics_path))
            if self.metrics.is_damaged:
                self._context.note_problem(f"{self._metrics_path}: damaged, and ignored")

    def stated(self, precision: int) -> CheckpointRecord | None:
        """Return the checkpoint of the program that wrote last; None without one.

        Args:
            precision: ms of one slot, of a broker.
        """
        if self.saved is not None and not self.saved.is_superseded:
            return self.saved
        return decode_broker_check(self.broker_data, precision)

    def _read_check(self) -> bytes:
        """Return the checkpoint's file, which a writer overwrites in place."""
        read = self._context.disk.read_file
        data = read(self._check_path)
        if self._context.writable:
            return data
        for _ in range(_TRIES):
            before, data = data, read(self._check_path)
            if data == before:
                break
        return data

    def start(self, reached: TimerCheckpoint, copies_to: int, counted: DurableQueueOffset) -> None:
        """Go on from a state: that of the checkpoint, or the one before every message."""
        self._base, self.copies_to, self.counted = reached, copies_to, counted

    def keep_broker_read(self) -> None:
        """Keep the time in the checkpoint's file, from which a broker goes on to deliver.

        With an earlier time it would deliver messages twice; with a later one it would lose some.
        """
        self.broker_read = self._stated_read()

    def _stated_read(self) -> int | None:
        if len(self.broker_data) < CHECK_DTYPE.itemsize:
            return None
        return int(np.frombuffer(self.broker_data, CHECK_DTYPE, 1)[0]["read_timestamp"])

    # ------------------------------------------------------------------ writing

    def flush(
        self, agenda: DeliveryProgress, delivery: TimerDelivery, *, is_closing: bool = False
    ) -> None:
        """Flush timer log, wheel, checkpoint and counts, in this order.

        Raises:
            OSError: a write failed, in this call or an earlier one; the state of the files is
                unknown then, unless the disk was full: the next call writes the same again.
        """
        unflushed = agenda.files.log.unflushed
        unflushed.require_no_failure()
        try:
            self._flush(agenda, delivery, is_closing=is_closing)
        except BaseException as error:  # Ctrl-C, too: pages of the wheel were taken, not written
            if not is_disk_full(error):
                unflushed.fail(error)
            raise

    def _flush(
        self, agenda: DeliveryProgress, delivery: TimerDelivery, *, is_closing: bool
    ) -> None:
        disk, files = self._context.disk, agenda.files
        flushed_offset = self._flushed_offset()
        with self._lock:
            pages = files.wheel.take_dirty() if files.wheel.is_dirty else None
            reached = self._advance(agenda, delivery, flushed_offset)
            check = self._check(
                agenda,
                delivery,
                reached,
                flushed_offset,
                is_closing=is_closing,
                is_changed=pages is not None,
            )
            metrics = None
            if self.metrics.is_changed:
                metrics = self.metrics.encode(self._context.clock())
                self.metrics.is_changed = False
        try:
            files.log.unflushed.flush()
            if pages is not None:
                # After the first page the file is neither the old wheel nor the new one.
                self.distrust_wheel()
                pages.write(disk, files.wheel_path, files.wheel_scratch)
            # The checkpoint last, as it says that both are on disk.
            if check.is_news(self.saved):
                self._save(check)
            if pages is not None:
                files.remove_snapshots()
            if metrics is not None:
                disk.make_directory(self._context.directory(CONFIG_DIRECTORY), durable=True)
                disk.replace(self._metrics_path, metrics)
        except OSError:
            with self._lock:
                if pages is not None:
                    files.wheel.put_back(pages)
                self.metrics.is_changed |= metrics is not None
            raise

    def distrust_wheel(self) -> None:
        """Have the next opening rebuild the wheel from the timer log."""
        if self.saved is not None and self.saved.is_closed:
            self._save(attrs.evolve(self.saved, is_closed=False, broker_read=self.broker_read))

    def distrust_broker_part(self, is_log_empty: bool) -> None:
        """Have a broker read all of the timer log, before records that its wheel names are cut.

        Until the next flush its wheel and the flushed end that it noted are of another log: it
        would read only the last files, and lose the messages of the others.

        Args:
            is_log_empty: whether no record is left; a broker then begins with its first message.
        """
        data = with_whole_log(self.broker_data, is_log_empty=is_log_empty)
        disk = self._context.disk
        disk.make_directory(self._context.directory(CONFIG_DIRECTORY), durable=True)
        disk.replace(self._check_path, data)
        self.saved, self.broker_data = decode_check(data), data

    def _save(self, check: CheckpointRecord) -> None:
        disk = self._context.disk
        data = encode_check(check)
        first, rest = data[:SECTOR_SIZE], data[SECTOR_SIZE:]
        # A disk writes a sector at once, so what lies in the first one is overwritten in place.
        is_small = self.saved is not None and not any(rest)
        if not (is_small and disk.overwrite(self._check_path, first)):
            disk.make_directory(self._context.directory(CONFIG_DIRECTORY), durable=True)
            disk.replace(self._check_path, data)
        self.saved = check

    def _flushed_offset(self) -> int:
        try:
            return self._context.store.flushed_offset
        except ServiceNotAvailableError:
            return 0  # the store is not built yet

    # ------------------------------------------------------------------ the checkpoint

    def _advance(
        self, agenda: DeliveryProgress, delivery: TimerDelivery, flushed_offset: int
    ) -> TimerCheckpoint:
        """Return the newest state whose deliveries are on disk; move `copies_to` with it."""
        covered = agenda.recent.covered(flushed_offset)
        reached = agenda.reached
        if not reached.is_covered(flushed_offset):
            reached = covered or self._base
        # Copies found above it may be met again: those of a master, when a replica is promoted.
        if not (delivery.copies or self._context.replica):
            self.copies_to = max(self.copies_to, reached.copies_end)
            if agenda.step is None and reached is agenda.reached:
                self.copies_to = max(self.copies_to, flushed_offset)
        self._base = reached
        return reached

    def _check(
        self,
        agenda: DeliveryProgress,
        delivery: TimerDelivery,
        reached: TimerCheckpoint,
        flushed_offset: int,
        *,
        is_closing: bool,
        is_changed: bool,
    ) -> CheckpointRecord:
        files, saved = agenda.files, self.saved
        log = files.log
        end = log.position_of(log.end - 1) + RECORD_SIZE if log.end > log.first else 0
        is_same = saved is not None and saved.is_closed and saved.log_end == end and not is_changed
        # A wheel with chains aside does not hold all that the log does.
        is_closed = (is_closing and not files.wheel.aside) or is_same
        return CheckpointRecord(
            reached=reached,
            copies_to=self.copies_to,
            precision_ms=agenda.precision,
            log_min=log.min_position,
            log_end=end,
            queue_offset=self.counted.covered(flushed_offset),
            is_closed=is_closed,
            late_timestamp=self._late_timestamp(agenda, delivery, is_closing=is_closing),
            broker_read=self.broker_read,
        )

    def _late_timestamp(
        self, agenda: DeliveryProgress, delivery: TimerDelivery, *, is_closing: bool
    ) -> int | None:
        """Return the slot at which a broker has to start, as later ones may not be delivered."""
        if is_closing or (agenda.has_late and not delivery.copies):
            return _earliest_late(agenda)
        # Messages that became overdue since the opening are known when all of the log was seen.
        return self._stated_read() if delivery.copies else None


def _earliest_late(agenda: DeliveryProgress) -> int | None:
    times = slot_ticks(agenda.late_records(), agenda.precision) * agenda.precision
    return int(times.min()) if len(times) else None
