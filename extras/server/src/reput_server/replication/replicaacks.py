"""`ReplicaAcks`: answers that are held until so many replicas have a message.

Source: RocketMQ ``GroupTransferService``, ``CommitLog.handleHA``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import ResponseCode

if TYPE_CHECKING:
    import asyncio

GAP_MAX: Final = 256 << 20
"""A replica that is further behind, bytes, is not in sync (``haMaxGapNotInSync``)."""


@attrs.frozen
class Late:
    """Why a message that is stored is not as safe yet as it was to be."""

    code: ResponseCode
    text: str


Told = Callable[[Late | None], None]
"""Takes how a wait ended; None if enough replicas have the message."""


@attrs.frozen(eq=False)
class _Held:
    end_offset: int
    deadline: float
    told: Told


@attrs.define(eq=False, repr=False)
class ReplicaAcks:
    """Holds answers in the order of their messages. Used on the event loop."""

    needed: int
    """How many replicas have to report a message."""
    wait_seconds: float
    loop: asyncio.AbstractEventLoop
    reported: Callable[[], Sequence[int]]
    """Returns the offset that each connected replica has reported last, -1 or less for none."""
    begin: Callable[[], None]
    """Called when there is something to wait for: what is stored is to be sent."""
    timeout_count: int = attrs.field(init=False, default=0)
    """Answers that were given because the time was over, or replicas were missing."""
    _held: deque[_Held] = attrs.field(init=False, factory=deque)
    _timer: asyncio.TimerHandle | None = attrs.field(init=False, default=None)

    @property
    def held_count(self) -> int:
        """Answers that are held now; each is of all sends that were put together."""
        return len(self._held)

    def hold(self, end_offset: int, told: Told) -> None:
        """Have ``told`` called when enough replicas have the log below ``end_offset``.

        It is called at once if too few are connected, and when the time is over.
        """
        usable = [each for each in self.reported() if each > -1 and end_offset - each < GAP_MAX]
        if len(usable) < self.needed:
            self.begin()
            self.timeout_count += 1
            text = (
                f"SLAVE_NOT_AVAILABLE: stored, but of {self.needed} replicas that are asked for, "
                f"{len(usable)} are in sync"
            )
            told(Late(ResponseCode.SLAVE_NOT_AVAILABLE, text))
            return
        self._held.append(_Held(end_offset, self.loop.time() + self.wait_seconds, told))
        self.begin()  # after it is counted: the flush of an awaited message does not pause
        self.advance()
        self._set_timer()

    def advance(self) -> None:
        """Give the answers whose messages enough replicas have reported by now."""
        if not self._held:
            return
        reported = sorted(self.reported(), reverse=True)
        if len(reported) < self.needed:
            return
        reached = reported[self.needed - 1]
        while self._held and self._held[0].end_offset <= reached:
            self._held.popleft().told(None)

    def expire(self, now: float) -> None:
        """Give the answers whose time is over; ``now`` is of the loop's clock, s."""
        while self._held and self._held[0].deadline <= now:
            self._give_up()

    def give_up(self) -> None:
        """Give all answers: nobody waits any longer."""
        while self._held:
            self._give_up()

    def _give_up(self) -> None:
        self.timeout_count += 1
        text = (
            f"FLUSH_SLAVE_TIMEOUT: stored, but not reported by {self.needed} replicas in "
            f"{self.wait_seconds:.3g} s"
        )
        self._held.popleft().told(Late(ResponseCode.FLUSH_SLAVE_TIMEOUT, text))

    def _set_timer(self) -> None:
        if self._held and self._timer is None:
            self._timer = self.loop.call_at(self._held[0].deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self.expire(self.loop.time())
        self._set_timer()
