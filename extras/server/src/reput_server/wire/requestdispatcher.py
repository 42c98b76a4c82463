"""Calls the handler of a request, and turns whatever it raises into an answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final
from weakref import WeakSet

import attrs

from reput import PutStatus
from reput.errors import PutError, ReputError
from reput_client.remoting import (
    ACCESS_KEY,
    FRAME_SIZE_MAX,
    Command,
    FrameError,
    RemotingError,
    RequestCode,
    ResponseCode,
    encode_frame,
    is_signed_with,
)
from reput_server.errors import Refusal
from reput_server.wire.interfaces import (
    Connection,
    FromBytes,
    FromSockets,
    Request,
    Socket,
    TakeSockets,
)

logger = logging.getLogger(__name__)


Handler = Callable[[Request], Awaitable[Command | None]]
"""Returns the answer; None if there is none, or if it comes later."""
AtOnce = Callable[[Request], bool]
"""Takes a request without waiting for anything, and ends it by `Connection.finish`; False: the
handler of its code is to take it."""

NOTHING: Final[FromBytes] = (b"", 0, 0)
_ADVICE: Final = "; meanwhile reput serve PATH --read-only serves what is there"
_JSON_MAX: Final = 1 << 20
"""Bytes of JSON, all of which is read at once: half a second in the worst case."""
_TABLE_MAX: Final = 4 << 20
_BODY_MAX: Final[dict[int, int]] = {
    **dict.fromkeys(
        (
            RequestCode.SEND_MESSAGE,
            RequestCode.SEND_MESSAGE_V2,
            RequestCode.SEND_BATCH_MESSAGE,
            RequestCode.SEND_REPLY_MESSAGE,
            RequestCode.SEND_REPLY_MESSAGE_V2,
        ),
        FRAME_SIZE_MAX,
    ),
    RequestCode.REGISTER_BROKER: _TABLE_MAX,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: _TABLE_MAX,
}
"""Bytes of the longest body by code; of JSON in all others."""
_REPORTED: Final[dict[int, str]] = {
    RequestCode.HEART_BEAT: "heartbeat",
    RequestCode.REGISTER_BROKER: "registration",
}
_CODES = {
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.PROPERTIES_SIZE_EXCEEDED: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.OS_PAGE_CACHE_BUSY: ResponseCode.SYSTEM_BUSY,
    PutStatus.WHEEL_TIMER_MSG_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED: ResponseCode.LMQ_QUOTA_EXCEEDED,
}


@attrs.frozen(eq=False)
class RequestDispatcher:
    """The handlers of one port."""

    by_code: Mapping[int, Handler]
    access_keys: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Secret keys by access key; without any, signatures are not checked."""
    at_once: Mapping[int, AtOnce] = attrs.field(factory=dict)
    """Called before the handlers, for some codes."""
    from_bytes: Sequence[Callable[[Connection, bytes | bytearray], FromBytes]] = ()
    """Called before that, one after the other, while requests are bytes still. They know of
    no access keys."""
    from_sockets: TakeSockets | None = None
    """Called before that for connections that only send: it reads their sockets itself."""
    codes_from_bytes: Collection[int] = ()
    """Codes of the requests in `from_bytes` that are not in `at_once`, too."""
    _reported: WeakSet[Connection] = attrs.field(init=False, factory=WeakSet)
    """Connections of which a refused heartbeat or registration was reported."""

    def take_bytes(self, peer: Connection, data: bytes | bytearray) -> FromBytes:
        """Take requests with which a connection's bytes begin, and end them."""
        if not self.access_keys:
            for take in self.from_bytes:
                taken = take(peer, data)
                if taken[1]:
                    return taken
        return NOTHING

    @property
    def may_take_sockets(self) -> bool:
        """Whether connections may be read by `take_sockets`."""
        return self.from_sockets is not None and not self.access_keys

    def take_sockets(
        self, sockets: Sequence[Socket], peers: Sequence[Connection]
    ) -> FromSockets | None:
        """Read sockets of peers, and take the requests with which their bytes begin.

        Returns:
            How many requests were taken, and what is left; None if no socket was read.
        """
        if self.from_sockets is None or self.access_keys:
            return None
        return self.from_sockets(sockets, peers)

    def may_take(self, code: int) -> bool:
        """Whether requests of this code are stored and read in their order, on one connection.

        They are answered in this order, too, unless their answers wait for the disk.
        """
        return code in self.at_once or code in self.codes_from_bytes

    def take(self, request: Request) -> bool:
        """Take a request of a code in `at_once`; False if it is to go the longer way."""
        take = self.at_once.get(request.command.code)
        if take is None:
            return False
        try:
            self._check_signature(request.command)
            return take(request)
        except Refusal:
            return False
        except Exception:  # the longer way answers whatever is wrong with it
            logger.exception("request not taken code=%d", request.command.code)
            return False

    async def answer(self, request: Request) -> Command | None:
        """Return the answer to a request; None if it comes later, or never."""
        command = request.command
        try:
            _check_body(command)
            self._check_signature(command)
            handler = self.by_code.get(command.code)
            if handler is None:
                raise Refusal(
                    ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    f" request type {command.code} not supported",
                )
            return await handler(request)
        except Exception as error:  # whatever a handler raises, its peer gets an answer
            self._report(request, error)
            return answer_of_error(command, error)

    def _report(self, request: Request, error: Exception) -> None:
        """Warn of a client or a broker that is refused, once and not each time that it repeats it.

        Its own log may say nothing: without a heartbeat a consumer just receives no message.
        """
        what = _REPORTED.get(request.command.code)
        if what is not None and request.peer not in self._reported:
            self._reported.add(request.peer)
            text = "%s refused peer=%s:%d language=%s version=%d error=%s"
            command = request.command
            found = command.language.name, command.version
            logger.warning(text, what, *request.peer.address, *found, error)

    def _check_signature(self, command: Command) -> None:
        if not self.access_keys:
            return
        access_key = command.fields.get(ACCESS_KEY)
        secret = None if access_key is None else self.access_keys.get(access_key)
        if secret is None:
            found = "none" if access_key is None else repr(access_key[:80])
            raise Refusal(ResponseCode.NO_PERMISSION, f"no known access key: found {found}")
        if not is_signed_with(command, secret):
            text = f"the signature is not that of access key {access_key!r}"
            raise Refusal(ResponseCode.NO_PERMISSION, text)


