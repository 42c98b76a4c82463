"""`Method`: what a service does with the calls of one name; `CallHead`: what a call begins with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput_server.grpc.transport.framing import CallError, RpcStatus

if TYPE_CHECKING:
    from reput_server.grpc.transport.answermemory import AnswerShare


@attrs.frozen
class CallHead:
    """The facts of a call that precede its first message."""

    headers: Mapping[str, str]
    """Values by name, in lower case."""
    address: str
    """Where the client calls from, host and port."""
    seconds: float | None
    """How long the client waits for the answer; None for ever."""
    answers: AnswerShare
    """What the answers of its connection take."""


@attrs.frozen
class Method:
    """One of ``answer`` and ``stream``; all functions may raise `CallError`."""

    parse: Callable[[bytes], Any]
    """Returns a message of a request from its bytes. Raises `DecodeError` of protobuf."""
    answer: Callable[[CallHead, Any], Awaitable[bytes]] | None = None
    """Answers the only message of a request with one message."""
    at_once: Callable[[CallHead, Any], bytes | None] | None = None
    """Does the same without waiting; returns None, with nothing done, if something must wait."""
    stream: Callable[[CallHead, Any], AsyncIterator[bytes]] | None = None
    """Answers with any number of messages."""
    takes_many: bool = False
    """Whether ``stream`` gets an iterator over the request's messages, and not the only one."""

    def parsed(self, message: bytes) -> Any:
        """Return a message of a request.

        Raises:
            CallError: the message is not valid.
        """
        try:
            return self.parse(message)
        except Exception:  # of protobuf, whose classes are not imported here
            raise CallError(RpcStatus.INTERNAL, "a message that is not valid") from None
