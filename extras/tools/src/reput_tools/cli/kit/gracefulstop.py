"""`GracefulStop`: the first signal ends a command in order, a second one at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_SAID: Final = b"reput: ended at once; the next opening of the store repairs what was under way\n"
_BASE: Final = 128
"""A shell's exit code of a program that a signal has ended, without the signal's number."""


class GracefulStop:
    """What signals do in a ``with`` block of the main thread; nothing on another one.

    Until `call` is given there is nothing to end in order, and Ctrl-C interrupts as ever.
    """

    def __init__(self) -> None:
        self._call: Callable[[], object] | None = None
        self._is_asked = False
        self._before: dict[int, Any] = {}

    @property
    def is_asked(self) -> bool:
        """Whether a signal came."""
        return self._is_asked

    def call(self, call: Callable[[], object]) -> None:
        """Have ``call`` called, between any two steps of the main thread, at the first signal."""
        self._call = call

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._is_asked:
            # No files are closed: that is what takes so long.
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, _SAID)
            os._exit(_BASE + number)
        self._is_asked = True
        if self._call is None:
            raise KeyboardInterrupt
        self._call()