def _check_body(command: Command) -> None:
    """Refuse a body that would take the loop's time from others; those of messages take none."""
    most = _BODY_MAX.get(command.code, _JSON_MAX)
    if len(command.body) > most:
        text = f"a body of {len(command.body)} bytes; {most} are the most of code {command.code}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, text)


def answer_of_error(command: Command, error: Exception) -> Command:
    """Return the answer that reports an error to a peer; unexpected errors are logged."""
    if isinstance(error, Refusal):
        return command.answer(error.code, error.header, remark=error.remark)
    if isinstance(error, PutError):
        code = code_of_put(error)
        advice = _ADVICE if code == ResponseCode.SERVICE_NOT_AVAILABLE else ""
        return command.answer(code, remark=f"{error}{advice}")
    if isinstance(error, ReputError | RemotingError):
        return command.answer(ResponseCode.SYSTEM_ERROR, remark=str(error))
    if isinstance(error, OSError):
        logger.warning("request failed code=%d error=%s", command.code, error)
        return command.answer(ResponseCode.SYSTEM_ERROR, remark=str(error))
    logger.error("request failed code=%d", command.code, exc_info=error)
    return command.answer(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")


def frame_of(answer: Command) -> bytes:
    """Return the frame of an answer; of the error, where it would be too long."""
    try:
        return encode_frame(answer)
    except FrameError as error:
        return encode_frame(answer_of_error(answer, error))


def code_of_put(error: PutError) -> int:
    """Return the response code of a put that failed."""
    return _CODES.get(error.status, ResponseCode.SYSTEM_ERROR)
