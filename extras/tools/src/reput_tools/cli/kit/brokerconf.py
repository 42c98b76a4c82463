"""What a broker needs to take a store's directory over: lines of ``broker.conf``, and commands."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from reput_tools.cli.kit.pluginreport import report_of

if TYPE_CHECKING:
    from reput import Store
    from reput_tools.offline import Traces

_FILE_SIZE: Final = 1 << 30
_SIZES: Final = (
    # RocketMQ's option and default; plugin and option; bytes of one
    ("mappedFileSizeConsumeQueue", 6_000_000, "consumequeue", "units_per_file", 20),
    ("maxHashSlotNum", 5_000_000, "index", "slots_per_file", 1),
    ("maxIndexNum", 20_000_000, "index", "items_per_file", 1),
)


def settings_of(store: Store) -> list[str]:
    """Return lines ``name=value``, of options for which a broker has another default."""
    found: dict[str, Any] = {}
    if store.log.file_size != _FILE_SIZE:
        found["mappedFileSizeCommitLog"] = store.log.file_size
    sizes = _sizes_of(store)
    found |= {
        name: sizes[name] for name, default, *_ in _SIZES if sizes.get(name, default) != default
    }
    queues: Any = getattr(store.plugin_objects.get("consumequeue"), "config", None)
    switches = {
        "enableConsumeQueueExt": queues is not None and queues.extend,
        "enabledAppendPropCRC": store.config.record_crc,
        "enableLmq": store.config.max_light_queues > 0,
        "enableMultiDispatch": store.config.max_light_queues > 0,
    }
    found |= {name: "true" for name, is_on in switches.items() if is_on}
    return [f"{name}={value}" for name, value in found.items()]


def full_sizes(store: Store) -> dict[str, int]:
    """Return the sizes of full files, bytes, by their directory below the store's."""
    sizes, found = _sizes_of(store), {"commitlog": store.log.file_size}
    if "mappedFileSizeConsumeQueue" in sizes:
        found["consumequeue"] = sizes["mappedFileSizeConsumeQueue"]
    if "maxHashSlotNum" in sizes:
        # As `reput_index.layout.file_size`, whose plugin may not be installed.
        slots, items = sizes["maxHashSlotNum"], sizes["maxIndexNum"]
        found["index"] = 40 + 4 * slots + 20 * items
    return found


def unqueued_advice(traces: Traces) -> str:
    """Return the command that a broker since 5.4 needs before it opens a store without queues."""
    command = f"reput backfill {shlex.quote(traces.root)} consumequeue"
    return f"{command} (since 5.4 it derives missing queues of the last ten log files only)"


def _sizes_of(store: Store) -> dict[str, int]:
    """Return the sizes of the plugins' files by RocketMQ's names of options."""
    found = {}
    for name, _, plugin, option, size in _SIZES:
        config: Any = getattr(store.plugin_objects.get(plugin), "config", None)
        if config is not None:
            # The plugin's report first: files that existed before keep their sizes.
            reported = report_of(store, plugin).get(option)
            found[name] = (getattr(config, option) if reported is None else reported) * size
    return found
