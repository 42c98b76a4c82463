"""`CallFaults`: faults that a test injects into calls of clients of RocketMQ 5."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs

from reput_server.protocolservice import CallFault

if TYPE_CHECKING:
    import asyncio

    from reput_server.protocolservice import ProtocolService

BUSY: Final = 42_900
_SEND: Final = "SendMessage"


@attrs.define(eq=False)
class CallFaults:
    """Faults of calls by name. Thread-safe; each is used up by the calls that come next."""

    _service: ProtocolService | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    """On which the service runs."""
    _faults: dict[str, deque[CallFault]] = attrs.field(init=False, factory=dict)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def refuse(self, times: int = 1, call: str = _SEND, code: int = BUSY) -> None:
        """Answer the next calls of a name with a code, and do nothing.

        Args:
            times: how many calls.
            call: their name, such as ``"ReceiveMessage"`` or ``"AckMessage"``.
            code: of the status: "too many requests" if left out.
        """
        self._add(call, times, CallFault(code))

    def lose_answers(self, times: int = 1, call: str = _SEND) -> None:
        """Carry the next calls of a name out, and break them off instead of an answer.

        Clients believe them to have failed, with gRPC's status UNAVAILABLE.
        """
        self._add(call, times, CallFault(carries_out=True))

    def cut_at(self, times: int = 1, call: str = _SEND) -> None:
        """Break the next calls of a name off, with gRPC's status UNAVAILABLE, and do nothing."""
        self._add(call, times, CallFault())

    def cut_streams(self) -> None:
        """Break the streams by which clients get commands; the clients connect again."""
        if self._service is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._service.cut_streams)

    def clear(self) -> None:
        """Do everything right again."""
        with self._lock:
            self._faults.clear()

    def _add(self, call: str, times: int, fault: CallFault) -> None:
        if times < 1:
            raise ValueError(f"times={times}: 1 or more expected")
        with self._lock:
            self._faults.setdefault(call, deque()).extend([fault] * times)

    def is_due(self, call: str) -> bool:
        """Whether something goes wrong with the next call of a name."""
        with self._lock:
            return bool(self._faults.get(call))

    def take(self, call: str) -> CallFault | None:
        """Return what goes wrong with a call; None if nothing does."""
        with self._lock:
            faults = self._faults.get(call)
            return faults.popleft() if faults else None
