"""`AsyncReads`: the reads of a store, awaited."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Final, Literal, overload

from reput import ReadStatus
from reput_aio.storecalls import LoopState, StoreCalls, checked_seconds

if TYPE_CHECKING:
    from reput import MessageView, QueryResult, QueueInfo, ReadColumns, ReadResult
    from reput.plugin import MessageFilter

_AT_END: Final = frozenset(
    {
        ReadStatus.NO_MATCHED_LOGIC_QUEUE,
        ReadStatus.NO_MESSAGE_IN_QUEUE,
        ReadStatus.OFFSET_OVERFLOW_ONE,
    }
)
"""The queue has no message at the offset yet."""


_CHUNK_COUNT: Final = 32
"""Messages that `AsyncReads.messages` reads in one call of a thread."""


def _next_of(messages: Iterator[MessageView]) -> list[MessageView]:
    return list(itertools.islice(messages, _CHUNK_COUNT))


class AsyncReads(StoreCalls):
    """The reads of `AsyncStore`."""

    @overload
    async def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: str | MessageFilter | None = None,
        *,
        as_columns: Literal[False] = False,
        wait: float = 0,
    ) -> ReadResult: ...

    @overload
    async def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: str | MessageFilter | None = None,
        *,
        as_columns: Literal[True],
        wait: float = 0,
    ) -> ReadColumns: ...

    async def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: str | MessageFilter | None = None,  # noqa: A002 - as in `reput.Store.read`
        *,
        as_columns: bool = False,
        wait: float = 0,
    ) -> ReadResult | ReadColumns:
        """Read messages of one queue from ``queue_offset`` on; see `reput.Store.read`.

        Args:
            topic: the topic's name.
            queue_id: the queue.
            queue_offset: where to begin.
            max_count: most messages to return.
            max_bytes: stop before this many bytes of records.
            filter: return only messages that it selects.
            as_columns: return columns instead of one object each.
            wait: seconds to wait for a message if the queue has none there (long polling). It
                takes no thread. With a filter, for one that it selects.

        Raises:
            ReputError: as for `reput.Store.read`; `StoreClosedError` also if the store is closed
                while this waits.
        """
        state = self._state()
        given = max_count, max_bytes, filter
        limit = time.monotonic() + checked_seconds("wait", wait)
        is_reported = True
        while True:
            if wait <= 0:
                return await self._read_once(
                    state, given, as_columns, topic, queue_id, queue_offset
                )
            with self._arrivals.awaited(topic, queue_id) as arrived:
                found = await self._read_once(
                    state, given, as_columns, topic, queue_id, queue_offset
                )
                left = limit - time.monotonic()
                if len(found) and not is_reported:
                    self._arrivals.found_more()
                if len(found) or left <= 0:
                    return found
                if found.status is ReadStatus.NO_MATCHED_MESSAGE:
                    queue_offset = found.next_queue_offset
                    if queue_offset < found.max_queue_offset:
                        continue  # the filter has more to examine
                elif found.status not in _AT_END or queue_offset > found.max_queue_offset:
                    return found
                is_reported = await self._arrivals.wait(arrived, left)

    async def _read_once(
        self,
        state: LoopState,
        given: tuple[int, int, str | MessageFilter | None],
        as_columns: bool,
        topic: str,
        queue_id: int,
        queue_offset: int,
    ) -> ReadResult | ReadColumns:
        store, reads = self._store, state.reads
        read = functools.partial(store.read, topic, queue_id, queue_offset, *given)
        if as_columns:  # this takes long by itself
            return await self._threads.call(functools.partial(read, as_columns=True))
        began = time.monotonic()
        if given[2] is not None:  # likewise
            return await self._threads.call(read)
        if reads.allow(topic, queue_id, queue_offset, began):
            found = read()
            size = sum(len(message.record) for message in found.messages)
            reads.note_read(size, began, time.monotonic())
        else:
            found = await self._threads.call(read)
        if found.messages:
            place = found.queue_offsets[0], found.messages[0].physical_offset
            reads.note_place(topic, queue_id, *place, self._log.max_physical_offset)
        return found

    async def messages(
        self,
        topic: str,
        filter: str | MessageFilter | None = None,  # noqa: A002 - as in `reput.Store.messages`
    ) -> AsyncIterator[MessageView]:
        """Iterate over the messages that a topic has now; see `reput.Store.messages`."""
        found = await self._call(self._store.messages, topic, filter)
        while chunk := await self._call(_next_of, found):
            for message in chunk:
                yield message

    async def offset_by_time(
        self,
        topic: str,
        queue_id: int,
        timestamp: int,
        boundary: Literal["lower", "upper"] = "lower",
    ) -> int:
        """Return the queue offset of a time; see `reput.Store.offset_by_time`."""
        return await self._call(self._store.offset_by_time, topic, queue_id, timestamp, boundary)

    async def queues(self) -> list[QueueInfo]:
        """Return all queues; see `reput.Store.queues`."""
        return await self._call(self._store.queues)

    async def query(
        self,
        topic: str,
        key: str,
        begin: int | None = None,
        end: int | None = None,
        limit: int | None = None,
        *,
        oldest_first: bool = False,
        after: int | None = None,
    ) -> QueryResult:
        """Find messages by key; see `reput.Store.query`."""
        return await self._call(
            self._store.query,
            *(topic, key, begin, end, limit),
            oldest_first=oldest_first,
            after=after,
        )
