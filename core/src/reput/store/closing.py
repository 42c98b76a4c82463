"""`Closing`: one thread closes, the others that ask for it wait until it has."""

from __future__ import annotations

import threading
from collections.abc import Callable

from reput.flags import Flag

__all__ = ["Closing"]


class Closing:
    """Runs what closes something, once. Thread-safe, also for signal handlers (`reput.flags`)."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._closer: int | None = None
        """The thread that closes now."""
        self._ended = Flag()
        self._is_done = False

    def run(self, close: Callable[[], None], timeout: float) -> bool:
        """Call ``close``, or wait for the thread that does; nothing happens when it is done.

        Left by an exception that is no `Exception`, Ctrl-C for one, it is not done, and the next
        that asks calls it again.

        Args:
            close: what is to be run once.
            timeout: seconds to wait for another thread.

        Returns:
            False where another thread has not ended in time. True for a signal handler of the
            thread that closes, which cannot wait for itself: it ends when the handler has.
        """
        me, mine, fresh = threading.get_ident(), False, Flag()
        try:
            with self._lock:
                if self._is_done or self._closer == me:
                    return True
                ended = self._ended
                if self._closer is None:
                    self._closer, mine = me, True
            if not mine:
                return ended.wait(timeout)
            try:
                close()
            except Exception:
                self._is_done = True
                raise
            self._is_done = True
            return True
        finally:
            if mine:
                # Those who wait now are told; who asks again, after an exception, waits for that.
                ended, self._ended, self._closer = self._ended, fresh, None
                ended.set()
