"""`run`: calls a function with each message, on several threads.

Source: RocketMQ ``MessageListenerConcurrently`` and ``MessageListenerOrderly``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import attrs
from attrs.validators import ge, instance_of

from reput_consumer.api.receivedmessage import all_received, received
from reput_consumer.consumption.delivery import CONSUMED, OPEN, SETTLED
from reput_consumer.consumption.directconsume import NOT_AGAIN, Handled, Outcome, delivery_of

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_consumer.consumption.delivery import Delivery
    from reput_consumer.consumption.memberengine import MemberEngine
    from reput_consumer.messagequeue import MessageQueue

logger = logging.getLogger(__name__)

_OPENED_COUNT: Final = 256
"""Messages of one queue that a thread, or several, work on before the next queue has its turn."""
_CONSUMED: Final = bytes([CONSUMED])
_SHOWN_MAX: Final = 100
"""Most tracebacks that a consumer logs."""

Place = tuple[type[BaseException], str, int]
"""An error's class, and the file and line that raised it."""


@attrs.frozen
class Retry:
    """What a handler returns to have messages come again, with a word on when and which."""

    level: int = 0
    """Delay level; see `ReceivedMessage.retry`."""
    done: int = attrs.field(default=0, validator=[instance_of(int), ge(0)])
    """Of a batch: how many messages from the first on were consumed all the same (``ackIndex``)."""


