"""A checksum of every whole record, beside the log: any changed bit is found, and its message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_integrity.batches import BatchChecker as BatchChecker
    from reput_integrity.checking import Checker as Checker
    from reput_integrity.checking import check as check
    from reput_integrity.findings import SumFinding as SumFinding
    from reput_integrity.plugin import IntegrityConfig as IntegrityConfig
    from reput_integrity.plugin import IntegrityPlugin as IntegrityPlugin
    from reput_integrity.scrubbing import BackgroundScrub as BackgroundScrub
    from reput_integrity.scrubbing import Scrubber as Scrubber
    from reput_integrity.scrubbing import ScrubState as ScrubState

_HOMES = {
    "BackgroundScrub": "scrubbing",
    "BatchChecker": "batches",
    "Checker": "checking",
    "IntegrityConfig": "plugin",
    "IntegrityPlugin": "plugin",
    "ScrubState": "scrubbing",
    "Scrubber": "scrubbing",
    "SumFinding": "findings",
    "check": "checking",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)
