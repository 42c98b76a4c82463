"""`Connection`: one connection of a client; its calls run as tasks of the event loop."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from contextlib import aclosing
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from reput_client.remoting import address_text
from reput_server.grpc.transport.answermemory import AnswerShare
from reput_server.grpc.transport.call import Call
from reput_server.grpc.transport.framing import (
    HEADERS,
    CallError,
    Messages,
    RpcStatus,
    framed,
    only_message,
    seconds_of,
    trailers,
)
from reput_server.grpc.transport.http2 import DRAINED, ENDED, RESET, Http2Connection
from reput_server.grpc.transport.methods import CallHead
from reput_server.grpc.transport.receivequeue import AT_ONCE, Slices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput_server.config import Limits
    from reput_server.grpc.transport.answermemory import AnswerMemory
    from reput_server.grpc.transport.http2 import Found, Happened
    from reput_server.grpc.transport.methods import Method
    from reput_server.grpc.transport.receivequeue import ReceiveQueue

logger = logging.getLogger(__name__)

_STREAMS: Final = 1_000
"""Calls at once."""
_HEADER_SIZE: Final = 32 << 10
_STREAM_WINDOW: Final = 1 << 20
_CONNECTION_WINDOW: Final = 4 << 20
_UNSENT_MAX: Final = 256 << 10
"""Bytes of an answer that wait for a client before the service that makes them waits, too."""
_WRITE_HIGH: Final = 1 << 20
_TYPE: Final = "application/grpc"
_UNKNOWN: Final = ("", 0)
_UNSUPPORTED_MEDIA_TYPE: Final = 415
_OK: Final = trailers()


class Host(Protocol):
    """The listener that a connection belongs to."""

    loop: asyncio.AbstractEventLoop
    methods: Mapping[str, Method]
    limits: Limits
    answers: AnswerMemory
    receiving: ReceiveQueue

    @property
    def is_full(self) -> bool:
        """Whether requests take all the memory that they may."""
        ...

    def admit(self, connection: Connection, descriptor: int) -> bool:
        """Note a new connection; False if there are too many."""
        ...

    def forget(self, connection: Connection) -> None:
        """Drop a connection that is gone."""
        ...

    def begin(self) -> bool:
        """Count a call; False if there are too many."""
        ...

    def end(self) -> None:
        """Count a call no more."""
        ...

    def count_held(self, size: int) -> None:
        """Note by how many bytes what requests hold in memory has grown."""
        ...


class Connection(asyncio.Protocol):
    """One connection. All of it runs on the event loop."""

    def __init__(self, listener: Host) -> None:
        self.listener = listener
        self.address: tuple[str, int] = _UNKNOWN
        self.is_open = False
        self.last_moved: float = listener.loop.time()
        """When bytes last came or went, by the loop's clock, s."""
        self._transport: asyncio.Transport | None = None
        self._http2 = Http2Connection(_STREAMS, _HEADER_SIZE, _STREAM_WINDOW, _CONNECTION_WINDOW)
        self._calls: dict[int, Call] = {}
        self._address_text = ""
        self._is_flush_due = False
        self._is_taking = False
        self._has_answered = False
        self._later_count = 0
        """Calls whose method may answer at once and which have a task: later ones follow them."""
        self._is_ending = False
        self._is_shut = False
        self._held_size = 0
        self.answers = AnswerShare(listener.answers)
        self._received = Slices()
        self._is_receiving = False
        """Whether slices of what came are taken, one by one."""
        self._waiting: deque[Happened] = deque()
        """What has happened while large messages were decompressed; the first is of theirs."""
        self._is_behind = False
        """Whether messages are to be decompressed, a piece in each turn of the loop."""
        self._unsent_size = 0
        """Bytes of answers that the client has no room for."""
        self._may_write = asyncio.Event()
        self._may_write.set()

    # ------------------------------------------------------------------ the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve, unless there are too many connections."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            self.address = str(name[0]), int(name[1])
            self._address_text = address_text(self.address)
        self.is_open = True
        if not self.listener.admit(self, transport.get_extra_info("socket").fileno()):
            self.cut("there are too many connections")

    def go_over(self, transport: asyncio.Transport) -> None:
        """Write by another transport from now on, which decrypts what is read, too."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """End all calls."""
        self.is_open = False
        self._received.clear()
        self._waiting.clear()
        self._is_behind = False
        self._may_write.set()
        self._do(lambda: self._http2.receive(b""))  # which releases what was not sent
        for each in list(self._calls.values()):
            each.cancel()
            if each.task is None:
                self._forget(each)
        self.listener.forget(self)

    def cut(self, reason: str) -> None:
        """Close the connection at once."""
        if self._transport is not None and self.is_open:
            logger.info("connection cut peer=%s reason=%s", self._address_text, reason)
            self._transport.abort()

    def end(self) -> None:
        """Close the connection when what was written is sent."""
        if self._transport is not None and not self._is_ending:
            self._is_ending = True
            self._transport.close()

    def shut(self) -> None:
        """Take no more calls, and close the connection when the open ones have ended."""
        self._is_shut = True
        self._do(self._shut)

    def _shut(self) -> Found:
        self._http2.shut()
        return self._http2.flush()

    def close_idle(self) -> None:
        """Close the connection: nothing has moved on it for long."""
        if self._calls or self._is_shut:
            self.cut("idle")
        else:
            self.shut()

    def cancel_all(self) -> None:
        """End all calls: the server stops."""
        for each in list(self._calls.values()):
            if each.task is not None:
                each.task.cancel()

    def pause_writing(self) -> None:
        """Send no more of answers, and read nothing, while the client does not read."""
        self._may_write.clear()
        self._pause_or_resume()

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self.last_moved = self.listener.loop.time()
        self._may_write.set()
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        if self._transport is not None and self.is_open:
            if self._may_write.is_set() and not self._is_receiving:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    # ------------------------------------------------------------------ what comes

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client; of many, a slice in each turn of the loop."""
        self.last_moved = self.listener.loop.time()
        if len(data) <= AT_ONCE and not self._is_receiving:
            self._do(lambda: self._http2.receive(data))
        else:
            self._received.add(data)
        if (self._is_behind or self._received) and not self._is_receiving:
            self._is_receiving = True
            if self.listener.receiving.add(self):
                self._pause_or_resume()

    def receive_slice(self) -> bool:
        """Take a slice of what has come; return whether there is more."""
        if self._is_behind:
            self._is_behind = False
            self._do(self._http2.flush)
        elif self.is_open and (data := self._received.next()):
            began = time.perf_counter()
            self._do(lambda: self._http2.receive(data))
            self._received.took(time.perf_counter() - began)
        self._is_receiving = self.is_open and (self._is_behind or len(self._received) > 0)
        if not self._is_receiving:
            self._pause_or_resume()
        return self._is_receiving

    def eof_received(self) -> bool:
        """Close the connection: nobody reads the answers of a client that has closed its side."""
        return False

    def _do(self, work: Callable[[], Found]) -> None:
        """Have HTTP/2 work; if that fails in itself, this connection ends, and no other."""
        try:
            self._take(*work())
        except Exception:
            logger.exception("connection failed peer=%s", self._address_text)
            self.cut("HTTP/2 has failed in itself")

    def _take(self, happened: list[Happened], written: bytes) -> None:
        """React to what has happened; write, in one piece, what is answered at once."""
        self._is_taking = True
        try:
            # In the order in which they began, so that a producer's sends keep theirs.
            self._waiting += sorted(happened, key=itemgetter(0))
            while self._waiting and not self._is_behind:
                self._has_answered = False
                while self._waiting and not self._is_behind:
                    self._react(self._waiting.popleft())
                if self._has_answered:
                    happened, more = self._http2.flush()
                    self._waiting += sorted(happened, key=itemgetter(0))
                    written += more
        finally:
            self._is_taking = False
        if written:
            self._write(written)
        unsent = self._http2.unsent_size
        if unsent != self._unsent_size:
            self.answers.note(unsent - self._unsent_size)
            self._unsent_size = unsent
        if self._http2.is_over:
            self.end()

    def _react(self, happened: Happened) -> None:
        number, head, data, flags = happened
        if head is not None and flags == ENDED and self._answer_at_once(number, head, data):
            return
        call = self._calls.get(number) if head is None else self._begin(number, head)
        if call is None:
            return
        if flags & RESET:
            self._calls.pop(number, None)
            call.cancel()
            if call.task is None:
                self._forget(call)
            return
        if flags & DRAINED and call.drained is not None:
            call.drained.set()
        if not data and not flags & ENDED and head is None and not call.messages.is_behind:
            return
        try:
            may_begin = call.feed(data, is_ended=bool(flags & ENDED))
            # One connection may not take what all others need.
            is_full = self._held_size > self.listener.limits.bytes_of_all // 2
            if is_full or self.listener.is_full:
                text = "requests take too much memory; try again later"
                raise CallError(RpcStatus.RESOURCE_EXHAUSTED, text)
        except CallError as error:
            self._fail(call, error)
            if call.task is None:
                self._forget(call)
            else:
                call.task.cancel()
            return
        if call.messages.is_behind:
            self._is_behind = True
            self._waiting.appendleft((number, None, b"", flags & ENDED))
        if may_begin and call.task is None:
            work = self._answer if call.method.stream is None else self._stream
            call.task = self.listener.loop.create_task(work(call))
            self._later_count += call.method.at_once is not None
            # Not within the work: a task that is cancelled before its first step does none.
            call.task.add_done_callback(lambda done: self._end_of(call, done))

    def _answer_at_once(self, number: int, head: dict[str, str], data: bytes) -> bool:
        """Answer a request that is whole, if its method needs no task for it."""
        method = self.listener.methods.get(head[":path"])
        message = only_message(data)
        if method is None or method.at_once is None or message is None:
            return False
        if self._later_count or self._is_unread or not self._may_begin(head):
            return False
        try:
            found = method.at_once(self._head_of(head), method.parsed(message))
        except Exception as error:
            self._refuse_for(number, head, error)
            return True
        if found is not None:
            self._http2.respond(number, HEADERS, framed(found), _OK)
            self.flush_soon()
        return found is not None

    def _may_begin(self, head: dict[str, str]) -> bool:
        """Whether the connection takes calls, and these headers are those of one."""
        transport = self._transport
        if not self.is_open or transport is None or transport.is_closing():
            return False
        return head.get(":method") == "POST" and head.get("content-type", "").startswith(_TYPE)

    def _head_of(self, head: dict[str, str]) -> CallHead:
        seconds = seconds_of(head.get("grpc-timeout"))
        return CallHead(head, self._address_text, seconds, self.answers)

    @property
    def _is_unread(self) -> bool:
        """Whether the client leaves so much unread that no more is answered."""
        return self._unsent_size > self.listener.limits.unread_bytes

    @property
    def unread_since(self) -> float:
        """Since when a part of an answer waits to be read, by the loop's clock, s; or infinite."""
        times = [each.unread_since for each in self._calls.values()]
        return min((each for each in times if each is not None), default=math.inf)

    def _begin(self, number: int, head: dict[str, str]) -> Call | None:
        """Return the call that begins with these headers; None if it is refused."""
        if not self.is_open or self._transport is None or self._transport.is_closing():
            return None
        kind = head.get("content-type", "")
        if head.get(":method") != "POST" or not kind.startswith(_TYPE):
            self._http2.refuse(number, _UNSUPPORTED_MEDIA_TYPE, [])
            self.flush_soon()
            return None
        method = self.listener.methods.get(head[":path"])
        if method is None:
            self._refuse(number, RpcStatus.UNIMPLEMENTED, f"no method {head[':path'][:200]}")
            return None
        if self._is_unread or not self.listener.begin():
            text = "too many calls, or too many answers that are not read; try again later"
            self._refuse(number, RpcStatus.RESOURCE_EXHAUSTED, text)
            return None
        encoding = head.get("grpc-encoding", "identity")
        call = Call(
            number,
            method,
            self._head_of(head),
            Messages(encoding),
            self._count_held,
        )
        self._calls[number] = call
        return call

    # ------------------------------------------------------------------ calls

    async def _answer(self, call: Call) -> None:
        answer = call.method.answer
        assert answer is not None
        try:
            found = await answer(call.head, call.request())
            self._http2.respond(call.number, HEADERS, framed(found), _OK)
        except Exception as error:
            self._fail(call, error)
        self.flush_soon()

    async def _stream(self, call: Call) -> None:
        stream = call.method.stream
        assert stream is not None
        try:
            async with aclosing(cast("Any", stream(call.head, call.request()))) as answers:
                async for each in answers:
                    unsent = self._send(call, framed(each))
                    del each  # while the client reads, nothing but HTTP/2 keeps it
                    await self._until_read(call, unsent)
            if call.is_begun:
                self._http2.finish(call.number, _OK)
            else:
                self._http2.respond(call.number, HEADERS, b"", _OK)
        except Exception as error:
            self._fail(call, error)
        self.flush_soon()

    def _send(self, call: Call, data: bytes) -> int:
        """Send a part of an answer; return for how many bytes the client has no room."""
        if not call.is_begun:
            call.is_begun = True
            self._http2.respond(call.number, HEADERS, b"", None)
        self.flush_soon()
        return self._http2.send(call.number, data)

    async def _until_read(self, call: Call, unsent: int) -> None:
        """Wait if the client has no room for so many bytes."""
        if unsent > _UNSENT_MAX:
            await call.until_drained()
        if not self._may_write.is_set():
            await self._may_write.wait()

    def _fail(self, call: Call, error: Exception) -> None:
        """End a call with a status."""
        if not call.is_begun:
            self._refuse_for(call.number, call.head.headers, error)
            return
        known = _known(error, call.head.headers)
        self._http2.finish(call.number, trailers(known.status, str(known)))
        self.flush_soon()

    def _refuse_for(self, number: int, head: Mapping[str, str], error: Exception) -> None:
        """End a call that has no answer yet, because of an error."""
        known = _known(error, head)
        self._refuse(number, known.status, str(known))

    def _refuse(self, number: int, status: RpcStatus, text: str) -> None:
        """End a call that has no answer yet."""
        self._http2.refuse(number, 200, [*HEADERS, *trailers(status, text)])
        self.flush_soon()

    def _end_of(self, call: Call, done: asyncio.Task[None]) -> None:
        """Note that the work of a call has ended, by itself or because it was cancelled."""
        try:
            if done.cancelled():  # a client that has given up does not see it
                self._fail(call, CallError(RpcStatus.UNAVAILABLE, "the server stops"))
            elif (error := done.exception()) is not None:
                logger.error("call failed call=%s", call.head.headers[":path"], exc_info=error)
        finally:  # also if HTTP/2 has failed in itself: the call is counted
            self._later_count -= call.method.at_once is not None
            self._forget(call)

    def _count_held(self, size: int) -> None:
        self._held_size += size
        self.listener.count_held(size)

    def _forget(self, call: Call) -> None:
        self._calls.pop(call.number, None)
        call.end()
        self.listener.end()

    # ------------------------------------------------------------------ what goes

    def flush_soon(self) -> None:
        """Write, in one piece, what this turn of the loop answers."""
        if self._is_taking:
            self._has_answered = True
        elif not self._is_flush_due:
            self._is_flush_due = True
            self.listener.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what was answered."""
        self._is_flush_due = False
        self._do(self._http2.flush)

    def _write(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or not self.is_open or transport.is_closing():
            return
        if self._may_write.is_set():
            self.last_moved = self.listener.loop.time()
        elif transport.get_write_buffer_size() > self.listener.limits.unread_bytes:
            self.cut("it leaves its answers unread")
            return
        transport.write(data)


def _known(error: Exception, head: Mapping[str, str]) -> CallError:
    """Return an error as a client gets it."""
    if isinstance(error, CallError):
        return error
    logger.error("call failed call=%s", head[":path"], exc_info=error)
    return CallError(RpcStatus.INTERNAL, f"{type(error).__name__}: {error}")
