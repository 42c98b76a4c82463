"""A progress bar for each step of a check: its name, amount, rate, and the time that is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from reput_cli.kit import ProgressBar

__all__ = ["Steps"]


class Steps:
    """Shows one bar after the other; a context manager."""

    def __init__(self) -> None:
        self._step = ""
        self._bar: ProgressBar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def update(self, step: str, done: int, total: int) -> None:
        """Show how far a step is; the step before it has ended.

        Args:
            step: what is checked.
            done: bytes.
            total: bytes.
        """
        from reput_cli.kit import ProgressBar

        if step != self._step or self._bar is None:
            self._end()
            self._step = step
            self._bar = ProgressBar(f"checking the {step}", None, "bytes").__enter__()
        self._bar.update(done, total)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
