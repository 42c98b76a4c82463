"""`CallFaults`: what a broker does wrong to clients of RocketMQ 5 because a test asks for it."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

import attrs

__all__ = ["CallFaults"]

BUSY: Final = 42_900


@attrs.define(eq=False)
class CallFaults:
    """Faults of calls by name. Thread-safe; each is used up by the calls that come next."""

    _codes: dict[str, deque[int]] = attrs.field(init=False, factory=dict)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def refuse(self, times: int = 1, call: str = "SendMessage", code: int = BUSY) -> None:
        """Answer the next calls of a name with a code, and do nothing.

        Args:
            times: how many calls.
            call: their name, such as ``"ReceiveMessage"`` or ``"AckMessage"``.
            code: of the status: "too many requests" if left out.
        """
        with self._lock:
            self._codes.setdefault(call, deque()).extend([code] * times)

    def take(self, call: str) -> int | None:
        """Return the code that a call is to be answered with; None if it is to be carried out."""
        with self._lock:
            codes = self._codes.get(call)
            return codes.popleft() if codes else None
