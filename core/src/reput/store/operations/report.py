"""Facts about a store, JSON-like, for `reput.Store.report`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from reput.log.recovery.endsearch import RecoveryReport
    from reput.log.writer.commitlog import CommitLog
    from reput.store.operations.activeplugins import ActivePlugins

__all__ = ["facts_of"]


def facts_of(log: CommitLog, recovery: RecoveryReport, active: ActivePlugins) -> dict[str, Any]:
    """Return the facts about log, recovery, reads and plugins."""
    reports = dict(active.usable("report"))
    plugins = {}
    for state in active.states():
        known = attrs.asdict(state)
        del known["name"], known["version"]
        plugins[state.name] = {**_reported(reports.get(state.name)), **known}
    return {
        "log": {
            "flush_waits": log.flusher.waits.facts(),
            "min_physical_offset": log.min_physical_offset,
            "max_physical_offset": log.max_physical_offset,
            "file_size": log.file_size,
            "file_count": log.file_count,
            "role": "primary" if log.master is None else "replica",
            "master": log.master,
        },
        "recovery": {
            "start_offset": recovery.start_offset,
            "end_offset": recovery.end_offset,
            "message_count": recovery.message_count,
            "finding": None if recovery.finding is None else str(recovery.finding),
            "truncated_size": recovery.truncated_size,
        },
        "reads": {"count": active.read_count, "message_count": active.message_count},
        "plugins": plugins,
    }


def _reported(report: Callable[[], Any] | None) -> dict[str, Any]:
    """Return what a plugin reports of itself, or its error."""
    if report is None:
        return {}
    try:
        return dict(report() or {})
    except (Exception, SystemExit) as error:  # must not hide the other facts
        return {"report_error": str(error) or repr(error)}
