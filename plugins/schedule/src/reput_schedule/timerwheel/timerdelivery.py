"""`TimerDelivery`: loads parked messages, makes the messages to deliver, and puts these.

Source: RocketMQ ``TimerMessageStore#convert`` and ``#doPut``. As there, the delivered record keeps
``REAL_TOPIC``, ``REAL_QID`` and the ``TIMER_…`` properties. Different on purpose: a put that fails
is repeated later, however often; a message that can never be put is dropped and counted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from reput.errors import CorruptFileError
from reput.record import MessageView
from reput.record.layout import (
    PROPERTY_CRC,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    RECORD_MIN_SIZE,
    VALUE_END,
)
from reput_schedule.duemessages import put_storable
from reput_schedule.timerwheel.deliveredcopies import DeliveredCopies
from reput_schedule.timerwheel.layout import (
    MAGIC_ROLL,
    OVERDUE_ENQUEUE_MS,
    PROPERTY_DELETE_KEY,
    PROPERTY_DEQUEUE_MS,
    PROPERTY_ENQUEUE_MS,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_ROLL_TIMES,
    RECALL_TAG,
    TIMER_TOPIC,
    is_cancellation,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.plugin import StoreContext
    from reput.record import Message

    Records = npt.NDArray[np.void]
    Cancelled = set[tuple[int, str]]

logger = logging.getLogger(__name__)

Names = frozenset[tuple[int, str]]
"""Ticks and keys."""

_SPAN_MAX = 1 << 20  # bytes of the log read at once
_GAP_MAX = 1 << 14  # bytes between two messages that are read and thrown away
_QUEUE_ID_MAX = (1 << 31) - 1
_VALUE_END = bytes([VALUE_END])


@attrs.define(eq=False, repr=False)
class TimerDelivery:
    """Puts due messages. Used by the working thread only."""

    context: StoreContext
    copies: list[DeliveredCopies] = attrs.field(factory=list)
    """What was delivered before, as found in several parts of the log."""
    copies_end: int = 0
    """Physical offset after the newest message put."""
    rolled_end: int = 0
    """Physical offset after the newest message that rolled (was parked again)."""
    delivered: int = 0
    rolled: int = 0
    cancelled: int = 0
    missing: int = 0
    """Messages that the log no longer has."""
    dropped: int = 0
    """Messages that can never be put."""

    # ------------------------------------------------------------------ loading

    def load(self, records: Records) -> list[MessageView | None]:
        """Return the parked messages, neighbours by one read; None for a message that is gone."""
        starts = records["physical_offset"].astype(np.int64)
        sizes = records["message_size"].astype(np.int64)
        views: list[MessageView | None] = []
        while len(views) < len(records):
            first = len(views)
            start, size = int(starts[first]), int(sizes[first])
            if not RECORD_MIN_SIZE <= size <= _SPAN_MAX:
                # A damaged record of the timer log may state any size: the log is asked first.
                views.append(self._parked(self.context.log.read_message(start, size), start))
                continue
            last = _last_of_run(starts, sizes, first)
            data = self.context.log.read(start, int(starts[last] + sizes[last]) - start)
            views += [
                self._cut(data, start, int(starts[row]), int(sizes[row]))
                for row in range(first, last + 1)
            ]
        return views

    def _cut(self, data: bytes, base: int, start: int, size: int) -> MessageView | None:
        view: MessageView | None = None
        if start - base + size <= len(data):
            try:
                view = MessageView(data[start - base : start - base + size], start)
                view.places()
            except CorruptFileError:
                view = None
        else:  # in the next file
            view = self.context.log.read_message(start, size)
        return self._parked(view, start)

    def _parked(self, view: MessageView | None, start: int) -> MessageView | None:
        if view is None or view.topic != TIMER_TOPIC:
            self.missing += 1
            logger.warning("timed message is not in the log any more physical_offset=%d", start)
            return None
        return view

    def keys_to_cancel(self, records: Records, ticks: npt.NDArray[np.int64]) -> Cancelled:
        """Return the slots and keys that the cancellations among the records name."""
        rows = np.flatnonzero(is_cancellation(records))
        found: Cancelled = set()
        for row, view in zip(rows.tolist(), self.load(records[rows]), strict=True):
            if view is not None:
                found.add((int(ticks[row]), key_of(view.properties)))
        return found

    # ------------------------------------------------------------------ delivering

    def deliver(
        self,
        records: Records,
        ticks: npt.NDArray[np.int64],
        cancelled: Cancelled,
        now: int,
    ) -> None:
        """Put the messages of the records, in the order of the records.

        When a put raises, some of the messages may be stored. They are known by then, and not put
        again when the same records are given once more.
        """
        normal = np.flatnonzero(~is_cancellation(records))
        messages = []
        for row, view in zip(normal.tolist(), self.load(records[normal]), strict=True):
            if view is None:
                continue
            if cancelled and not cancelled.isdisjoint(names_of(view.properties, int(ticks[row]))):
                self.cancelled += 1
                continue
            message = self._message(view, records[row], now)
            if message is not None:
                messages.append(message)
        self._put(messages)
        self.rolled += sum(message.topic == TIMER_TOPIC for message in messages)

    def _message(self, view: MessageView, record: Any, now: int) -> Message | None:
        """Return what is to be put; None if it was put already, or never can be."""
        rolls = bool(record["magic"] & MAGIC_ROLL)
        enqueued = OVERDUE_ENQUEUE_MS if record["delay"] < 0 else int(record["enqueued"])
        message = _copy(view, rolls, enqueued, now)
        offset = view.physical_offset
        if any(self.copies):
            # The process that delivered it may have had a wheel of another size.
            for form in (message, _copy(view, not rolls, enqueued, now)):
                if form and any(copies.take(form, offset) for copies in self.copies):
                    return None
        if message is None:
            self.dropped += 1
            logger.warning(
                "timed message has nowhere to go and is dropped physical_offset=%d topic=%r "
                "queue_id=%r",
                offset,
                view.properties.get(PROPERTY_REAL_TOPIC),
                view.properties.get(PROPERTY_REAL_QUEUE_ID),
            )
        return message

    def _put(self, messages: Sequence[Message]) -> None:
        start = self.context.log.max_physical_offset
        try:
            for part, end in put_storable(self.context.store, messages):
                if end is None:
                    self.dropped += 1
                    continue
                self.delivered += len(part)
                self.copies_end = max(self.copies_end, end)
                if any(message.topic == TIMER_TOPIC for message in part):
                    self.rolled_end = self.copies_end
        except BaseException:
            # When the disk fills up, some of the messages are stored.
            self._look_back(start)
            raise

    def _look_back(self, start: int) -> None:
        log = self.context.log
        end = log.max_physical_offset
        if end > start:
            found = DeliveredCopies(start, end)
            for batch in log.scan(start, end):
                found.look_at(batch)
            self.copies.append(found)
            self.copies_end = max(self.copies_end, end)


def _last_of_run(starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], first: int) -> int:
    """Return the row of the last message that is read together with that of row ``first``."""
    last, start = first, int(starts[first])
    end = start + int(sizes[first])
    for row in range(first + 1, len(starts)):
        next_start, size = int(starts[row]), int(sizes[row])
        if not end <= next_start <= end + _GAP_MAX or next_start + size - start > _SPAN_MAX:
            break
        last, end = row, next_start + size
    return last


def key_of(properties: Mapping[str, str]) -> str:
    """Return what a cancellation names, with the topic if it is known."""
    key, topic = properties.get(PROPERTY_DELETE_KEY, ""), properties.get(PROPERTY_REAL_TOPIC, "")
    if properties.get(PROPERTY_TAGS) != RECALL_TAG or key.startswith(f"{topic}+"):
        return key
    return f"{topic}+{key}"  # a recall is of its own topic


def names_of(properties: Mapping[str, str], tick: int) -> Names:
    """Return by what a message of that slot is cancelled, or a cancellation that rolled there."""
    key = properties.get(PROPERTY_UNIQ_KEY)
    if key is None:
        return frozenset()
    topic = properties.get(PROPERTY_REAL_TOPIC, "")
    # Releases but 5.3 name the key alone.
    return frozenset({(tick, f"{topic}+{key}"), (tick, key)})


def _copy(view: MessageView, rolls: bool, enqueued: int, now: int) -> Message | None:
    """Return the message as it is delivered, or rolled; None if its properties name no place."""
    properties = view.properties
    message = view.to_message()
    added: dict[str, object] = {PROPERTY_ENQUEUE_MS: enqueued, PROPERTY_DEQUEUE_MS: now}
    if rolls:
        times = properties.get(PROPERTY_ROLL_TIMES, "0")
        rolled = int(times) if times.isascii() and times.isdigit() and len(times) < 10 else 0
        added[PROPERTY_ROLL_TIMES] = rolled + 1
    else:
        topic = properties.get(PROPERTY_REAL_TOPIC)
        queue_id = properties.get(PROPERTY_REAL_QUEUE_ID, "")
        # A message to the timer's topic would come back here for ever.
        if topic is None or topic == TIMER_TOPIC or PROPERTY_DELETE_KEY in properties:
            return None
        if not (queue_id.isascii() and queue_id.isdigit()) or len(queue_id) > 10:
            return None
        message.topic, message.queue_id = topic, int(queue_id)
        if message.queue_id > _QUEUE_ID_MAX:
            return None
    text = view.properties_text
    if PROPERTY_ENQUEUE_MS in properties or PROPERTY_CRC in properties:
        text = _without(text, {*added, PROPERTY_CRC})
    if text and text[-1] != VALUE_END:
        text += _VALUE_END
    more = "".join([f"{name}\x01{value}\x02" for name, value in added.items()])
    message.properties = text + more.encode()
    message.prepared_transaction_offset = 0
    return message


def _without(text: bytes, names: set[str]) -> bytes:
    """Return a property text without the entries called ``names``."""
    dropped = {name.encode() for name in names}
    entries = text.split(_VALUE_END)
    return _VALUE_END.join(each for each in entries if each.partition(b"\x01")[0] not in dropped)
