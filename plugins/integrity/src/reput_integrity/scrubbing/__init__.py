"""Reads a store in the background, slowly, and says what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_integrity.scrubbing.background import BackgroundScrub as BackgroundScrub
    from reput_integrity.scrubbing.scrubber import Scrubber as Scrubber
    from reput_integrity.scrubbing.state import ScrubState as ScrubState

_HOMES = {"BackgroundScrub": "background", "ScrubState": "state", "Scrubber": "scrubber"}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)
