"""Which plugins a damaged store uses, with which options, and which of them are installed here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput.errors import ConfigError, CorruptFileError, PluginError
from reput.plugin import PluginSet, default_plugins, installed
from reput_tools.doctor.repair.loglayout import Notice
from reput_tools.offline import offline_hooks

if TYPE_CHECKING:
    from reput.plugin import Plugin
    from reput.storefiles import Manifest
    from reput_tools.offline import RecordHints, Traces


@attrs.frozen(eq=False)
class StorePlugins:
    """The plugins of one store."""

    manifest: Manifest | None
    """None if only RocketMQ wrote the store, or if the manifest cannot be read."""
    plugins: Mapping[str, Plugin]
    """Those that can be used here, by name."""
    sections: Mapping[str, Mapping[str, Any]]
    """Options by section, of the plugins that can be used and of the core."""
    missing: Mapping[str, str]
    """Those that cannot be used here, with the reason."""
    notices: tuple[Notice, ...]

    def leads(self, traces: Traces) -> Iterator[RecordHints]:
        """Yield what the files of all plugins say of the log."""
        for name, plugin in self.plugins.items():
            hooks = offline_hooks(name, plugin)
            yield from hooks.reput_tools_hints(root=traces.root, disk=traces.disk) or ()


def plugins_of(traces: Traces, given: Mapping[str, Mapping[str, Any]]) -> StorePlugins:
    """Find the plugins of a store that may be damaged.

    Args:
        traces: the store.
        given: options by section, on top of the recorded ones.
    """
    notices: list[Notice] = []
    manifest = None
    try:
        manifest = traces.manifest
    except (CorruptFileError, OSError) as error:
        text = f"{error}; the plugins that are usual, and their usual options, are assumed"
        notices.append(Notice("reput/state", "reput.manifest", text))
    offered = installed()
    if manifest is None:
        names = [*default_plugins({}, offered)]
    else:
        names = list(manifest.plugins)
    known = manifest.config if manifest is not None else {}
    sections: dict[str, dict[str, Any]] = {name: dict(each) for name, each in known.items()}
    for name, options in given.items():
        sections[name] = {**sections.get(name, {}), **options}
    missing: dict[str, str] = {}
    found: PluginSet | None = None
    chosen: Mapping[str, Mapping[str, Any]] = {}
    while found is None:
        usable = [name for name in names if name not in missing]
        chosen = {key: each for key, each in sections.items() if key not in missing}
        try:
            found = PluginSet(usable, chosen, offered)
        except PluginError as error:
            if error.plugin not in usable:
                raise
            missing[error.plugin] = str(error)
        except ConfigError as error:
            # A damaged option does not prevent a repair; a given one is a mistake.
            if error.section in given or error.section not in sections:
                raise
            del sections[error.section]
            text = f"{error}; the usual options are assumed"
            notices.append(Notice("reput/state", "reput.manifest", text))
    for name, reason in missing.items():
        text = f"{reason}; its files are taken over as they are, and it derives them again later"
        notices.append(Notice(f"plugin {name}", "plugin.missing", text))
    return StorePlugins(manifest, found.plugins, chosen, missing, tuple(notices))
