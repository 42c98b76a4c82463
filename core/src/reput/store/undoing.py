"""`Undoing`: what opening a store has done, and how each of it is undone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

__all__ = ["Undoing"]


class Undoing:
    """Undoes what an opening did, the last thing first; what an open store holds, when it closes.

    No `contextlib.ExitStack` that is unwound once: an exception, Ctrl-C for one, may end a closing
    anywhere, and the next one begins again. So everything in here may be called twice, and is
    entered before what it undoes is done.
    """

    def __init__(self) -> None:
        self._in_any_case: tuple[Callable[[], object], ...] = ()
        self._when_failed: tuple[Callable[[], object], ...] = ()

    def in_any_case(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` when the opening fails, and when the open store is closed."""
        self._in_any_case = (*self._in_any_case, undo)

    def when_failed(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` when the opening fails, before all that is undone in any case."""
        self._when_failed = (*self._when_failed, undo)

    def keep(self, undo: Callable[[], object]) -> None:
        """Do not call ``undo`` when the opening fails from here on."""
        self._when_failed = tuple(each for each in self._when_failed if each != undo)

    def fail(self) -> None:
        """Undo everything."""
        with contextlib.ExitStack() as stack:  # each of them, also when one before it fails
            stack.callback(self.release)
            for undo in self._when_failed:
                stack.callback(undo)

    def release(self) -> None:
        """Give up what an open store holds."""
        with contextlib.ExitStack() as stack:
            for undo in self._in_any_case:
                stack.callback(undo)
