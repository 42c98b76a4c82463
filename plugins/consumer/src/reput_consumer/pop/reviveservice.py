"""`ReviveService`: takes messages out of their queue that expired, or that their group gives up.

A message that expires goes to the group's retry topic, and one that is given up to the dead
letters. Only then it counts as acknowledged. If that fails, the message stays out and gets another
deadline. So no step that may fail stands between a change of a lease and its deadline.

Source: RocketMQ ``PopReviveService``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import attrs

from reput_consumer.pop.popread import message_at

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_consumer.backend.embeddedbackend import EmbeddedBackend
    from reput_consumer.backend.pendingfetches import QueueKey
    from reput_consumer.pop.leases import Lease, Leases
    from reput_consumer.pop.popgroup import PopGroup

logger = logging.getLogger(__name__)

_AGAIN_MS: Final = 5_000
"""How long to wait after a message could not be put into the retry topic."""


@attrs.frozen(eq=False)
class MovingMessage:
    """A message that goes to the retry topic or to the dead letters; its lease is marked so."""

    group: PopGroup
    key: QueueKey
    leases: Leases
    lease: Lease
    view: MessageView | None = None
    """Of a dead letter, None if the log has lost it; what goes to the retry topic is read again."""


@attrs.frozen(eq=False)
class ReviveService:
    """Used without the lock of a group. Thread-safe."""

    port: EmbeddedBackend
    nonce: Callable[[], int]
    """Returns a number that no message was handed out with before."""
    note_due: Callable[[int], None]
    """Has `PopService.work` called at a time, ms."""
    finish: Callable[[PopGroup, QueueKey, Leases, Lease], None]
    """Counts a message as acknowledged; under the lock of its group."""

    def send_back(self, moving: Iterable[MovingMessage]) -> None:
        """Put messages into the retry topic; a message that cannot be put is tried again later."""
        self._move_all(moving, self._put_back)

    def give_up(self, moving: Iterable[MovingMessage]) -> None:
        """Put messages to the dead letters; a message that cannot be put is tried again later."""
        self._move_all(moving, self._put_dead)

    def give_up_now(self, moving: MovingMessage) -> None:
        """Put a message to the dead letters.

        Raises:
            ReputError: it cannot be stored; the message is out as it was before.
            OSError: likewise.
        """
        try:
            self._put_dead(moving)
        except BaseException:
            lease = moving.lease
            with moving.group.lock:
                until = moving.leases.keep_out(lease, lease.nonce, lease.until)
            self.note_due(until)
            raise

    def _move_all(
        self, moving: Iterable[MovingMessage], move: Callable[[MovingMessage], None]
    ) -> None:
        left = list(reversed(list(moving)))
        try:
            while left:
                try:
                    move(left[-1])
                except Exception as error:  # of a plugin, too: no message may be left behind
                    self._try_later(left[-1], error)
                left.pop()
        finally:
            for each in left:  # the process is about to end, or a signal handler has raised
                self._stay(each, self.port.clock() + _AGAIN_MS)

    def _put_back(self, moving: MovingMessage) -> None:
        group, lease = moving.group, moving.lease
        view = message_at(self.port, moving.key, lease.queue_offset)
        topic = group.topic_of.get(moving.key[0])  # None if it was deleted meanwhile
        if view is not None and topic is not None and not group.is_forgotten:
            self.port.sender.pop_back(group.name, view, topic, lease.failures)
        self._finish(moving)

    def _put_dead(self, moving: MovingMessage) -> None:
        if moving.view is not None:
            self.port.sender.store(moving.group.name, moving.view, -1, None)
        self._finish(moving)

    def _finish(self, moving: MovingMessage) -> None:
        with moving.group.lock:
            self.finish(moving.group, moving.key, moving.leases, moving.lease)

    def _try_later(self, moving: MovingMessage, error: Exception) -> None:
        logger.warning(
            "message not put back; it is tried again in %d s group=%s queue=%s/%d offset=%d: %s",
            *(_AGAIN_MS // 1_000, moving.group.name, *moving.key, moving.lease.queue_offset, error),
        )
        self._stay(moving, self.port.clock() + _AGAIN_MS)

    def _stay(self, moving: MovingMessage, until: int) -> None:
        with moving.group.lock:
            moving.leases.keep_out(moving.lease, self.nonce(), until)
        self.note_due(until)
