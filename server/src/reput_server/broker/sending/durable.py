"""`DurableAnswers`: keeps the answers to sends that are stored until these are on disk.

Sends that are stored while the disk works go with the next flush. Before that flush begins, the
producers that were just answered get a moment to send again: fewer flushes, and fewer turns of
producers and server, for the same messages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

import attrs

from reput_remoting import FrameReader, ResponseCode
from reput_server.broker.sending.properties import TRACED
from reput_server.broker.statistics.times import PutTimes
from reput_server.errors import Refusal
from reput_server.wire.answering import answer_of_error, frame_of

if TYPE_CHECKING:
    from reput_server.wire.contract import Connection

__all__ = ["DurableAnswers"]

WaitFlushed = Callable[[int, float | None], bool]
"""`reput.store.calls.writes.DirectPuts.wait_flushed`."""
_GATHER_SECONDS: Final = 0.001
"""How long a flush waits, at most, for as many sends as the one before it covered."""


@attrs.frozen(eq=False)
class _Kept:
    """Sends of one connection that were stored together."""

    peer: Connection
    count: int
    size: int
    answers: bytes
    since: float
    wait_flushed: WaitFlushed


@attrs.define(eq=False)
class DurableAnswers:
    """The answers of one broker. Used on the event loop."""

    loop: asyncio.AbstractEventLoop
    executor: Executor
    """One thread, which waits for the disk."""
    log_end: Callable[[], int]
    """Returns where the log ends."""
    flush_timeout_ms: int
    times: PutTimes
    clock: Callable[[], float] = time.monotonic
    count: int = attrs.field(init=False, default=0)
    """Sends whose answers are kept."""
    _kept: list[_Kept] = attrs.field(init=False, factory=list)
    _kept_count: int = attrs.field(init=False, default=0)
    _covered_count: int = attrs.field(init=False, default=0)
    """Sends that the last flush covered."""
    _is_flushing: bool = attrs.field(init=False, default=False)
    _timer: asyncio.Handle | None = attrs.field(init=False, default=None)
    """Of the next flush."""

    def keep(
        self,
        peer: Connection,
        count: int,
        size: int,
        answers: bytes,
        since: float,
        wait_flushed: WaitFlushed,
    ) -> None:
        """Send answers once everything that is in the log now is on disk.

        Args:
            peer: whose sends they answer.
            count: how many sends.
            size: bytes of their frames.
            answers: the frames of the answers; of sends that go one way there is none.
            since: when the sends came, by `clock`, s.
            wait_flushed: of the store.
        """
        peer.hold(count, size)
        self.count += count
        self._kept_count += count
        self._kept.append(_Kept(peer, count, size, answers, since, wait_flushed))
        if self._is_flushing:
            return
        if self._timer is None:
            # What else comes in this turn of the loop goes along.
            self._timer = self.loop.call_soon(self._begin)
        elif self._kept_count >= self._covered_count > 1:
            self._timer.cancel()
            self._timer = self.loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._timer = None
        if not self._kept:
            return
        kept, self._kept = self._kept, []
        self._covered_count, self._kept_count = self._kept_count, 0
        wait_flushed, end_offset = kept[-1].wait_flushed, self.log_end()
        try:
            work = self.loop.run_in_executor(self.executor, self._wait, wait_flushed, end_offset)
        except RuntimeError as error:
            # The messages stay, and the flush of the store comes to them.
            text = f"stored, but not known to be on disk: no thread can be started: {error}"
            self._answer(kept, Refusal(ResponseCode.FLUSH_DISK_TIMEOUT, text))
            return
        self._is_flushing = True
        work.add_done_callback(lambda found: self._end(kept, found))

    def _wait(self, wait_flushed: WaitFlushed, end_offset: int) -> None:
        if not wait_flushed(end_offset, self.flush_timeout_ms / 1000):
            text = f"FLUSH_DISK_TIMEOUT: stored, but not on disk after {self.flush_timeout_ms} ms"
            raise Refusal(ResponseCode.FLUSH_DISK_TIMEOUT, text)

    def _end(self, kept: list[_Kept], found: asyncio.Future[None]) -> None:
        error: BaseException | None = None
        if found.cancelled():
            error = ConnectionResetError("the server stops")
        else:
            error = found.exception()
        self._is_flushing = False
        try:
            self._answer(kept, error if isinstance(error, Exception) else None)
        finally:
            if self._kept_count >= self._covered_count:
                self._begin()
            elif self._covered_count > 1:
                self._timer = self.loop.call_later(_GATHER_SECONDS, self._begin)
            elif self._kept:
                self._begin()

    def _answer(self, kept: list[_Kept], error: Exception | None) -> None:
        now = self.clock()
        # A message that came to the disk late is stored.
        is_failed = error is not None and not _is_late(error)
        joined: dict[Connection, list[_Kept]] = {}
        for each in kept:
            joined.setdefault(each.peer, []).append(each)
            self.count -= each.count
            self.times.put_here(each.count, each.since, now)
            self.times.failed_count += each.count if is_failed else 0
        for peer, together in joined.items():
            answers = b"".join(each.answers for each in together)
            if error is not None:
                answers = _changed(answers, error)
            count, size = sum(each.count for each in together), sum(each.size for each in together)
            peer.release(count, size, answers)


def _is_late(error: Exception) -> bool:
    return isinstance(error, Refusal) and error.code == ResponseCode.FLUSH_DISK_TIMEOUT


def _changed(answers: bytes, error: Exception) -> bytes:
    """Return answers that tell of the error; one that came late tells where the message is, too."""
    reader = FrameReader()
    reader.feed(answers)
    found = []
    while (answer := reader.next_command()) is not None:
        code, remark = (told := answer_of_error(answer, error)).code, told.remark
        fields = answer.fields if _is_late(error) else dict(TRACED)
        found.append(frame_of(attrs.evolve(answer, code=code, remark=remark, fields=fields)))
    return b"".join(found)
