"""Checks a store of reput or RocketMQ, and says what is wrong, where, and what to do about it.

`findings` is the language that all packages share: findings, their severity, and the checks made.
Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_tools.doctor.comparison.storediff import StoreDiff as StoreDiff
    from reput_tools.doctor.comparison.stores import compare_stores as compare_stores
    from reput_tools.doctor.findings import Finding as Finding
    from reput_tools.doctor.findings import Report as Report
    from reput_tools.doctor.findings import Severity as Severity
    from reput_tools.doctor.storereport.reportbuilder import make_report as make_report
    from reput_tools.doctor.storereport.reportmodel import StoreReport as StoreReport
    from reput_tools.doctor.verification.verifyrun import verify as verify
else:
    __getattr__, __dir__ = lazy_exports(__name__)
