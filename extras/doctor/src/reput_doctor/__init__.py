"""Checks a store of reput or RocketMQ, and says what is wrong, where, and what to do about it.

`findings` is the language that all packages share: findings, their severity, and the checks made.
Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_doctor.comparing.stores import compare_stores as compare_stores
    from reput_doctor.comparing.values import StoreDiff as StoreDiff
    from reput_doctor.findings import Finding as Finding
    from reput_doctor.findings import Report as Report
    from reput_doctor.findings import Severity as Severity
    from reput_doctor.reporting.making import make_report as make_report
    from reput_doctor.reporting.values import StoreReport as StoreReport
    from reput_doctor.verifying.verify import verify as verify

_HOMES = {
    "Finding": "findings",
    "Report": "findings",
    "Severity": "findings",
    "StoreDiff": "comparing.values",
    "StoreReport": "reporting.values",
    "compare_stores": "comparing.stores",
    "make_report": "reporting.making",
    "verify": "verifying.verify",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)
