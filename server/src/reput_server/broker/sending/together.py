"""`SendsTogether`: all sends that have arrived meanwhile are one put, and wait for one flush."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Final, Protocol

import attrs

from reput import Durability
from reput.errors import PluginError, PutError, ServiceNotAvailableError
from reput_remoting import ResponseCode
from reput_server.broker.statistics.times import PutTimes
from reput_server.errors import Refusal
from reput_server.replicas.waits import Late

if TYPE_CHECKING:
    from reput import BatchReceipt, Message, Receipt
    from reput_server.broker.options import Options

__all__ = ["Send", "SendsTogether", "Stored"]

_ROUND_BYTES: Final = 32 << 20
_ROUND_COUNT: Final = 4_096
_SINGLE_COUNT: Final = 3
"""Sends of a round that are put one by one: for so few that is faster than together."""
_SLOW_SECONDS: Final = 0.05
"""A put that takes longer has waited for more than a processor that others use, too."""
_SPARED_SECONDS: Final = 1.0

Result = tuple[Sequence[tuple[int, int]], Late | None] | Exception
"""Places and why they are late, as `Send.stored` takes them; or why there are none."""


class Send(Protocol):
    """A send that waits for the store."""

    @property
    def messages(self) -> Sequence[Message]:
        """At least one."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the bodies."""
        ...

    @property
    def since(self) -> float:
        """When it came, by the monotonic clock, s."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether nobody wants it any more."""
        ...

    def stored(self, places: Sequence[tuple[int, int]], late: Late | None) -> None:
        """Take queue offset and physical offset of each message.

        Args:
            places: one for each message.
            late: why they were not on disk, or not at replicas, in time; None if they were, or need
                not be.
        """
        ...

    def failed(self, error: Exception) -> None:
        """Take why nothing was stored."""
        ...


class Replication(Protocol):
    """Knows when replicas have what was stored."""

    def hold(self, end_offset: int, told: Callable[[Late | None], None]) -> None:
        """Have ``told`` called when they have the log below ``end_offset``, or have not in time."""
        ...


class PutMany(Protocol):
    """`reput.Store.put_many`."""

    def __call__(
        self, messages: Sequence[Message], *, whole: bool = ..., wait: bool = ...
    ) -> BatchReceipt:
        """Store messages."""
        ...


@attrs.frozen
class Stored:
    """Where the messages of one send are."""

    places: Sequence[tuple[int, int]]
    """Queue offset and physical offset of each message."""
    late: Late | None = None
    """Why they were not on disk, or not at replicas, in time; None if they were, or need not be."""


