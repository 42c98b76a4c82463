"""Keys of the JSON of plugins and their states; see `reput_tools.cli.kit.jsonkeys`."""

from __future__ import annotations

from typing import Final

from reput_tools.cli.kit.jsonkeys import below

ENGINE_KEYS: Final = below(
    "engine",
    {
        "name": "`native` or `python`",
        "version": "version of reput-native, or null",
        "reason": "why this engine runs",
    },
)
INSTALLED_KEYS: Final = {
    "name": "the plugin",
    "distribution": "the distribution that has it",
    "version": "version of the distribution",
    "class": "where its class is",
    "error": "why it cannot be loaded, and then the rest is missing; null if it can",
    "summary": "what it does",
    "default": "whether new stores use it",
    "runs_after": "plugins that see each batch before it",
    "requires": "plugins without which it does not run",
    "hooks": "the hooks that it implements",
    **below(
        "options[]",
        {
            "name": "the option",
            "type": "its type in Python",
            "default": "its default; null if it has none",
            "values": "its bounds or choices, for people",
            "description": "what it does",
            "when": "when to change it",
        },
    ),
}
STATE_KEYS: Final = {
    "name": "the plugin",
    "version": "version of its distribution",
    "state": "`running`, `retrying`, `stalled`, `waiting`, `suspended` or `halted`; `reading` if "
    "no process has the store open for writing",
    "dispatched_to": "physical offset below which it has seen everything",
    "lag_size": "bytes of the log that it has not seen",
    "lag_count": "messages in them",
    "lag_is_exact": "whether they were counted, and not estimated",
    "policy": "what the store does when it fails: `suspend`, `skip` or `halt`",
    "batch_count": "batches that it was given since the store was opened",
    "message_count": "messages in them",
    "mean_batch_ms": "mean time that it took for a batch",
    "max_batch_ms": "longest time",
    "skipped_count": "messages that it skipped",
    "total_batch_ms": "sum of these times",
    "failure_count": "calls that failed",
    "last_error": "the last failure, or null",
    "facts": "an object with what the plugin reports, by name",
}
PLAN_KEYS: Final = {
    "name": "a plugin; the first gets each batch first",
    "runs_after": "plugins of the store that see each batch before it",
    "requires": "plugins without which it does not run",
    "required_by": "plugins that do not run without it",
    "hooks": "the hooks that it implements",
}
REMOVED_KEYS: Final = {
    "path": "the store's directory",
    "plugin": "the plugin",
    "options": "an object with the options that the store no longer has",
    "kept[].path": "a directory that has the plugin's name",
    "kept[].size": "its bytes on disk",
}
CHANGE_KEYS: Final = {
    "path": "the store's directory",
    "plugin": "the plugin",
    "state": "its new state",
    "asked": "whether it is suspended on request",
    "dispatched_to": "physical offset below which it has seen everything",
    "last_error": "its last failure, or null",
    "is_written": "whether another process has the store open for writing, and carried out the "
    "request",
    "writer_pid": "that process, or null",
}
