"""`AsyncStore`: a store whose calls are awaited.

It is the same store: a program may use `AsyncStore.store` besides, from other threads, too.
"""

from __future__ import annotations

import asyncio
import functools
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Collection, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from reput import BatchReceipt, Receipt
from reput.errors import FlushDiskTimeoutError, PutError
from reput_aio.asyncreads import AsyncReads
from reput_aio.awaitablecalls import AwaitableCalls, awaitable
from reput_aio.batch import Batch
from reput_aio.readplacement import SLOW_SECONDS, SPARED_SECONDS
from reput_aio.storecalls import LoopState, checked_seconds
from reput_aio.threads import on_own_thread

if TYPE_CHECKING:
    from reput import Columns, Message, Store
    from reput_aio.consumer import AsyncConsumer
    from reput_aio.popconsumer import AsyncPopConsumer
    from reput_aio.transaction import AsyncTransaction

_Answer = TypeVar("_Answer")

_HERE_COUNT: Final = 64
"""Messages that are put on the loop in one call; more than that are put on a thread."""
_RUN_SECONDS: Final = 10.0
"""How long closing waits for the handlers of consumers."""


class AsyncStore(AsyncReads):
    """An open store. Made by `reput.aio.open` and `reput.aio.wrap`; several loops may use it."""

    def __repr__(self) -> str:
        return f"<AsyncStore of {self._store!r}>"

    @property
    def store(self) -> Store:
        """The store, whose calls block."""
        return self._store

    @property
    def closed(self) -> bool:
        """Whether `close` was called, here or of the store."""
        return self._closing is not None or self._store.closed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ------------------------------------------------------------------ writing

    async def put(
        self, message: Message, *, ordered_by: str | int | None = None, wait: bool = True
    ) -> Receipt:
        """Store one message.

        With ``flush="sync"`` it is on disk when this returns, unless the message's property
        ``WAIT`` is ``false``. Puts of many tasks share flushes. If the task is cancelled while it
        waits for the disk, the message stays stored; a note of the exception has its id.

        Args:
            message: the message.
            ordered_by: as for `reput.Store.put`.
            wait: False to return once it is stored; ``await receipt`` then waits for the disk.

        Raises:
            PutError: as for `reput.Store.put`.
            StoreClosedError: the store is closed.
        """
        # Fewer calls than `_state` and `end_turn` make: they were a tenth of what a put takes.
        try:
            state = self._loops[get_running_loop()]
        except (KeyError, RuntimeError):  # the loop's first put; a forked child has no loop
            state = self._state()
        if self._closing is not None:
            self._check()
        if state.put_count < state.puts_max:
            state.put_count += 1
        else:
            await state.wait_turn()
        try:
            began = monotonic()
            if began < state.slow_until:
                put = functools.partial(self._store.put, message, ordered_by=ordered_by, wait=False)
                receipt = await self._put_on_thread(put)
            else:
                receipt = self._store.put(message, ordered_by=ordered_by, wait=False)
            ended = monotonic()
            if ended - began > SLOW_SECONDS:
                state.slow_until = ended + SPARED_SECONDS
            if wait and self._is_sync and (message.properties is None or _waits(message)):
                # As `_durable` does, without one more coroutine for each put.
                end_offset = receipt.physical_offset + receipt.size
                flushed = state.flushes.begin(end_offset, ended + self._flush_seconds)
                try:
                    is_durable = await flushed
                except BaseException as error:
                    state.flushes.forget(flushed)
                    self._explain(error, receipt)
                    raise
                if not is_durable:
                    raise self._late(receipt)
            return receipt
        finally:
            if state.turns:
                state.end_turn()
            else:
                state.put_count -= 1

    async def put_many(
        self,
        messages: Sequence[Message] | Columns,
        *,
        ordered_by: str | int | Sequence[str | int | None] | None = None,
        whole: bool = False,
        wait: bool = True,
    ) -> BatchReceipt:
        """Store many messages in their order, with one wait for the disk.

        Args and errors are those of `reput.Store.put_many`; for cancelled tasks see `put`.
        """
        state = self._state()
        if state.put_count < state.puts_max:
            state.put_count += 1
        else:
            await state.wait_turn()
        try:
            put = functools.partial(
                self._store.put_many, messages, ordered_by=ordered_by, whole=whole, wait=False
            )
            is_small = isinstance(messages, list | tuple) and len(messages) <= _HERE_COUNT
            if is_small and monotonic() >= state.slow_until:
                receipt = put()
            else:
                receipt = await self._put_on_thread(put)
            if self._is_sync and wait and len(receipt):
                await self._durable(state, receipt)
            return receipt
        finally:
            state.end_turn()

    def batch(self, *, whole: bool = False) -> Batch:
        """Return a block that collects messages, and puts them together when it ends.

        Args:
            whole: whether all messages are stored or none; see `reput.Store.put_many`.
        """
        self._check()
        return Batch(functools.partial(self.put_many, whole=whole))

    async def _put_on_thread(self, put: Callable[[], _Answer]) -> _Answer:
        try:
            return await self._threads.call(put)
        except asyncio.CancelledError as error:
            error.add_note("a put was cancelled while it was made on a thread: it may be stored")
            raise

    async def _durable(self, state: LoopState, receipt: BatchReceipt) -> None:
        """Wait until messages that were put are on disk."""
        limit = monotonic() + self._flush_seconds
        flushed = state.flushes.begin(receipt.end_offset, limit)
        try:
            is_durable = await flushed
        except BaseException as error:
            state.flushes.forget(flushed)
            self._explain(error, receipt)
            raise
        if not is_durable:
            raise self._late(receipt)

    def _late(self, receipt: Receipt | BatchReceipt) -> FlushDiskTimeoutError:
        text = f"stored, but not on disk after {self._flush_seconds * 1000:.0f} ms"
        error = FlushDiskTimeoutError("msg_id", receipt.msg_id, None, text)
        self._explain(error, receipt)
        return error

    def _explain(self, error: BaseException, receipt: Receipt | BatchReceipt) -> None:
        """Say in an error that ended a wait for the disk what is stored."""
        if isinstance(error, PutError):
            stored = receipt
            if isinstance(stored, Receipt):
                stored = BatchReceipt.of(self._log, [stored])
            stored.note_in(error)
        elif isinstance(error, asyncio.CancelledError):
            error.add_note(f"a put was cancelled: stored as {receipt.msg_id}, perhaps not on disk")

    async def flush(self) -> None:
        """Bring everything to disk; see `reput.Store.flush`."""
        await self._wait_for(self._store.flush)

    async def wait_dispatched(
        self,
        timeout: float | None = None,
        plugins: Collection[str] | None = None,
        *,
        raise_suspended: bool = False,
    ) -> bool:
        """Wait until plugins have seen what is in the log; see `reput.Store.wait_dispatched`."""
        return await self._wait_for(
            functools.partial(
                self._store.wait_dispatched,
                timeout,
                plugins=plugins,
                raise_suspended=raise_suspended,
            )
        )

    # ------------------------------------------------------------------ consuming, plugins

    def consume(
        self, group: str, topics: Any, *, concurrency: int = 1, **options: Any
    ) -> AsyncConsumer:
        """Return a consumer of a group; the plugin ``consumer`` provides it.

        Iterate over it, or await its `AsyncConsumer.run`.

        Args:
            group: the group.
            topics: what to read.
            concurrency: most messages that are handled at once. If it is 1, a message counts as
                consumed when the next one is taken; otherwise only `AsyncMessage.ack` counts it.
            options: others of the plugin's ``consumer``, such as ``start="earliest"``.
        """
        from reput_aio.consumer import AsyncConsumer

        self._check()
        store: Any = self._store  # type checkers do not know methods of plugins
        return AsyncConsumer(
            lambda explicit: store.consumer(group, topics, explicit=explicit, **options),
            concurrency,
            self._threads,
            self._consumers,
            self._check,
        )

    def pop_consumer(self, group: str, topics: Any, **options: Any) -> AsyncPopConsumer:
        """Return a consumer that is handed messages one by one, each until a deadline.

        Args:
            group: the group.
            topics: what to read.
            options: those of the plugin's ``pop_consumer``, such as ``invisible=30``.
        """
        from reput_aio.popconsumer import AsyncPopConsumer

        self._check()
        store: Any = self._store  # as in `consume`
        return AsyncPopConsumer(
            lambda: store.pop_consumer(group, topics, **options),
            self._threads,
            self._consumers,
            self._check,
        )

    def transaction(self, *group: str) -> AsyncTransaction:
        """Return a block whose messages become visible together, or never.

        Args:
            group: the producer group, if it is not the plugin's own.
        """
        from reput_aio.transaction import AsyncTransaction

        self._check()
        plugin = self._store.plugin("transaction")
        return AsyncTransaction(lambda: plugin.transaction(*group), self._threads, self._check)

    def plugin(self, which: str | type[Any]) -> AwaitableCalls:
        """Return the object of an active plugin, with methods that are awaited.

        ``self.store.plugin(which)`` is the object itself.

        Raises:
            PluginError: the store does not use the plugin.
        """
        self._check()
        return AwaitableCalls(self._store.plugin(which), self._threads, self._check)

    if not TYPE_CHECKING:  # a type checker must not know these names

        def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
            """Return a method that a plugin offers on the store, to be awaited."""
            if name.startswith("_"):
                raise AttributeError(name)
            found = type(self._store).__getattr__(self._store, name)
            return awaitable(found, self._threads.call, self._check)

    # ------------------------------------------------------------------ closing

    async def close(self, timeout: float | None = None) -> None:
        """End consumers and waiting reads, and close the store, if `reput.aio.open` opened it.

        Consumers get no more messages, and their handlers are waited for; then reads that wait
        raise `StoreClosedError`; then the log is flushed, so that puts under way are on disk, or
        raise. A cancelled close goes on; a second call waits for the first one.

        Args:
            timeout: as for `reput.Store.close`, and seconds to wait for handlers; 10 s of each when
                left out.

        Raises:
            ServiceNotAvailableError: as for `reput.Store.close`.
        """
        if timeout is not None:
            checked_seconds("timeout", timeout)
        with self._lock:
            if self._closing is None:
                task = asyncio.current_task()
                waited = [each for each in self._consumers if not each.is_handled_by(task)]
                self._closing = on_own_thread(lambda: self._close(timeout, waited))
            closing = self._closing
        await asyncio.shield(asyncio.wrap_future(closing))

    def _close(self, timeout: float | None, waited: list[Any]) -> None:
        consumers = list(self._consumers)
        for each in consumers:
            each.stop()
        limit = monotonic() + (_RUN_SECONDS if timeout is None else timeout)
        for each in waited:
            each.wait_idle(max(limit - monotonic(), 0))
        for each in consumers:
            each.close_now()
        self._arrivals.close()
        try:
            if self._is_owner:
                self._store.close(timeout)
        finally:
            self._threads.close()


def _waits(message: Message) -> bool:
    """Whether a put of a message waits for the disk, as `reput.Store.put` decides it."""
    properties = message.properties
    if properties is None:
        return True
    if isinstance(properties, bytes):
        from reput.record import parse_properties

        properties = parse_properties(properties)
    return properties.get("WAIT") != "false"