@attrs.frozen(eq=False)
class _Awaited:
    """A send that a coroutine waits for."""

    messages: Sequence[Message]
    size: int
    since: float
    done: asyncio.Future[Stored]

    @property
    def is_gone(self) -> bool:
        return self.done.done()

    def stored(self, places: Sequence[tuple[int, int]], late: Late | None) -> None:
        if not self.done.done():
            self.done.set_result(Stored(places, late))

    def failed(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


@attrs.define(eq=False)
class SendsTogether:
    """Takes sends one by one, and puts them together. Used on the event loop."""

    put_one: Callable[[Message], Receipt]
    put_many: PutMany
    loop: asyncio.AbstractEventLoop
    executor: Executor
    """One thread: a round begins when the one before has ended."""
    options: Options
    times: PutTimes = attrs.field(factory=PutTimes)
    """How long sends waited for their answers, and how long puts took."""
    flush_timeout_ms: int = 5_000
    """How long a round waits for the disk, if it does."""
    is_flushed: bool = False
    """Whether a put waits for the disk. One that does not takes microseconds, less than a thread
    takes to be woken, so it is made on the loop, as long as the store is that fast."""
    clock: Callable[[], float] = time.monotonic
    """s. Not the loop's: that of uvloop stands while a put is made."""
    replication: Replication | None = None
    """Whom answers wait for; None if they wait for no replica."""
    log_end: Callable[[], int] = lambda: 0
    """Returns where the log ends; asked if answers wait for replicas."""
    log_grew: Callable[[], None] | None = None
    """Called when sends are stored that wait for no replica; None if nothing is to be done then."""
    put_count: int = attrs.field(init=False, default=0)
    """Rounds."""
    after_round: list[Callable[[], None]] = attrs.field(init=False, factory=list)
    """Called when all sends of a round have been told how it ended."""
    _waiting: deque[Send] = attrs.field(init=False, factory=deque)
    _is_busy: bool = attrs.field(init=False, default=False)
    _taken_at: float = attrs.field(init=False, default=-math.inf)
    """When the last round was put together, by the monotonic clock, s; what was there before and is
    there still has been passed over."""
    _end_offset: int = attrs.field(init=False, default=0)
    """Where the log ended after the last put, of which answers are to wait for replicas."""
    _slow_until: float = attrs.field(init=False, default=0.0)
    """Until when the loop is spared a store that was slow, by the monotonic clock, s."""

    async def put(self, messages: Sequence[Message]) -> Stored:
        """Store the messages of one send, and return where they are.

        Raises:
            PutError: they cannot be stored.
            Refusal: the store is too slow for what is sent to it.
        """
        done: asyncio.Future[Stored] = self.loop.create_future()
        size = sum(len(message.body) for message in messages)
        self.add(_Awaited(messages, size, self.clock(), done))
        return await done

    def add(self, send: Send) -> None:
        """Have a send stored, after all that were added before.

        Raises:
            Refusal: the store is too slow for what is sent to it.
        """
        if len(self._waiting) >= self.options.limits.waiting_sends:
            text = "[OVERLOAD]system busy, start flow control for a while"
            raise Refusal(ResponseCode.SYSTEM_BUSY, text)
        self._waiting.append(send)
        if not self._is_busy:
            self._is_busy = True
            # What else has come in this turn of the loop goes along.
            self.loop.call_soon(self._begin_round)

    @property
    def answers_at_once(self) -> bool:
        """Whether answers wait neither for the disk nor for replicas."""
        return not self.is_flushed and self.replication is None

    def may_put_here(self, now: float) -> bool:
        """Whether sends can be put on the loop, and answered when they are stored.

        Args:
            now: by `clock`, s.
        """
        return (
            self.answers_at_once
            and not self._is_busy  # the round may be on the executor, and has the log's lock
            and now >= self._slow_until
            and len(self._waiting) < self.options.limits.waiting_sends
        )

    def may_put_late(self, now: float) -> bool:
        """Whether sends that wait for the disk can be put on the loop, and answered later.

        Args:
            now: by `clock`, s.
        """
        return self.is_flushed and self.replication is None and now >= self._slow_until

    def put_late(self, began: float) -> None:
        """Note that sends were put on the loop since ``began``, by `clock`, s; not answered yet."""
        self.put_count += 1
        self._spare_if_slow(began, self.clock())

    def put_one_here(self, message: Message) -> Receipt:
        """Store a message on the loop, which `may_put_here` has allowed, and return where it is.

        Raises:
            PutError: it cannot be stored.
            PluginError: a plugin failed.
        """
        began = self.clock()
        try:
            receipt = self.put_one(message)
        except Exception:
            ended = self.clock()
            self._spare_if_slow(began, ended)
            self.times.answered([began], ended, 1)
            raise
        self.put_here(1, began)
        return receipt

    def put_here(self, count: int, began: float) -> None:
        """Note that so many sends were put on the loop since ``began``, by `clock`, s."""
        self.put_count += 1
        ended = self.clock()
        self._spare_if_slow(began, ended)
        self.times.put_here(count, began, ended)
        if self.log_grew is not None:
            self.log_grew()

    def _spare_if_slow(self, began: float, ended: float) -> None:
        if ended - began > _SLOW_SECONDS:
            self._slow_until = ended + _SPARED_SECONDS

    @property
    def waiting_count(self) -> int:
        """Sends that are not stored yet."""
        return len(self._waiting)

    @property
    def head_wait_ms(self) -> int:
        """How long the first of them has waited."""
        return int((self.clock() - self._waiting[0].since) * 1000) if self._waiting else 0

    def _begin_round(self) -> None:
        is_on_thread = False
        try:
            is_on_thread = self._put_round()
        finally:
            # Whatever was raised: else no send would ever be put again.
            if not is_on_thread:
                self._go_on()

    def _go_on(self) -> None:
        if self._waiting:
            self.loop.call_soon(self._begin_round)
        else:
            self._is_busy = False

    def _put_round(self) -> bool:
        """Put what waits; True if a thread does it, and `_end_round_of` is called at its end."""
        now = self.clock()
        taken = self._take(now)
        if not taken:
            self._tell_round_over()  # of sends that waited too long
            return False
        self.times.begin(now)
        if self.is_flushed or now < self._slow_until:
            return self._put_on_thread(taken)
        results: Sequence[Result]
        try:
            results = self._put_all(taken)
        except Exception as error:  # each of them is answered, whatever it is
            results = [error] * len(taken)
        ended = self.clock()
        self._spare_if_slow(now, ended)
        self.times.end(ended)
        self._answer(taken, results, self._end_offset)
        return False

    def _put_on_thread(self, taken: list[Send]) -> bool:
        """Have sends put on the thread; answer that nothing was stored if none can start."""
        sends = taken.copy()
        try:
            work = self.loop.run_in_executor(self.executor, self._put_all, sends)
        except RuntimeError as error:
            # The executor has kept the call, and makes it once it has a thread.
            sends.clear()
            self.times.end(self.clock())
            text = f"[OVERLOAD]system busy, no thread can be started for the put: {error}"
            refusal = Refusal(ResponseCode.SYSTEM_BUSY, text)
            self._tell(taken, [refusal] * len(taken))
            return False
        work.add_done_callback(lambda found: self._end_round_of(taken, found))
        return True

    def _take(self, now: float) -> list[Send]:
        taken: list[Send] = []
        size = count = 0
        while self._waiting and size < _ROUND_BYTES and count < _ROUND_COUNT:
            each = self._waiting.popleft()
            if each.is_gone:
                continue
            waited = int((now - each.since) * 1000)
            # A slow disk alone does not matter: sends that came meanwhile go with the next round.
            if waited > self.options.limits.send_wait_ms and each.since < self._taken_at:
                text = (
                    "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in "
                    f"queue: {waited}ms, size of queue: {len(self._waiting)}"
                )
                each.failed(Refusal(ResponseCode.SYSTEM_BUSY, text))
                continue
            taken.append(each)
            size += each.size
            count += len(each.messages)
        self._taken_at = now
        return taken

    def _end_round_of(self, taken: list[Send], found: asyncio.Future[list[Result]]) -> None:
        error = None if found.cancelled() else found.exception()
        if found.cancelled() or error is not None:
            raised = error if isinstance(error, Exception) else None
            ended: list[Result] = [raised or ConnectionResetError("the server stops")] * len(taken)
        else:
            ended = found.result()
        self.times.end(self.clock())
        end_offset = self._end_offset
        if self.is_flushed or self.clock() < self._slow_until:
            try:
                self._begin_round()  # first: the disk works while these are answered
            finally:
                self._answer(taken, ended, end_offset)
            return
        # The next round is put and answered on the loop.
        try:
            self._answer(taken, ended, end_offset)
        finally:
            self._begin_round()

    def _answer(self, taken: list[Send], results: Sequence[Result], end_offset: int) -> None:
        """Answer sends; stored ones once replicas have them, if the options ask for that.

        Args:
            taken: the sends.
            results: how each ended.
            end_offset: where the log ended when all of them were stored.
        """
        replication = self.replication
        if replication is None:
            self._tell(taken, results)
            if self.log_grew is not None:
                self.log_grew()
            return
        held, waiting = [], []
        ended, given = [], []
        for send, result in zip(taken, results, strict=True):
            if isinstance(result, Exception) or result[1] is not None:
                ended.append(send)
                given.append(result)
            else:
                held.append(send)
                waiting.append(result[0])
        if ended:
            self._tell(ended, given)
        if held:
            replication.hold(
                end_offset, lambda late: self._tell(held, [(each, late) for each in waiting])
            )

    def _tell(self, taken: Sequence[Send], results: Sequence[Result]) -> None:
        failed_count = 0
        for each, result in zip(taken, results, strict=True):
            if isinstance(result, Exception):
                failed_count += 1
                each.failed(result)
            else:
                each.stored(*result)
        self.times.answered([each.since for each in taken], self.clock(), failed_count)
        self._tell_round_over()

    def _tell_round_over(self) -> None:
        for call in self.after_round:
            call()

    # ------------------------------------------------------------------ perhaps on the thread

    def _put_all(self, sends: list[Send]) -> list[Result]:
        """Put all sends of a round; what the store has stored is never put again."""
        self.put_count += 1
        receipts: list[BatchReceipt] = []
        found = self._stored(sends, receipts)
        if self.replication is not None:
            self._end_offset = (
                self.log_end()
            )  # before others append more while the disk is waited for
        if self.is_flushed and receipts:
            return self._when_flushed(found, receipts[-1])
        return found

    def _stored(self, sends: list[Send], receipts: list[BatchReceipt]) -> list[Result]:
        if len(sends) <= _SINGLE_COUNT and not self.is_flushed:
            return [result for send in sends for result in self._put_one(send)]
        found: list[Result] = []
        for are_batches, group in itertools.groupby(sends, lambda send: len(send.messages) > 1):
            if are_batches:
                for send in group:
                    found += self._put_batch(send, receipts)
            else:
                found += self._put_run(list(group), receipts)
        return found

    def _put_one(self, send: Send) -> list[Result]:
        if len(send.messages) > 1:
            return self._put_batch(send, [])
        try:
            receipt = self.put_one(send.messages[0])
        except (PutError, PluginError) as error:
            return [error]
        return [(((receipt.queue_offset, receipt.physical_offset),), None)]

    def _put_batch(self, send: Send, receipts: list[BatchReceipt]) -> list[Result]:
        """Put the messages of one producer's batch: all of them or none."""
        try:
            receipt = self.put_many(send.messages, whole=True, wait=False)
        except (PutError, PluginError) as error:
            return [error]
        receipts.append(receipt)
        return [(_places_of(receipt), None)]

    def _put_run(self, sends: list[Send], receipts: list[BatchReceipt]) -> list[Result]:
        """Put sends of one message each; each refusal concerns one send."""
        try:
            receipt = self.put_many([send.messages[0] for send in sends], wait=False)
        except (PutError, PluginError) as error:
            found: list[Result] = []
            if isinstance(error, PutError) and error.stored is not None:
                receipts.append(error.stored)
                found = [((place,), None) for place in _places_of(error.stored)]
            left = sends[len(found) :]
            if len(left) == 1 or isinstance(error, ServiceNotAvailableError):
                return found + [error] * len(left)
            return found + [each for send in left for each in self._put_run([send], receipts)]
        receipts.append(receipt)
        return [((place,), None) for place in _places_of(receipt)]

    def _when_flushed(self, found: list[Result], last: BatchReceipt) -> list[Result]:
        """Wait for the disk, once for all; ``last`` ends after all others."""
        timeout = self.flush_timeout_ms
        try:
            if last.wait(timeout / 1000) is Durability.DURABLE:
                return found
        except PutError as error:
            return [each if isinstance(each, Exception) else error for each in found]
        # Stored, and the producer wants to know where.
        text = f"FLUSH_DISK_TIMEOUT: stored, but not on disk after {timeout} ms"
        late = Late(ResponseCode.FLUSH_DISK_TIMEOUT, text)
        return [each if isinstance(each, Exception) else (each[0], late) for each in found]


def _places_of(receipt: BatchReceipt) -> Sequence[tuple[int, int]]:
    offsets, positions = receipt.queue_offsets.tolist(), receipt.physical_offsets.tolist()
    return list(zip(offsets, positions, strict=True))
