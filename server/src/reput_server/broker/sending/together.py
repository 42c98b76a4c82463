"""`SendsTogether`: all sends that have arrived meanwhile are one put, and wait for one flush."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import FlushDiskTimeoutError, PluginError, PutError, ServiceNotAvailableError
from reput.record import parse_message_id
from reput_remoting import ResponseCode
from reput_server.broker.statistics.times import PutTimes
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput import BatchReceipt, Message
    from reput_server.config import Limits

__all__ = ["SendsTogether", "Stored"]

_ROUND_BYTES: Final = 32 << 20
_ROUND_COUNT: Final = 4_096


@attrs.frozen
class Stored:
    """Where the messages of one send are."""

    places: Sequence[tuple[int, int]]
    """Queue offset and physical offset of each message."""
    late: str | None = None
    """Why they were not on disk in time; None if they were, or need not be."""


@attrs.frozen(eq=False)
class _Waiting:
    messages: Sequence[Message]
    since: float
    done: asyncio.Future[Stored]


@attrs.define(eq=False)
class SendsTogether:
    """Takes sends one by one, and puts them together. Used on the event loop."""

    put_many: Callable[[Sequence[Message]], BatchReceipt]
    queue_offset_at: Callable[[int], int]
    """Returns the queue offset of the message at a physical offset."""
    loop: asyncio.AbstractEventLoop
    executor: Executor
    """One thread: a round begins when the one before has ended."""
    limits: Limits
    clock: Callable[[], int]
    put_count: int = attrs.field(init=False, default=0)
    """Calls of ``put_many``."""
    times: PutTimes = attrs.field(factory=PutTimes)
    """How long sends waited for their answers, and how long puts took."""
    _waiting: deque[_Waiting] = attrs.field(init=False, factory=deque)
    _is_busy: bool = attrs.field(init=False, default=False)

    async def put(self, messages: Sequence[Message]) -> Stored:
        """Store the messages of one send, and return where they are.

        Raises:
            PutError: they cannot be stored.
            Refusal: the store is too slow for what is sent to it.
        """
        if len(self._waiting) >= self.limits.waiting_sends:
            text = "[OVERLOAD]system busy, start flow control for a while"
            raise Refusal(ResponseCode.SYSTEM_BUSY, text)
        done: asyncio.Future[Stored] = self.loop.create_future()
        self._waiting.append(_Waiting(messages, self.loop.time(), done))
        if not self._is_busy:
            self._is_busy = True
            # What else has come in this turn of the loop goes along.
            self.loop.call_soon(self._begin_round)
        return await done

    @property
    def waiting_count(self) -> int:
        """Sends that wait for a put."""
        return len(self._waiting)

    @property
    def head_wait_ms(self) -> int:
        """How long the first of them has waited."""
        return int((self.loop.time() - self._waiting[0].since) * 1000) if self._waiting else 0

    def _begin_round(self) -> None:
        taken = self._take()
        if not taken:
            self._is_busy = False
            return
        self.times.begin(self.loop.time())
        work = self.loop.run_in_executor(
            self.executor, self._put_all, [it.messages for it in taken]
        )
        work.add_done_callback(lambda found: self._end_round(taken, found))

    def _take(self) -> list[_Waiting]:
        taken: list[_Waiting] = []
        size = count = 0
        now = self.loop.time()
        while self._waiting and size < _ROUND_BYTES and count < _ROUND_COUNT:
            each = self._waiting.popleft()
            if each.done.done():
                continue  # its sender has gone
            waited = int((now - each.since) * 1000)
            if waited > self.limits.send_wait_ms:
                text = (
                    "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in "
                    f"queue: {waited}ms, size of queue: {len(self._waiting)}"
                )
                each.done.set_exception(Refusal(ResponseCode.SYSTEM_BUSY, text))
                continue
            taken.append(each)
            size += sum(len(message.body) for message in each.messages)
            count += len(each.messages)
        return taken

    def _end_round(
        self, taken: list[_Waiting], found: asyncio.Future[list[Stored | Exception]]
    ) -> None:
        error = None if found.cancelled() else found.exception()
        results = [error] * len(taken) if error or found.cancelled() else found.result()
        failed = sum(not isinstance(each, Stored) for each in results)
        self.times.end([each.since for each in taken], self.loop.time(), failed)
        for each, result in zip(taken, results, strict=True):
            if each.done.done():
                continue
            if isinstance(result, Stored):
                each.done.set_result(result)
            else:
                each.done.set_exception(result or ConnectionResetError("the server stops"))
        self._begin_round()

    # ------------------------------------------------------------------ on the thread

    def _put_all(self, sends: list[Sequence[Message]]) -> list[Stored | Exception]:
        """Put all sends at once; if one of them is refused, each by itself."""
        try:
            stored = self._put([message for send in sends for message in send])
        except ServiceNotAvailableError as error:
            return [error] * len(sends)
        except (PutError, PluginError) as error:
            if len(sends) == 1:
                return [error]
            return [result for send in sends for result in self._put_all([send])]
        found: list[Stored | Exception] = []
        at = 0
        for send in sends:
            found.append(Stored(stored.places[at : at + len(send)], stored.late))
            at += len(send)
        return found

    def _put(self, messages: Sequence[Message]) -> Stored:
        self.put_count += 1
        try:
            receipt = self.put_many(messages)
        except FlushDiskTimeoutError as error:  # stored, and the producer wants to know where
            ids = str(error.value).split(",")
            physical = [parse_message_id(each)[1] for each in ids]
            return Stored([(self.queue_offset_at(each), each) for each in physical], str(error))
        offsets, positions = receipt.queue_offsets.tolist(), receipt.physical_offsets.tolist()
        return Stored(list(zip(offsets, positions, strict=True)))
