"""How far the plugins of a store have come, by the store's small files; opens no plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from reput.errors import CorruptFileError, PluginError
from reput_tools.doctor.storereport.reportmodel import PluginPlace

if TYPE_CHECKING:
    from reput_tools.offline import Traces


def plugin_places(
    traces: Traces, end_offset: int, tell: Callable[[str], None]
) -> tuple[PluginPlace, ...]:
    """Return the plugins that the store names, or of which it has a record.

    Args:
        traces: the store's small files.
        end_offset: where the log ended when it was read.
        tell: called with what cannot be used.
    """
    from reput.plugin import installed

    names: set[str] = set()
    try:
        manifest = traces.manifest
        names.update(manifest.plugins if manifest is not None else ())
    except (CorruptFileError, OSError) as error:
        tell(f"the store's plugins and options are not known: {error}")
    try:
        names.update(traces.records.names())
    except OSError as error:
        tell(f"the records of plugins cannot be read: {error}")
    versions = {each.name: each.version for each in installed()}
    return tuple(
        _place(traces, name, end_offset, versions.get(name), tell) for name in sorted(names)
    )


def _place(
    traces: Traces, name: str, end_offset: int, version: str | None, tell: Callable[[str], None]
) -> PluginPlace:
    state, error, place, skipped = "unknown", None, None, 0
    try:
        record = traces.records.load(name)
        state, error = record.state, record.last_error
        place = traces.dispatched_to(name)
        skipped = len(traces.dead_letters(name).read())
    except (OSError, PluginError) as problem:
        tell(f"the record of the plugin {name!r} cannot be read: {problem}")
    return PluginPlace(
        plugin=name,
        state=state,
        installed=version,
        dispatched_to=place,
        behind=None if place is None else max(end_offset - place, 0),
        dead_letters=skipped,
        last_error=error,
    )
