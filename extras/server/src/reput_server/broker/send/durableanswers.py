"""`DurableAnswers`: keeps back the answers to sends that are stored until these are on disk.

Sends that are stored while the disk works go with the next flush. On a slow disk the producers that
were just answered get a moment to send again before that flush begins, as fewer flushes then serve
the same messages.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

import attrs

from reput.errors import FlushDiskTimeoutError
from reput_client.remoting import FrameReader, ResponseCode
from reput_server.broker.send.messageproperties import TRACED
from reput_server.broker.statistics.latencies import PutTimes
from reput_server.errors import Refusal
from reput_server.wire.requestdispatcher import answer_of_error, frame_of
from reput_server.wire.sharedreads import write_together

if TYPE_CHECKING:
    from reput_aio import FlushWaiters
    from reput_server.wire.interfaces import Connection

logger = logging.getLogger(__name__)

_SLOW_FLUSH_SECONDS: Final = 0.0005
"""Only after a flush that took longer the next one waits for producers, half as long as it took."""
_LONGEST_GATHER_SECONDS: Final = 0.001


class Kept(NamedTuple):
    """Sends of one connection that were stored together."""

    peer: Connection
    send_count: int
    size: int
    """Bytes of their frames."""
    answers: bytes
    """Frames; a send that goes one way has no answer."""


Told = Callable[[Exception | None], None]
"""Takes why messages are not known to be on disk; None if they are."""


@attrs.frozen(eq=False)
class _Held:
    """Sends that were stored together, and who answers them."""

    count: int
    told: Told


@attrs.define(eq=False, repr=False)
class _Round:
    """What one flush covers."""

    kept: list[Kept] = attrs.field(init=False, factory=list)
    arrived: list[tuple[int, float]] = attrs.field(init=False, factory=list)
    """When so many of these sends came, by `DurableAnswers.clock`, s."""
    held: list[_Held] = attrs.field(init=False, factory=list)
    count: int = attrs.field(init=False, default=0)
    """Sends."""
    since: float = attrs.field(init=False, default=0.0)
    """When the first of them was stored, by `DurableAnswers.clock`, s."""


@attrs.define(eq=False, repr=False)
class DurableAnswers:
    """The answers of one broker. Used on the event loop."""

    loop: asyncio.AbstractEventLoop
    flushes: FlushWaiters
    log_end: Callable[[], int]
    """Returns where the log ends."""
    flush_timeout_ms: int
    times: PutTimes
    clock: Callable[[], float] = time.monotonic
    log_grew: Callable[[], None] | None = None
    """Called when messages are on disk; None if nothing is to be done then."""
    count: int = attrs.field(init=False, default=0)
    """Sends whose answers are kept."""
    _next: _Round = attrs.field(init=False, factory=_Round)
    """What waits for a flush to begin."""
    _covered: _Round = attrs.field(init=False, factory=_Round)
    """What the last flush covered, or the one under way covers."""
    _began: float | None = attrs.field(init=False, default=None)
    """When the flush under way began, by `clock`, s; None if there is none."""
    _last_seconds: float = attrs.field(init=False, default=0.0)
    """How long the last flush took."""
    _timer: asyncio.Handle | None = attrs.field(init=False, default=None)
    """Of the next flush."""

    def waited_ms(self, now: float) -> int:
        """Return for how long the flush under way has lasted; ``now`` is by `clock`, s."""
        return 0 if self._began is None else int((now - self._began) * 1000)

    def keep(self, kept: Sequence[Kept], since: float) -> None:
        """Send answers once everything that is in the log now is on disk.

        Args:
            kept: the answers, at least one.
            since: when the sends came, by `clock`, s.
        """
        count = sum(each.send_count for each in kept)
        self._next.kept.extend(kept)
        self._next.arrived.append((count, since))
        for each in kept:
            try:
                each.peer.hold(each.send_count, each.size)
            except Exception:  # others are answered all the same
                logger.exception("connection not paused count=%d", each.send_count)
                each.peer.cut("it could not be paused")
        self._count_more(count)  # last: a flush ends what was held

    def hold(self, count: int, told: Told) -> None:
        """Have ``told`` called once everything that is in the log now is on disk, or has failed.

        Args:
            count: how many sends.
            told: also counts them, and answers them.
        """
        self._next.held.append(_Held(count, told))
        self._count_more(count)

    @property
    def since(self) -> float | None:
        """When the first send was stored that is not on disk, by `clock`, s; None without one."""
        oldest = self._covered if self._began is not None else self._next
        return oldest.since if oldest.count else None

    def _count_more(self, count: int) -> None:
        self.count += count
        if not self._next.count:
            self._next.since = self.clock()
        self._next.count += count
        if self._began is None and (self._timer is None or self._has_gathered):
            # What else comes in this turn of the loop goes along.
            self._begin_by(self.loop.call_soon(self._begin))

    @property
    def _has_gathered(self) -> bool:
        return self._next.count >= self._covered.count > 1

    def _begin_by(self, timer: asyncio.Handle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    def _begin(self) -> None:
        self._begin_by(None)
        if not self._next.count or self._began is not None:
            return
        covered, self._next = self._next, _Round()
        self._covered = covered
        self._began = self.clock()
        self.times.begin(self._began)
        # All of them are below the log's end now.
        limit = time.monotonic() + self.flush_timeout_ms / 1000
        flushed = self.flushes.begin(self.log_end(), limit)
        flushed.add_done_callback(lambda found: self._end(covered, found))

    def _end(self, covered: _Round, found: asyncio.Future[bool]) -> None:
        now, began = self.clock(), self._began
        self._began = None
        self._last_seconds = 0.0 if began is None else now - began
        self.times.end(now)
        try:
            self._answer(covered, self._error_of(found))
        finally:
            self._go_on()

    def _error_of(self, found: asyncio.Future[bool]) -> Exception | None:
        """Return why messages are not known to be on disk; None if they are."""
        if found.cancelled():
            return ConnectionResetError("the server stops")
        error = found.exception()
        if error is None and found.result():
            return None
        if error is None:
            text = f"FLUSH_DISK_TIMEOUT: stored, but not on disk after {self.flush_timeout_ms} ms"
        elif isinstance(error, FlushDiskTimeoutError):
            text = error.reason
        else:
            assert isinstance(error, Exception)
            return error
        return Refusal(ResponseCode.FLUSH_DISK_TIMEOUT, text)

    def _go_on(self) -> None:
        """Have the next flush begin, if there is one and nobody has seen to that."""
        if self._timer is not None:
            return
        seconds = min(self._last_seconds / 2, _LONGEST_GATHER_SECONDS)
        is_slow = self._last_seconds > _SLOW_FLUSH_SECONDS
        if is_slow and self._covered.count > 1 and not self._has_gathered:
            self._timer = self.loop.call_later(seconds, self._begin)
        else:
            self._begin()

    def _answer(self, covered: _Round, error: Exception | None) -> None:
        self.count -= covered.count
        self._answer_kept(covered, error)
        for each in covered.held:
            try:
                each.told(error)
            except Exception:  # others are answered all the same
                logger.exception("sends not answered count=%d", each.count)
        if self.log_grew is not None:
            self.log_grew()

    def _answer_kept(self, covered: _Round, error: Exception | None) -> None:
        now = self.clock()
        answers = [each.answers for each in covered.kept]
        if error is not None:
            answers = _with_error(answers, error)
        # A message that came to the disk late is stored.
        is_failed = error is not None and not is_late(error)
        for count, since in covered.arrived:
            self.times.answered_same(count, since, now, is_failed=is_failed)
        joined: dict[Connection, tuple[int, int, list[bytes]]] = {}
        for each, answer in zip(covered.kept, answers, strict=True):
            count, size, frames = joined.get(each.peer) or (0, 0, [])
            frames.append(answer)
            joined[each.peer] = count + each.send_count, size + each.size, frames
        write_together([(peer, frames) for peer, (_, _, frames) in joined.items()])
        for peer, (count, size, _) in joined.items():
            try:
                peer.release(count, size)
            except Exception:  # others go on all the same
                logger.exception("requests not ended count=%d", count)
                peer.cut("its requests could not be ended")


def is_late(error: Exception) -> TypeGuard[Refusal]:
    """Whether messages are stored, and only not known to be on disk yet."""
    return isinstance(error, Refusal) and error.code == ResponseCode.FLUSH_DISK_TIMEOUT


def _with_error(kept: Sequence[bytes], error: Exception) -> list[bytes]:
    """Return answers that report an error; a late one also has the offsets of the message."""
    told = None
    found = []
    for answers in kept:
        reader = FrameReader()
        reader.feed(answers)
        changed = []
        while (answer := reader.next_command()) is not None:
            told = told or answer_of_error(answer, error)
            fields = answer.fields if is_late(error) else dict(TRACED)
            code, remark = told.code, told.remark
            changed.append(frame_of(attrs.evolve(answer, code=code, remark=remark, fields=fields)))
        found.append(b"".join(changed))
    return found
