"""Reads a store in the background, slowly, and says what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_integrity.scrub.backgroundscrub import BackgroundScrub as BackgroundScrub
    from reput_integrity.scrub.scrubber import Scrubber as Scrubber
    from reput_integrity.scrub.scrubstate import ScrubState as ScrubState
else:
    __getattr__, __dir__ = lazy_exports(__name__)
