"""A checksum of every whole record, beside the log: any changed bit is found, and its message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_integrity.batchcheck import BatchChecker as BatchChecker
    from reput_integrity.findings import SumFinding as SumFinding
    from reput_integrity.logcheck import Checker as Checker
    from reput_integrity.logcheck import check as check
    from reput_integrity.plugin import IntegrityConfig as IntegrityConfig
    from reput_integrity.plugin import IntegrityPlugin as IntegrityPlugin
    from reput_integrity.scrub import BackgroundScrub as BackgroundScrub
    from reput_integrity.scrub import Scrubber as Scrubber
    from reput_integrity.scrub import ScrubState as ScrubState
else:
    __getattr__, __dir__ = lazy_exports(__name__)
