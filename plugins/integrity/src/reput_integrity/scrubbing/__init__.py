"""Reads a store in the background, slowly, and says what has changed."""

from __future__ import annotations

from reput_integrity.scrubbing.background import BackgroundScrub as BackgroundScrub
from reput_integrity.scrubbing.scrubber import Scrubber as Scrubber
from reput_integrity.scrubbing.state import ScrubState as ScrubState

__all__ = ["BackgroundScrub", "ScrubState", "Scrubber"]
