"""`Faults`: faults that a test injects into a broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import Command, RequestCode, ResponseCode

if TYPE_CHECKING:
    from reput_server.wire.interfaces import Request
    from reput_server.wire.portservice import PortService
    from reput_server.wire.requestdispatcher import Handler

SENDS: Final = frozenset(
    {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
)
"""Codes of the requests that store messages."""
_CALL_SECONDS: Final = 10.0


@attrs.define(eq=False)
class _Fault:
    codes: Collection[int]
    times: int
    carry_out: bool
    """Whether the request is carried out before it goes wrong."""
    end: Callable[[Request], Command | None]


@attrs.define(eq=False)
class Faults:
    """Faults of one broker. Thread-safe; each is used up by the requests that come next."""

    _service: PortService
    _faults: list[_Fault] = attrs.field(init=False, factory=list)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def __attrs_post_init__(self) -> None:
        self._service.answer_through(self._faulty)

    # ------------------------------------------------------------------ for tests

    def answer_busy(self, times: int = 1, codes: Collection[int] = SENDS) -> None:
        """Answer the next requests with "system busy" (2), and do nothing.

        Args:
            times: how many requests.
            codes: of which kinds, by their codes; sends if left out.
        """
        text = "[TIMEOUT_CLEAN_QUEUE]broker busy, as the test wants it"

        def end(request: Request) -> Command:
            return request.command.answer(ResponseCode.SYSTEM_BUSY, remark=text)

        self._add(_Fault(codes, times, False, end))

    def lose_answers(self, times: int = 1, codes: Collection[int] = SENDS) -> None:
        """Carry the next requests out, and answer nothing: clients believe them to have failed."""
        self._add(_Fault(codes, times, True, lambda request: None))

    def cut_at(self, times: int = 1, codes: Collection[int] = SENDS) -> None:
        """Close the connection of each of the next requests, and do nothing."""

        def end(request: Request) -> None:
            request.peer.cut("the test wants it")

        self._add(_Fault(codes, times, False, end))

    def drop_connections(self) -> None:
        """Close all connections of clients to the broker; they may come back at once."""

        async def drop() -> None:
            for peer in list(self._service.peers):
                peer.cut("the test wants it")

        asyncio.run_coroutine_threadsafe(drop(), self._service.loop).result(_CALL_SECONDS)

    def clear(self) -> None:
        """Do everything right again."""
        with self._lock:
            self._faults.clear()

    # ------------------------------------------------------------------ on the server's loop

    def _add(self, fault: _Fault) -> None:
        if fault.times < 1:
            raise ValueError(f"times={fault.times}: 1 or more expected")
        with self._lock:
            self._faults.append(fault)

    def _next(self, code: int) -> _Fault | None:
        with self._lock:
            for fault in self._faults:
                if code in fault.codes:
                    fault.times -= 1
                    if not fault.times:
                        self._faults.remove(fault)
                    return fault
        return None

    def _faulty(self, handler: Handler) -> Handler:
        async def answer(request: Request) -> Command | None:
            fault = self._next(request.command.code)
            if fault is None:
                return await handler(request)
            if fault.carry_out:
                await handler(request)
            return fault.end(request)

        return answer
