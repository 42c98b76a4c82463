"""`RoundPut` puts the sends of one round into the store, perhaps on a thread.

Single messages are one put together; the batch of a producer is a put of its own, which stores all
of its messages or none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from reput.errors import PluginError, PutError, ServiceNotAvailableError

if TYPE_CHECKING:
    from reput import BatchReceipt, Message, Receipt

_SINGLE_COUNT: Final = 3
"""Sends of a round that are put one by one: for so few that is faster than together."""

Places = Sequence[tuple[int, int]]
"""Queue offset and physical offset of each message of a send."""
Result = Places | Exception
"""Places, or why there are none."""


class PutSend(Protocol):
    """What a put takes of a send."""

    @property
    def messages(self) -> Sequence[Message]:
        """At least one."""
        ...


class PutOne(Protocol):
    """`reput.Store.put`."""

    def __call__(self, message: Message, *, wait: bool = ...) -> Receipt:
        """Store a message."""
        ...


class PutMany(Protocol):
    """`reput.Store.put_many`."""

    def __call__(
        self, messages: Sequence[Message], *, whole: bool = ..., wait: bool = ...
    ) -> BatchReceipt:
        """Store messages."""
        ...


@attrs.define(eq=False, repr=False)
class RoundPut:
    """Puts sends without waiting for the disk. Used by one thread at a time."""

    put_one: PutOne
    put_many: PutMany
    log_end: Callable[[], int] | None
    """Returns where the log ends; None if no answer waits for replicas."""

    def put_all(self, sends: Sequence[PutSend]) -> tuple[list[Result], int]:
        """Put all sends of a round; what the store has stored is never put again.

        Returns:
            How each send ended; and where the log ended then, 0 if no answer waits for replicas.
        """
        found = self._stored(sends)
        return found, 0 if self.log_end is None else self.log_end()  # before others append more

    def _stored(self, sends: Sequence[PutSend]) -> list[Result]:
        if len(sends) <= _SINGLE_COUNT:
            return [result for send in sends for result in self._put_one(send)]
        found: list[Result] = []
        for are_batches, group in itertools.groupby(sends, lambda send: len(send.messages) > 1):
            if are_batches:
                found += [self._put_batch(send) for send in group]
            else:
                found += self._put_run(list(group))
        return found

    def _put_one(self, send: PutSend) -> list[Result]:
        if len(send.messages) > 1:
            return [self._put_batch(send)]
        try:
            receipt = self.put_one(send.messages[0], wait=False)
        except (PutError, PluginError) as error:
            return [error]
        return [((receipt.queue_offset, receipt.physical_offset),)]

    def _put_batch(self, send: PutSend) -> Result:
        """Put the messages of one producer's batch: all of them or none."""
        try:
            return _places_of(self.put_many(send.messages, whole=True, wait=False))
        except (PutError, PluginError) as error:
            return error

    def _put_run(self, sends: Sequence[PutSend]) -> list[Result]:
        """Put sends of one message each; each refusal concerns one send."""
        try:
            receipt = self.put_many([send.messages[0] for send in sends], wait=False)
        except (PutError, PluginError) as error:
            found: list[Result] = []
            if isinstance(error, PutError) and error.stored is not None:
                found = [(place,) for place in _places_of(error.stored)]
            left = sends[len(found) :]
            if len(left) == 1 or isinstance(error, ServiceNotAvailableError):
                return found + [error] * len(left)
            return found + [each for send in left for each in self._put_run([send])]
        return [(place,) for place in _places_of(receipt)]


def _places_of(receipt: BatchReceipt) -> Places:
    offsets, positions = receipt.queue_offsets.tolist(), receipt.physical_offsets.tolist()
    return list(zip(offsets, positions, strict=True))