@attrs.define(eq=False, repr=False)
class ListenerRun:
    """One call of `reput_consumer.Consumer.run`."""

    engine: MemberEngine
    handler: Callable[[Any], object]
    batch: int
    idle: float | None
    """Seconds without a message after which the run ends; None for never."""
    shown: set[Place]
    """Errors of handlers whose traceback is in the log."""
    consumed: int = 0
    failed: int = 0
    error: BaseException | None = None
    """What ended the run early: no failure of the handler, but one of the store."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def on_threads(self, count: int) -> int:
        """Handle messages until the end; return how many were consumed.

        Raises:
            ReputError: messages cannot be read any more.
            KeyboardInterrupt: the user stops; messages in progress are finished first.
        """
        threads = [
            threading.Thread(target=self._work, name=f"reput-consumer-{number}", daemon=True)
            for number in range(count)
        ]
        self.engine.handle_now = self.handle_now
        for each in threads:
            each.start()
        try:
            for each in threads:
                each.join()
        except BaseException:
            self.engine.stop()
            for each in threads:
                each.join()
            raise
        finally:
            self.engine.handle_now = None
            self.engine.is_stopped = False  # another run may follow
        if self.error is not None:
            raise self.error
        return self.consumed

    def _work(self) -> None:
        handle = self._handle_each if self.batch == 1 else self._handle_batches
        # In order, a batch may begin in one fetch and end in the next one, but not here.
        count = max(_OPENED_COUNT // self.batch, 1) * self.batch
        try:
            while (delivery := self.engine.open(self.idle, count)) is not None:
                try:
                    handle(delivery)
                finally:
                    self.engine.settle(delivery)
        except BaseException as error:  # it goes to the caller of `run`, on another thread
            self.error = error
            self.engine.stop()

    def _handle_each(self, delivery: Delivery) -> None:
        """Handle messages one by one, while other threads may do so with others of the delivery."""
        handler, marks, messages = self.handler, delivery.marks, delivery.messages
        engine, count = self.engine, 0
        for row in delivery.rows:
            try:
                returned = handler(received(delivery, row, messages[row]))
            except Exception as error:  # it may raise anything: its message comes again
                self._fail(delivery, row, row + 1, error)
                continue
            if returned is False or isinstance(returned, Retry):
                self._settle(delivery, row, row + 1, returned)
                continue
            count += 1
            if marks[row] == OPEN:
                marks[row] = CONSUMED
                if engine.is_watching:
                    engine.settle(delivery)
        self._count(count, 0)

    def _handle_batches(self, delivery: Delivery) -> None:
        """Handle messages batch by batch, as `_handle_each` does one by one."""
        handler, marks, engine = self.handler, delivery.marks, self.engine
        while batch := list(islice(delivery.rows, self.batch)):
            start, end = batch[0], batch[-1] + 1
            try:
                returned = handler(all_received(delivery, start, end))
            except Exception as error:  # as above: all of them come again
                self._fail(delivery, start, end, error)
                continue
            if returned is False or isinstance(returned, Retry):
                self._settle(delivery, start, end, returned)
                continue
            self._count(end - start, 0)
            if marks.count(OPEN, start, end) == end - start:
                marks[start:end] = _CONSUMED * (end - start)
            else:  # the handler has said more of some of them
                _mark(marks, start, end)
            if engine.is_watching:
                engine.settle(delivery)

    def handle_now(self, view: MessageView, queue: MessageQueue) -> Handled:
        """Handle one message apart from all others; its result changes no offset."""
        delivery = delivery_of(view, queue)
        message = received(delivery, 0, view)
        try:
            returned = self.handler(message if self.batch == 1 else [message])
        except Exception as error:
            self._log(_facts(delivery, 0, 1), NOT_AGAIN, error)
            return Handled(Outcome.FAILED, f"{type(error).__name__}: {error}")
        is_wanted_again = (
            returned is False
            or delivery.marks[0] == SETTLED
            or (isinstance(returned, Retry) and returned.done == 0)
        )
        return Handled(Outcome.LATER if is_wanted_again else Outcome.CONSUMED)

    def _settle(self, delivery: Delivery, start: int, end: int, returned: Retry | bool) -> None:
        """Do with messages what a handler has said."""
        outcome = self._outcome(returned)
        done = min(outcome.done, end - start)
        self._count(done, end - start - done)
        _mark(delivery.marks, start, start + done)
        self.engine.retry(delivery, outcome.level, range(start + done, end))

    def _outcome(self, returned: Retry | bool) -> Retry:
        """Return what a handler has said; in order, all that it was given comes again."""
        outcome = returned if isinstance(returned, Retry) else Retry()
        return attrs.evolve(outcome, done=0) if self.engine.settings.ordered else outcome

    def _fail(self, delivery: Delivery, start: int, end: int, error: Exception) -> None:
        """Have the messages come again for which a handler has raised."""
        facts = _facts(delivery, start, end)  # before they are settled, and forgotten
        self._count(0, end - start)
        outcome = self.engine.retry(delivery, 0, range(start, end), is_logged=True)
        self._log(facts, outcome, error)

    def _log(self, facts: str, outcome: str, error: Exception) -> None:
        # Operators need one line for each failure, but the same traceback only once.
        place = _place_of(error)
        with self._lock:
            is_new = place not in self.shown and len(self.shown) < _SHOWN_MAX
            if is_new:
                self.shown.add(place)
        logger.warning(
            "handler failed, %s group=%s %s error=%r",
            *(outcome, self.engine.settings.group, facts, error),
            exc_info=error if is_new else None,
        )

    def _count(self, done: int, failed: int) -> None:
        with self._lock:
            self.consumed += done
            self.failed += failed


def _mark(marks: bytearray, start: int, end: int) -> None:
    """Count messages without an outcome as consumed."""
    for row in range(start, end):
        marks[row] = marks[row] or CONSUMED


def _facts(delivery: Delivery, start: int, end: int) -> str:
    """Return what a log says of messages with which a handler was called."""
    first, queue = received(delivery, start, delivery.messages[start]), delivery.assignment.queue
    text = (
        f"topic={first.topic} broker={queue.broker} queue={queue.topic}/{queue.queue_id} "
        f"offset={first.queue_offset} keys={' '.join(first.keys)!r} "
        f"attempt={first.reconsume_times + 1}"
    )
    return text if end - start == 1 else f"{text} count={end - start}"


def _place_of(error: BaseException) -> Place:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error), "", 0
    return type(error), trace.tb_frame.f_code.co_filename, trace.tb_lineno
