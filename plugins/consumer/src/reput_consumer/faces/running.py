"""`run`: calls a function with each message, on several threads.

Source: RocketMQ ``MessageListenerConcurrently`` and ``MessageListenerOrderly``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
from attrs.validators import ge, instance_of

from reput_consumer.faces.message import ReceivedMessage

if TYPE_CHECKING:
    from reput_consumer.consuming.delivery import Delivery
    from reput_consumer.consuming.engine import Engine

logger = logging.getLogger(__name__)

__all__ = ["Retry", "Run"]


@attrs.frozen
class Retry:
    """What a handler returns to have messages come again, with a word on when and which."""

    level: int = 0
    """Delay level; see `ReceivedMessage.retry`."""
    done: int = attrs.field(default=0, validator=[instance_of(int), ge(0)])
    """Of a batch: how many messages from the first on were consumed all the same (``ackIndex``)."""


@attrs.define(eq=False)
class Run:
    """One call of `reput_consumer.Consumer.run`."""

    engine: Engine
    handler: Callable[[Any], object]
    batch: int
    idle: float | None
    """Seconds without a message after which the run ends; None for never."""
    consumed: int = 0
    failed: int = 0
    error: BaseException | None = None
    """What ended the run early: no failure of the handler, but one of the store."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def on_threads(self, count: int) -> int:
        """Handle messages until the end; return how many were consumed.

        Raises:
            ReputError: messages cannot be read any more.
            KeyboardInterrupt: the user stops; what is being handled is finished first.
        """
        threads = [
            threading.Thread(target=self._work, name=f"reput-consumer-{number}", daemon=True)
            for number in range(count)
        ]
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
            self.engine.is_stopped = False  # another run may follow
        if self.error is not None:
            raise self.error
        return self.consumed

    def _work(self) -> None:
        try:
            while (delivery := self.engine.take(self.batch, self.idle)) is not None:
                self._handle(delivery)
        except BaseException as error:  # it goes to the caller of `run`, on another thread
            self.error = error
            self.engine.stop()

    def _handle(self, delivery: Delivery) -> None:
        outcome = self._outcome(delivery)
        done = len(delivery) if outcome is None else min(outcome.done, len(delivery))
        with self._lock:
            self.consumed += done
            self.failed += len(delivery) - done
        if outcome is None:
            self.engine.finish(delivery)
        elif done and not self.engine.settings.ordered:
            self.engine.finish(delivery.part(0, done))
            if done < len(delivery):
                self.engine.retry(delivery.part(done), outcome.level)
        else:
            self.engine.retry(delivery, outcome.level)

    def _outcome(self, delivery: Delivery) -> Retry | None:
        """Return how messages are to come again; None if they were consumed."""
        messages = [ReceivedMessage(self.engine, delivery, row) for row in range(len(delivery))]
        try:
            returned = self.handler(messages[0] if self.batch == 1 else messages)
        except Exception:  # a handler may raise anything: its messages come again
            logger.exception(
                "handler failed group=%s queue=%s offset=%d",
                *(self.engine.settings.group, delivery.assignment.queue),
                delivery.queue_offsets[0],
            )
            return Retry()
        if isinstance(returned, Retry):
            return returned
        return Retry() if returned is False else None
