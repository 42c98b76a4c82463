"""The lines of ``broker.conf`` that a broker needs to take a store's directory over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from reput import Store

__all__ = ["settings_of"]

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
    reports = store.report()["plugins"]
    for name, default, plugin, option, size in _SIZES:
        config: Any = getattr(store.plugin_objects.get(plugin), "config", None)
        if config is None:
            continue
        # The plugin's report first: files that existed before keep their sizes.
        value = reports.get(plugin, {}).get(option, getattr(config, option)) * size
        if value != default:
            found[name] = value
    queues: Any = getattr(store.plugin_objects.get("consumequeue"), "config", None)
    switches = {
        "enableConsumeQueueExt": queues is not None and queues.extend,
        "enabledAppendPropCRC": store.config.record_crc,
        "enableLmq": store.config.max_light_queues > 0,
        "enableMultiDispatch": store.config.max_light_queues > 0,
    }
    found |= {name: "true" for name, is_on in switches.items() if is_on}
    return [f"{name}={value}" for name, value in found.items()]
