"""A progress bar with rate and time left, for work that takes longer than a moment.

The bar appears on stderr only if that is a terminal, and only once the work has taken `PATIENCE_S`
without a result; until then rich is not even imported.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from reput_tools.cli.kit.output import format_size

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_S = 0.7
"""Seconds of work before a bar appears."""


class ProgressBar:
    """One bar; a context manager.

    Args:
        label: the work in progress, "appending".
        total: the amount of work; None if not known.
        unit: unit of the count: ``"bytes"``, or a plural noun.
        shown: False hides the bar, for commands that print results to the same terminal.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        label: str,
        total: int | None,
        unit: str = "messages",
        *,
        shown: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = 0
        self._label = label
        self._total = total
        self._unit = unit
        self._clock = clock
        self._started = self._quiet_since = clock()
        self._silent = not shown or not sys.stderr.isatty()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

    def hide(self) -> None:
        """Remove the bar before a result is printed; it appears again after `PATIENCE_S`."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._quiet_since = self._clock()

    @property
    def seconds(self) -> float:
        """Time since the work began."""
        return self._clock() - self._started

    def advance(self, count: int = 1) -> None:
        """Count ``count`` more as done."""
        self.update(self.done + count, self._total)

    def update(self, done: int, total: int | None = None) -> None:
        """Set ``done`` of ``total``; has the signature of `Store.wait_dispatched`'s progress."""
        self.done = done
        self._total = self._total if total is None else total
        if self._silent:
            return
        if self._bar is None:
            if self._clock() - self._quiet_since < PATIENCE_S:
                return
            self._bar, self._task = self._show()
        assert self._task is not None
        self._bar.update(self._task, completed=done, total=self._total, rate=self._rate())

    def _show(self) -> tuple[Progress, TaskID]:
        from rich import progress
        from rich.console import Console

        amount: progress.ProgressColumn = progress.MofNCompleteColumn()
        if self._unit == "bytes":
            amount = progress.DownloadColumn(binary_units=True)
        bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            amount,
            progress.TextColumn("{task.fields[rate]}", markup=False),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        bar.start()
        return bar, bar.add_task(self._label, total=self._total, rate="")

    def _rate(self) -> str:
        rate = self.done / max(self.seconds, 1e-9)
        return (
            f"{format_size(int(rate))}/s"
            if self._unit == "bytes"
            else f"{rate:,.0f} {self._unit}/s"
        )
