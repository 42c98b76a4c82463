"""Errors of clients; each is a `reput.ReputError`, and says what to do next."""

from __future__ import annotations

import attrs

from reput.errors import ReputError


class ClientError(ReputError):
    """A request to a name server or a broker has failed."""


@attrs.define(eq=False, slots=False)
class ConnectError(ClientError, ConnectionError):
    """No connection can be made."""

    address: str
    reason: str
    advice: str = "is a server listening there?"

    def __str__(self) -> str:
        return f"{self.address}: no connection: {self.reason}; {self.advice}"


@attrs.define(eq=False, slots=False)
class ConnectionLostError(ClientError, ConnectionError):
    """A connection ended before the answer came; the request may have been carried out."""

    address: str
    reason: str

    def __str__(self) -> str:
        return f"{self.address}: connection lost before the answer: {self.reason}"


@attrs.define(eq=False, slots=False)
class RequestTimeoutError(ClientError, TimeoutError):
    """No answer came in time; the request may have been carried out."""

    address: str
    code: int
    """Code of the request."""
    seconds: float

    def __str__(self) -> str:
        return f"{self.address}: no answer to a request {self.code} in {self.seconds:.3g} s"


@attrs.define(eq=False, slots=False)
class BrokerError(ClientError):
    """A broker or a name server answered with an error."""

    address: str
    code: int
    """Response code; `reput_client.remoting` lists them."""
    remark: str

    def __str__(self) -> str:
        return f"{self.address} answered with code {self.code}: {self.remark or 'without a remark'}"


@attrs.define(eq=False, slots=False)
class RouteNotFoundError(ClientError, LookupError):
    """No name server knows a topic."""

    topic: str
    reason: str

    def __str__(self) -> str:
        return f"topic {self.topic!r} has no route: {self.reason}"


@attrs.define(eq=False, slots=False)
class SendError(ClientError):
    """A message was not sent, after all tries; its cause is the error of the last one."""

    topic: str
    tries: tuple[str, ...]
    """What each try ended with."""
    seconds: float
    """How long all of them took."""

    def __str__(self) -> str:
        tried = "; ".join(self.tries) or "no try was possible in that time"
        return (
            f"no message sent to topic {self.topic!r} in {self.seconds:.3g} s "
            f"and {len(self.tries)} tries: {tried}"
        )


@attrs.define(eq=False, slots=False)
class NoReplyError(ClientError, TimeoutError):
    """A message was sent, and nobody has answered it in time."""

    topic: str
    msg_id: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"no reply to message {self.msg_id} of topic {self.topic!r} in {self.seconds:.3g} s; "
            "does a consumer read the topic, and reply?"
        )


@attrs.define(eq=False, slots=False)
class GroupTakenError(ClientError):
    """Two producers of one client would answer for the transactions of one group."""

    group: str

    def __str__(self) -> str:
        return (
            f"this client has a producer that answers for transactions of group {self.group!r}; "
            "use that one, or close it"
        )


@attrs.define(eq=False, slots=False)
class TransactionOverError(ClientError):
    """A transaction is ended a second time."""

    transaction_id: str
    outcome: str

    def __str__(self) -> str:
        return f"transaction {self.transaction_id} is over: {self.outcome}; begin another one"


@attrs.define(eq=False, slots=False)
class ClientClosedError(ClientError):
    """A client is used after it was closed, or in a child of the process that opened it."""

    reason: str = "the client is closed; open another one"

    def __str__(self) -> str:
        return self.reason
