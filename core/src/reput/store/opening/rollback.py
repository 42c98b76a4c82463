"""`Rollback`: how to undo each step of opening a store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

__all__ = ["Rollback"]


class Rollback:
    """Undoes the steps of an opening, the last first, if it fails or when the store is closed.

    Unlike `contextlib.ExitStack` it may be run more than once: an exception, such as Ctrl-C, may
    end a closing anywhere, and the next call begins again. So every function in it may be called
    twice, and is entered before the step that it undoes.
    """

    def __init__(self) -> None:
        self._in_any_case: tuple[Callable[[], object], ...] = ()
        self._when_failed: tuple[Callable[[], object], ...] = ()

    def in_any_case(self, undo: Callable[[], object]) -> None:
        """Have ``undo`` called when the opening fails, and when the open store is closed."""
        self._in_any_case = (*self._in_any_case, undo)

    def when_failed(self, undo: Callable[[], object]) -> None:
        """Have ``undo`` called when the opening fails, before everything of `in_any_case`."""
        self._when_failed = (*self._when_failed, undo)

    def forget(self, undo: Callable[[], object]) -> None:
        """Do not call ``undo`` if the opening fails from here on."""
        self._when_failed = tuple(each for each in self._when_failed if each != undo)

    def undo_all(self) -> None:
        """Undo everything."""
        with contextlib.ExitStack() as stack:  # calls all, even if one of them fails
            stack.callback(self.release)
            for undo in self._when_failed:
                stack.callback(undo)

    def release(self) -> None:
        """Release what an open store holds."""
        with contextlib.ExitStack() as stack:
            for undo in self._in_any_case:
                stack.callback(undo)
