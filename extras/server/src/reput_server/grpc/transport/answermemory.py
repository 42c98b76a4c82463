"""`AnswerMemory`: the memory of answers that nobody has read; `AnswerShare`: one connection's part.

A call that makes a large answer takes memory for it before, and waits until some is free. So
answers that nobody reads have a bound, per connection and in all. If calls wait for the memory of
all, the connection is cut that holds most of it and has read nothing for long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from reput_server.config import Limits

_LOOK_SECONDS: Final = 1.0
"""How often a call that waits for the memory of all looks for a connection to cut."""


@attrs.define(eq=False, repr=False)
class _Waiting:
    """A request that waits for memory."""

    least: int
    most: int
    granted: asyncio.Future[int]


@attrs.define(eq=False, repr=False)
class AnswerMemory:
    """What the answers of all connections of a listener take. Used on the event loop."""

    limit: int
    """Bytes of all connections."""
    limit_of_one: int
    """Bytes of one connection."""
    cut_unread: Callable[[], None] = lambda: None
    """Cuts a connection that does not read its answers, if there is one."""
    held_size: int = attrs.field(init=False, default=0)
    _waiting: dict[AnswerShare, deque[_Waiting]] = attrs.field(init=False, factory=dict)
    """By connection, in the order in which the first of each began to wait."""

    @classmethod
    def of(cls, limits: Limits, cut_unread: Callable[[], None]) -> AnswerMemory:
        """Return that of a listener with these limits."""
        return cls(limits.bytes_of_all, min(limits.unread_bytes, limits.bytes_of_all), cut_unread)

    @property
    def is_full(self) -> bool:
        """Whether answers take all the memory that they may."""
        return self.held_size >= self.limit

    def grant(self) -> None:
        """Give memory to requests that wait, one of each connection in turn."""
        for share in list(self._waiting):
            queue = self._waiting.get(share)
            if queue and self._grant_first(share, queue):
                del self._waiting[share]
                if queue:
                    self._waiting[share] = queue  # behind the others
            if self.is_full:
                return

    def _grant_first(self, share: AnswerShare, queue: deque[_Waiting]) -> bool:
        first = queue[0]
        size = share.free(first.least, first.most)
        if size:
            queue.popleft()
            share.note(size)
            first.granted.set_result(size)
        return bool(size)

    def begin_waiting(self, share: AnswerShare, waiting: _Waiting) -> None:
        """Note a request that waits."""
        self._waiting.setdefault(share, deque()).append(waiting)

    def end_waiting(self, share: AnswerShare, waiting: _Waiting) -> None:
        """Note that a request waits no more."""
        queue = self._waiting.get(share)
        if queue and waiting in queue:
            queue.remove(waiting)
        if not queue:
            self._waiting.pop(share, None)


@attrs.define(eq=False, repr=False)
class AnswerShare:
    """What the answers of one connection take. Used on the event loop."""

    memory: AnswerMemory
    held_size: int = attrs.field(init=False, default=0)

    @property
    def is_full(self) -> bool:
        """Whether the connection, or all, take all the memory that they may."""
        return self.held_size >= self.memory.limit_of_one or self.memory.is_full

    def free(self, least: int, most: int) -> int:
        """Return how many bytes could be taken, ``most`` at most; 0 if fewer than ``least``.

        A request for more than a connection may take gets it if nothing else is held.
        """
        memory = self.memory
        alone = (least if self.held_size == 0 else 0, least if memory.held_size == 0 else 0)
        own = max(memory.limit_of_one - self.held_size, alone[0])
        of_all = max(memory.limit - memory.held_size, alone[1])
        found = min(own, of_all, most)
        return found if found >= least else 0

    def note(self, size: int) -> None:
        """Note by how many bytes what the answers take has grown, or shrunk."""
        self.held_size += size
        self.memory.held_size += size
        if size < 0 and self.memory._waiting:
            self.memory.grant()

    async def take(self, least: int, most: int, seconds: float) -> int:
        """Take memory for an answer; `note` gives it back.

        Args:
            least: bytes that are needed.
            most: bytes that would be used.
            seconds: how long to wait.

        Returns:
            Bytes that were taken; 0 if too few were free in time.
        """
        size = self.free(least, most)
        if size or seconds <= 0:
            self.note(size)
            return size
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        waiting = _Waiting(least, most, loop.create_future())
        self.memory.begin_waiting(self, waiting)
        try:
            while not waiting.granted.done() and (left := end - loop.time()) > 0:
                if self.memory.limit - self.memory.held_size < least:
                    self.memory.cut_unread()
                await asyncio.wait({waiting.granted}, timeout=min(left, _LOOK_SECONDS))
        except BaseException:
            if waiting.granted.done():
                self.note(-waiting.granted.result())
            raise
        finally:
            self.memory.end_waiting(self, waiting)
        return waiting.granted.result() if waiting.granted.done() else 0
