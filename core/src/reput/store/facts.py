"""`StoreFacts`: the part of a store that tells about itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from reput.store.reads import StoreReads

if TYPE_CHECKING:
    from reput.log.recovery.end import RecoveryReport
    from reput.retention.planner import RetentionReader
    from reput.retention.service import RetentionService

__all__ = ["StoreFacts"]


class StoreFacts(StoreReads):
    """What `reput.Store` reports."""

    writable: bool
    clean: bool
    recovery: RecoveryReport
    _cleaner: RetentionService | RetentionReader

    def report(self) -> dict[str, Any]:
        """Facts about the store, JSON-like: log, recovery, plugins."""
        self._check_open()
        log, recovery = self.log, self.recovery
        facts: dict[str, Any] = {
            "root": self.root,
            "writable": self.writable,
            "clean": self.clean,
            "log": {
                "min_physical_offset": log.min_physical_offset,
                "max_physical_offset": log.max_physical_offset,
                "file_size": log.file_size,
                "file_count": log.file_count,
            },
            "recovery": {
                "start_offset": recovery.start_offset,
                "end_offset": recovery.end_offset,
                "message_count": recovery.message_count,
                "finding": None if recovery.finding is None else str(recovery.finding),
                "truncated_size": recovery.truncated_size,
            },
            "plugins": {},
            "retention": self._cleaner.report(),
        }
        reports = dict(self._usable(lambda hooks: hooks.report))
        for state in self.plugins():
            known = attrs.asdict(state)
            del known["name"], known["version"]
            facts["plugins"][state.name] = {**_reported(reports.get(state.name)), **known}
        return facts


def _reported(report: Callable[[], Any] | None) -> dict[str, Any]:
    """What a plugin reports of itself; that it could not, where it raises."""
    if report is None:
        return {}
    try:
        return dict(report() or {})
    except Exception as error:  # whatever a plugin raises: the other facts are wanted all the same
        return {"report_error": str(error)}
