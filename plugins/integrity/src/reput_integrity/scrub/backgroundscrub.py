"""`BackgroundScrub`: scrubs on a thread of its own, round after round, until it is ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from reput.errors import ReputError
from reput_integrity.scrub.scrubber import Scrubber

if TYPE_CHECKING:
    from reput_integrity.findings import SumFinding

logger = logging.getLogger(__name__)

WEEK_MS: Final = 7 * 24 * 3_600_000

_PAUSE = 60.0  # seconds, after a failure: the store may have been moved, or the disk may fail


class BackgroundScrub:
    """A thread that scrubs one store; a context manager.

    What prevents a round is logged, and tried again after a minute.

    Args:
        scrubber: of the store; used by the thread alone from now on, and closed at the end.
        every_ms: from the beginning of a round to that of the next one.
        found: called with each finding, on the thread; logs an error when left out.
    """

    def __init__(
        self,
        scrubber: Scrubber,
        every_ms: int = WEEK_MS,
        found: Callable[[SumFinding], None] | None = None,
    ) -> None:
        self._scrubber = scrubber
        self._every_ms = every_ms
        self._found = found or _log
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reput-scrub", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the thread after the piece that it reads, and remember the place."""
        self._is_ending.set()
        self._thread.join()
        self._scrubber.close()

    def _run(self) -> None:
        while not self._is_ending.is_set():
            try:
                pause = self._step()
            except (ReputError, OSError) as error:
                logger.warning("scrub failed, tried again store=%s error=%s", self._root, error)
                self._scrubber.leave()
                pause = _PAUSE
            self._is_ending.wait(pause)

    @property
    def _root(self) -> str:
        return self._scrubber.root

    def _step(self) -> float:
        """Read a piece if a round is due; return for how long to wait, seconds."""
        scrubber = self._scrubber
        wait = scrubber.due(self._every_ms) - scrubber.clock()
        if wait > 0:
            return min(wait / 1_000, 3_600.0)  # in between, the clock may be set
        for each in scrubber.step() or ():
            self._found(each)
        return scrubber.delay


def _log(finding: SumFinding) -> None:
    logger.error("scrub found damage: %s", finding)
