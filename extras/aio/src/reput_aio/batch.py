"""`Batch`: messages that are put together when a block ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import attrs

if TYPE_CHECKING:
    from reput import BatchReceipt, Message


@attrs.define(eq=False)
class Batch:
    """What `AsyncStore.batch` returns: an asynchronous context manager that puts at its end.

    A block that raises puts nothing.
    """

    _put: Callable[[list[Message]], Awaitable[BatchReceipt]]
    """Stores messages, and waits for the disk."""
    messages: list[Message] = attrs.field(init=False, factory=list)
    """What is to be put."""
    _receipt: BatchReceipt | None = attrs.field(init=False, default=None)

    @property
    def receipt(self) -> BatchReceipt:
        """Where the messages are, of which none is there if none was added.

        Raises:
            RuntimeError: the block has not ended yet, or an exception has ended it.
        """
        if self._receipt is None:
            raise RuntimeError("nothing was put yet: messages are put when the block ends")
        return self._receipt

    def put(self, message: Message) -> None:
        """Add a message, to be stored when the block ends."""
        self.messages.append(message)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._receipt = await self._put(self.messages)
