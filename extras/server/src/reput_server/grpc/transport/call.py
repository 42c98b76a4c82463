"""`Call`: one call of a connection, from its first byte to its last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import attrs

from reput_server.grpc.transport.framing import CallError, Messages, RpcStatus
from reput_server.grpc.transport.methods import CallHead, Method

_UNREAD_MAX: Final = 1_000
"""Messages of one request that wait until the service reads them."""
_END: Final = None


@attrs.define(eq=False, repr=False)
class Call:
    """One call. Used on the event loop."""

    number: int
    """Of its stream."""
    method: Method
    head: CallHead
    messages: Messages
    count_held: Callable[[int], None]
    """Called with the number of bytes by which the call's memory grows or shrinks."""
    task: asyncio.Task[None] | None = attrs.field(init=False, default=None)
    """What works on it."""
    is_begun: bool = attrs.field(init=False, default=False)
    """Whether its answer has begun."""
    drained: asyncio.Event | None = attrs.field(init=False, default=None)
    """Set when the client has room for more of the answer; None unless that is waited for."""
    unread_since: float | None = attrs.field(init=False, default=None)
    """Since when that is waited for, by the loop's clock, s."""
    _held_size: int = attrs.field(init=False, default=0)
    """What was counted as held."""
    _whole_size: int = attrs.field(init=False, default=0)
    """Bytes of messages that are whole, without compression, and not read yet."""
    _is_over: bool = attrs.field(init=False, default=False)
    _only: list[bytes] = attrs.field(init=False, factory=list)
    _many: asyncio.Queue[bytes | None] | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        if self.method.takes_many:
            self._many = asyncio.Queue()

    def feed(self, data: bytes, *, is_ended: bool) -> bool:
        """Take bytes of the request; True if the service can begin.

        If its messages are behind then, it has to be called so, with no bytes, until they are not.

        Raises:
            CallError: they are not what the method takes.
        """
        found = self.messages.feed(data) if data or self.messages.is_behind else []
        self._whole_size += sum(len(each) for each in found)
        self._count()
        is_ended = is_ended and not self.messages.is_behind
        if is_ended and self.messages.is_cut_short:
            raise CallError(RpcStatus.INTERNAL, "the request ends within a message")
        if self._many is not None:
            for each in found:
                self._many.put_nowait(each)
            if self._many.qsize() > _UNREAD_MAX:
                text = f"{self._many.qsize()} messages wait to be read"
                raise CallError(RpcStatus.RESOURCE_EXHAUSTED, text)
            if is_ended:
                self._many.put_nowait(_END)
            return self.task is None
        self._only += found
        if len(self._only) > 1 or (is_ended and not self._only):
            text = f"one message expected, found {len(self._only)}"
            raise CallError(RpcStatus.UNIMPLEMENTED, text)
        return is_ended

    def request(self) -> Any:
        """Return the request's only message, or an iterator over its messages.

        Raises:
            CallError: the message is not valid.
        """
        return (
            self.method.parsed(self._only.pop()) if self._many is None else self._read(self._many)
        )

    async def _read(self, messages: asyncio.Queue[bytes | None]) -> AsyncIterator[Any]:
        while (message := await messages.get()) is not _END:
            self._whole_size -= len(message)
            self._count()
            yield self.method.parsed(message)

    def _count(self) -> None:
        """Have what it holds counted, as it is in memory and not as it came."""
        held = 0 if self._is_over else self.messages.held_size + self._whole_size
        self.count_held(held - self._held_size)
        self._held_size = held

    def end(self) -> None:
        """Release all that it holds. Later reads count nothing."""
        self._is_over = True
        self._count()
        self.task = None  # whose error may hold frames that hold this call, and large answers

    async def until_drained(self) -> None:
        """Wait until the client has room for more of the answer."""
        self.drained = asyncio.Event()
        self.unread_since = asyncio.get_running_loop().time()
        try:
            await self.drained.wait()
        finally:
            self.drained = self.unread_since = None

    def cancel(self) -> None:
        """End it: the client has given it up."""
        if self.task is not None:
            self.task.cancel()
