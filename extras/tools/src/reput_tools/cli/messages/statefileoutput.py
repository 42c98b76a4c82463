"""The entries of ``reput/state``, as ``reput info --state`` shows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from reput_tools.cli.kit.output import print_facts

if TYPE_CHECKING:
    from reput.log import StateFile
    from reput_tools.offline import Traces

STATE_FILE_KEYS: Final = {
    "sequence": "of the slot that counts; it increases with each write. `state` needs `--state`, "
    "and is null without the file",
    "damage": "the damage to the file; empty without any",
    "entries[].name": "`.log`, `.head`, `.manifest`, a plugin, or a plugin followed by `/state`",
    "entries[].changed": "sequence of the slot in which the value changed last",
    "entries[].physical_offset": "of a progress: everything below it is on disk",
    "entries[].record_offset": "of a progress: the last record below it; -1 without one",
    "entries[].fingerprint": "of a progress: CRC-32 of that record",
    "entries[].closed": "of `.log`: CRC-32 of the file `checkpoint` if the log was closed. Of "
    "`.head`: 0 while plugins must be notified of removed files of the log. Else null",
    "entries[].record": "of a plugin's state: an object with its state and figures",
    "entries[].manifest": "of `.manifest`: the plugins and options of the store; null if they "
    "cannot be read",
    "journal[].name": "of a value: `.manifest`, `.losses`, `.floors`, `.checked`, `.times`, or a "
    "plugin followed by the name of one of its notes",
    "journal[].size": "bytes of the value",
}


def state_file_document(traces: Traces) -> dict[str, Any] | None:
    """Return the document of the state file; None if it does not exist."""
    state = traces.state_file
    if not state.load() and not state.is_damaged:
        return None
    return {
        "sequence": state.sequence,
        "damage": state.damage,
        "entries": _entries(traces, state),
        "journal": [{"name": name, "size": len(state.value(name))} for name in state.names()],
    }


def print_state_file(traces: Traces) -> None:
    """Print the entries, one a line."""
    found = state_file_document(traces)
    if found is None:
        print_facts([("state file", "does not exist")])
        return
    damage = [("damaged", found["damage"])] if found["damage"] else []
    journal = [(each["name"], f"{each['size']} bytes in the journal") for each in found["journal"]]
    lines = map(_line, found["entries"])
    print_facts([("sequence", str(found["sequence"])), *damage, *lines, *journal])


def _entries(traces: Traces, state: StateFile) -> list[dict[str, Any]]:
    import attrs

    from reput.storefiles import MANIFEST

    places, documents = dict(traces.places()), []
    for slot in state.known[:1]:
        for name, entry in slot.items():
            document = {"name": name, "changed": entry.changed}
            if name in places:
                document |= attrs.asdict(places[name])
            elif name.endswith("/state"):
                record = traces.records.load(name.removesuffix("/state"))
                document["record"] = attrs.asdict(record)
            elif name == MANIFEST:
                document["manifest"] = _manifest(entry.value)
            documents.append(document)
    return documents


def _manifest(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _line(entry: dict[str, Any]) -> tuple[str, str]:
    if "manifest" in entry:
        plugins = (entry["manifest"] or {}).get("plugins")
        if not isinstance(plugins, list):
            return entry["name"], "cannot be read"
        return entry["name"], f"plugins {', '.join(map(str, plugins))}"
    if "physical_offset" not in entry:
        record = entry.get("record") or {}
        return entry["name"], f"{record.get('state')}, {record.get('message_count')} messages"
    text = f"physical offset {entry['physical_offset']}"
    if entry["record_offset"] >= 0:
        text += f", last record at {entry['record_offset']}, {entry['fingerprint']:08X}"
    mark = "plugins not notified of removed files" if entry["name"] == ".head" else "closed"
    return entry["name"], text if entry["closed"] is None else f"{text}, {mark}"
