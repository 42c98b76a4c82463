"""`CommandQueue`: commands that wait until a client reads them from one of its streams."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from reput_server.grpc.transport.answermemory import AnswerShare


@attrs.define(eq=False, repr=False)
class CommandQueue:
    """The commands of one stream. Used on the event loop."""

    share: AnswerShare
    """What the answers of its connection take."""
    _commands: asyncio.Queue[tuple[Any, int]] = attrs.field(init=False, factory=asyncio.Queue)
    _held_size: int = attrs.field(init=False, default=0)

    def is_full(self, count: int) -> bool:
        """Whether ``count`` commands wait, or answers take all the memory that they may."""
        return self._commands.qsize() >= count or (self._held_size > 0 and self.share.is_full)

    def put(self, command: Any) -> None:
        """Add a command: a message, an exception that ends the stream, or its end."""
        size = command.ByteSize() if hasattr(command, "ByteSize") else 0
        self._count(size)
        self._commands.put_nowait((command, size))

    async def get(self) -> Any:
        """Return the next command, when one has come."""
        command, size = await self._commands.get()
        self._count(-size)
        return command

    def close(self) -> None:
        """Forget what was not read."""
        while not self._commands.empty():
            self._count(-self._commands.get_nowait()[1])

    def _count(self, size: int) -> None:
        self._held_size += size
        self.share.note(size)
