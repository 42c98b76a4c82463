"""`SendBatcher`: all sends that have arrived meanwhile are one put, and are answered together.

Answers may wait for the disk and for replicas. A put does not wait for a flush, so that the log
goes on growing while the disk works. But it may wait for space on the disk. So a thread makes the
puts of a store that flushes each message; in others a put takes less than a thread needs to wake.
"""

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

from reput_client.remoting import ResponseCode
from reput_server.broker.send.durableanswers import is_late
from reput_server.broker.statistics.latencies import PutTimes
from reput_server.errors import Refusal
from reput_server.replication.replicaacks import Late

if TYPE_CHECKING:
    from reput import Message, Receipt
    from reput_server.broker.liveoptions import LiveOptions
    from reput_server.broker.send.durableanswers import DurableAnswers
    from reput_server.broker.send.roundput import Places, Result, RoundPut

_ROUND_BYTES: Final = 32 << 20
_ROUND_COUNT: Final = 4_096
_SLOW_SECONDS: Final = 0.05
"""A put that takes longer has waited for more than a processor that others use, too."""
_SPARED_SECONDS: Final = 1.0


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

    def placed(self) -> None:
        """Note that the log has the messages; `stored` or `failed` is called later."""
        ...

    def stored(self, places: Places, late: Late | None) -> None:
        """Take where the messages are.

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


@attrs.frozen
class Stored:
    """Where the messages of one send are."""

    places: Places
    late: Late | None = None
    """Why they were not on disk, or not at replicas, in time; None if they were, or need not be."""


@attrs.frozen(eq=False)
class _Awaited:
    """A send that a coroutine waits for."""

    messages: Sequence[Message]
    size: int
    since: float
    done: asyncio.Future[Stored]
    told_placed: Callable[[], None] | None = None

    @property
    def is_gone(self) -> bool:
        return self.done.done()

    def placed(self) -> None:
        if self.told_placed is not None:
            self.told_placed()

    def stored(self, places: Places, late: Late | None) -> None:
        if not self.done.done():
            self.done.set_result(Stored(places, late))

    def failed(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


@attrs.define(eq=False, repr=False)
class SendBatcher:
    """Takes sends one by one, and puts them together. Used on the event loop."""

    puts: RoundPut
    loop: asyncio.AbstractEventLoop
    executor: Executor
    """One thread: a round begins when the one before has ended."""
    options: LiveOptions
    times: PutTimes = attrs.field(factory=PutTimes)
    """How long sends waited for their answers, and how long puts took."""
    durable: DurableAnswers | None = None
    """Whom answers wait for that are given when messages are on disk; None if they do not wait."""
    clock: Callable[[], float] = time.monotonic
    """s. Not the loop's: that of uvloop stands while a put is made."""
    replication: Replication | None = None
    """Whom answers wait for; None if they wait for no replica."""
    log_grew: Callable[[], None] | None = None
    """Called when sends are stored that wait for no replica; None if nothing is to be done then."""
    put_count: int = attrs.field(init=False, default=0)
    """Rounds."""
    after_round: list[Callable[[], None]] = attrs.field(init=False, factory=list)
    """Called when all sends of a round have their results."""
    _waiting: deque[Send] = attrs.field(init=False, factory=deque)
    _is_busy: bool = attrs.field(init=False, default=False)
    _taken_at: float = attrs.field(init=False, default=-math.inf)
    """When the last round was put together, by the monotonic clock, s; what was there before and is
    there still has been passed over."""
    _round_began: float | None = attrs.field(init=False, default=None)
    """When the put under way began, by `clock`, s; None if there is none."""
    _slow_until: float = attrs.field(init=False, default=0.0)
    """Until when the loop is spared a store that was slow, by the monotonic clock, s."""

    async def put(
        self, messages: Sequence[Message], placed: Callable[[], None] | None = None
    ) -> Stored:
        """Store the messages of one send, and return where they are.

        Args:
            messages: at least one.
            placed: called when the log has them, if the answer has to wait after that.

        Raises:
            PutError: they cannot be stored.
            Refusal: the store is too slow for what is sent to it.
        """
        done: asyncio.Future[Stored] = self.loop.create_future()
        size = sum(len(message.body) for message in messages)
        self.add(_Awaited(messages, size, self.clock(), done, placed))
        return await done

    def add(self, send: Send) -> None:
        """Have a send stored, after all that were added before.

        Raises:
            Refusal: the store is too slow for what is sent to it.
        """
        if self.waiting_count >= self.options.limits.waiting_sends:
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
        return self.durable is None and self.replication is None

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
        durable, limits = self.durable, self.options.limits
        return (
            durable is not None
            and self.replication is None
            and now >= self._slow_until
            and durable.waited_ms(now) <= limits.send_wait_ms
            and self.waiting_count < limits.waiting_sends
        )

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
            receipt = self.puts.put_one(message)
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

    def _may_take_long(self, now: float) -> bool:
        """Whether the loop has to be spared a put."""
        return self.durable is not None or now < self._slow_until

    def _spare_if_slow(self, began: float, ended: float) -> None:
        if ended - began > _SLOW_SECONDS:
            self._slow_until = ended + _SPARED_SECONDS

    @property
    def waiting_count(self) -> int:
        """Sends that are not stored, or not on disk where answers wait for that."""
        return len(self._waiting) + (0 if self.durable is None else self.durable.count)

    @property
    def head_wait_ms(self) -> int:
        """How long the first of them has waited."""
        since = [each.since for each in itertools.islice(self._waiting, 1)]
        if self.durable is not None and self.durable.since is not None:
            since.append(self.durable.since)
        return int((self.clock() - min(since)) * 1000) if since else 0

    @property
    def put_ms(self) -> int:
        """For how long the put under way has lasted, or the flush under way; 0 without one."""
        began = [each for each in (self._round_began, self.times.began) if each is not None]
        return int((self.clock() - min(began)) * 1000) if began else 0

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
        self._begin_put(now)
        # Where it takes microseconds, a thread takes longer to be woken.
        if self._may_take_long(now):
            return self._put_on_thread(taken)
        results: Sequence[Result]
        try:
            results, end_offset = self.puts.put_all(taken)
        except Exception as error:  # each of them is answered, whatever it is
            results, end_offset = [error] * len(taken), 0
        ended = self.clock()
        self._spare_if_slow(now, ended)
        self._end_put(ended)
        self._answer(taken, results, end_offset)
        return False

    def _begin_put(self, now: float) -> None:
        self.put_count += 1
        self._round_began = now

    def _end_put(self, now: float) -> None:
        began, self._round_began = self._round_began, None
        if began is not None and self.durable is None:  # which counts flushes
            self.times.puts.add(now - began)

    def _put_on_thread(self, taken: list[Send]) -> bool:
        """Have sends put on the thread; answer that nothing was stored if none can start."""
        sends = taken.copy()
        try:
            work = self.loop.run_in_executor(self.executor, self.puts.put_all, sends)
        except RuntimeError as error:
            # The executor has kept the call, and makes it once it has a thread.
            sends.clear()
            self._end_put(self.clock())
            text = f"[OVERLOAD]system busy, no thread can be started for the put: {error}"
            refusal = Refusal(ResponseCode.SYSTEM_BUSY, text)
            self._tell(taken, [refusal] * len(taken), None)
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

    def _end_round_of(
        self, taken: list[Send], found: asyncio.Future[tuple[list[Result], int]]
    ) -> None:
        error = None if found.cancelled() else found.exception()
        ended: list[Result]
        if found.cancelled() or error is not None:
            raised = error if isinstance(error, Exception) else None
            ended, end_offset = [raised or ConnectionResetError("the server stops")] * len(taken), 0
        else:
            ended, end_offset = found.result()
        now = self.clock()
        self._end_put(now)
        if self._may_take_long(now):
            try:
                self._begin_round()  # first: the store works while these are answered
            finally:
                self._answer(taken, ended, end_offset)
            return
        # The next round is put and answered on the loop.
        try:
            self._answer(taken, ended, end_offset)
        finally:
            self._begin_round()

    def _answer(self, taken: list[Send], results: Sequence[Result], end_offset: int) -> None:
        """Answer sends; stored ones once the disk and replicas have them, if answers wait for that.

        Args:
            taken: the sends.
            results: how each ended.
            end_offset: where the log ended when all of them were stored.
        """
        if self.answers_at_once:
            self._tell(taken, results, None)
            if self.log_grew is not None:
                self.log_grew()
            return
        held: list[Send] = []
        refused: list[Send] = []
        places: list[Result] = []
        errors: list[Result] = []
        for send, result in zip(taken, results, strict=True):
            is_refused = isinstance(result, Exception)
            (refused if is_refused else held).append(send)
            (errors if is_refused else places).append(result)
        if refused:
            self._tell(refused, errors, None)
        if not held:
            return
        if self.durable is None:
            self._answer_replicated(held, places, end_offset)
            return
        self.durable.hold(
            len(held), lambda error: self._answer_flushed(held, places, end_offset, error)
        )
        for send in held:
            send.placed()

    def _answer_flushed(
        self, held: list[Send], places: list[Result], end_offset: int, error: Exception | None
    ) -> None:
        """Answer sends that are on disk, or are not, for which ``error`` gives the reason."""
        if error is None:
            self._answer_replicated(held, places, end_offset)
        elif is_late(error):
            # Stored, and the producer wants to know where.
            self._tell(held, places, Late(ResponseCode.FLUSH_DISK_TIMEOUT, error.remark))
        else:
            self._tell(held, [error] * len(held), None)

    def _answer_replicated(self, held: list[Send], places: list[Result], end_offset: int) -> None:
        if self.replication is None:
            self._tell(held, places, None)
        else:
            self.replication.hold(end_offset, lambda late: self._tell(held, places, late))

    def _tell(self, taken: Sequence[Send], results: Sequence[Result], late: Late | None) -> None:
        failed_count = 0
        for each, result in zip(taken, results, strict=True):
            if isinstance(result, Exception):
                failed_count += 1
                each.failed(result)
            else:
                each.stored(result, late)
        self.times.answered([each.since for each in taken], self.clock(), failed_count)
        self._tell_round_over()

    def _tell_round_over(self) -> None:
        for call in self.after_round:
            call()
