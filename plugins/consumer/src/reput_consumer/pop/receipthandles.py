"""Values of pop: handles, and what a group is handed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import attrs

if TYPE_CHECKING:
    from reput.record import MessageView

SERIALS: Final = 1_000
"""Numbers of handings out in one millisecond; then the next one's begin."""

_VERSION: Final = "p1"
_LENGTH_MAX: Final = 120
_INT64_END: Final = 1 << 63


@attrs.frozen
class Handle:
    """Names one handing out of one message; void after an acknowledgement, a renewal, a restart."""

    is_retry: bool
    """Whether the message came from the retry topic of group and topic."""
    queue_id: int
    queue_offset: int
    nonce: int
    """Of the request that the message was handed out for, or of its last renewal."""
    epoch: int
    """The opening of the store that the message was handed out in."""

    @property
    def pop_time(self) -> int:
        """When the message was handed out or renewed, ms; it may be some ms ahead."""
        return self.nonce // SERIALS

    @property
    def serial(self) -> int:
        """Distinguishes deliveries of one millisecond."""
        return self.nonce % SERIALS

    def __str__(self) -> str:
        numbers = (int(self.is_retry), self.queue_id, self.queue_offset, self.nonce, self.epoch)
        return ".".join((_VERSION, *(f"{number:x}" for number in numbers)))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the handle that a text stands for; None if it is none of ours."""
        parts = text[:_LENGTH_MAX].split(".")
        if len(text) > _LENGTH_MAX or len(parts) != 6 or parts[0] != _VERSION:
            return None
        try:
            numbers = [int(part, 16) for part in parts[1:]]
        except ValueError:
            return None
        kind, *rest = numbers
        if kind not in (0, 1) or not all(0 <= number < _INT64_END for number in rest):
            return None
        return cls(bool(kind), *rest)


@attrs.frozen(eq=False)
class Popped:
    """A message that was handed out."""

    topic: str
    """The topic of the request, also when the message comes from a retry topic."""
    view: MessageView
    """The record."""
    queue_offset: int
    handle: Handle
    invisible_until: int
    """When it comes again if it is not acknowledged, ms."""
    attempt_count: int
    """How often the group was handed the message, this time included."""


@attrs.frozen
class UnackedMessage:
    """What a group was handed of one queue and has not acknowledged."""

    group: str
    topic: str
    """The queue's topic; that may be a retry topic."""
    queue_id: int
    count: int
    since_timestamp: int
    """When the one was handed out that is out for the longest, ms."""
