"""What one plugin of a store reports: the others, whose reports may take time, are not asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reput.errors import PluginError

if TYPE_CHECKING:
    from reput import Store


def report_of(store: Store, name: str) -> Mapping[str, Any]:
    """Return a plugin's report (hook ``reput_report``).

    It is empty if the store does not use the plugin, or if the plugin could not be opened, reports
    nothing or fails. `reput.Store.report` has the reason of a failure.
    """
    try:
        report = getattr(store.plugin(name), "reput_report", None)
    except PluginError:
        return {}
    try:
        return {} if report is None else report() or {}
    except (Exception, SystemExit):  # must not hide the other facts, as in `Store.report`
        return {}
