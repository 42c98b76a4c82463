"""A progress bar for each step of a check: its name, amount, rate, and the time that is left."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput_tools.cli.kit import ProgressBar


class Steps:
    """Shows one bar after the other; a context manager.

    Args:
        doing: the verb before the name of each step.
    """

    def __init__(self, doing: str = "checking the ") -> None:
        self._doing = doing
        self._step = ""
        self._bar: ProgressBar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def update(self, step: str, done: int, total: int) -> None:
        """Show how far a step is; the step before it has ended.

        Args:
            step: the checked part.
            done: bytes.
            total: bytes.
        """
        from reput_tools.cli.kit import ProgressBar

        if step != self._step or self._bar is None:
            self._end()
            self._step = step
            self._bar = ProgressBar(f"{self._doing}{step}", None, "bytes").__enter__()
        self._bar.update(done, total)

    def step(self, name: str) -> Callable[[int, int], None]:
        """Begin a step; return what shows how far it is."""
        return functools.partial(self.update, name)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
