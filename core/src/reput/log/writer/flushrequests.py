"""`FlushRequests`: flushes that one thread makes for others, which do not wait for the disk.

An event loop asks for a flush and goes on. A thread serves the requests: it flushes, or lets its
caller flush, and reports.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from reput.engine import compiled
from reput.log.writer.flushleader import FlushLeader
from reput.signalsafe import SafeEvent

__all__ = ["FlushRequests", "RequestedFlusher"]


@compiled
class FlushRequests:
    """Requests of one event loop for one log. Thread-safe; one thread serves them.

    The compiled class flushes plain files itself. Its thread needs the interpreter lock neither for
    a flush nor to report it, so the disk works while the loop appends.
    """

    __slots__ = ("_asked", "_offset")

    def __init__(self, leader: FlushLeader, flush: Callable[..., object]) -> None:
        """Take requests.

        Args:
            leader: of the log.
            flush: as for `FlushLeader.wait`. Called only with the error of a flush that failed.
        """
        self._asked = SafeEvent()
        self._offset = 0

    @property
    def is_asked(self) -> bool:
        """Whether a request waits for the thread."""
        return self._asked.is_set()

    def ask(self, physical_offset: int) -> None:
        """Ask for a flush.

        Args:
            physical_offset: below it everything is to be on disk; at most where the log ends.
        """
        self._offset = max(self._offset, physical_offset)
        self._asked.set()

    def serve(self, descriptor: int, seconds: float) -> int | None:
        """Serve requests until the caller has to flush.

        Args:
            descriptor: open, of an event counter. Each flush that is made here adds 1 to it. -1 if
                the caller makes all flushes.
            seconds: how long to wait for a request.

        Returns:
            A physical offset below which the caller has to wait for the disk; None if nothing was
            asked for in time.
        """
        if not self._asked.wait(seconds):
            return None
        self._asked.clear()
        return self._offset


class RequestedFlusher(Protocol):
    """What an event loop needs of the `GroupCommit` of a log."""

    def requests(self) -> FlushRequests:
        """Return requests for flushes, for an event loop."""
        ...

    def request(self, requests: FlushRequests, physical_offset: int) -> None:
        """Ask for a flush of everything below ``physical_offset``.

        Raises:
            OffsetOutOfRangeError: the log ends below ``physical_offset``; nothing is asked for.
        """
        ...

    def end_request(self, seconds: float) -> None:
        """Do what follows a flush that a thread of `requests` has made.

        Args:
            seconds: how long the event loop has waited for it.
        """
        ...
