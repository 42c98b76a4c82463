"""The entries of ``reput/state``, as ``reput info --state`` shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput_tools.cli.kit.output import print_facts

if TYPE_CHECKING:
    from reput.log import StateFile
    from reput_tools.offline import Traces

__all__ = ["STATE_FILE_KEYS", "print_state_file", "state_file_document"]

STATE_FILE_KEYS: Final = {
    "sequence": "of the slot that counts; it increases with each write. `state` needs `--state`, "
    "and is null without the file",
    "is_damaged": "whether no slot is whole",
    "entries[].name": "`.log`, `.head`, a plugin, or a plugin followed by `/state`",
    "entries[].changed": "sequence of the slot in which the value changed last",
    "entries[].physical_offset": "of a progress: everything below it is on disk",
    "entries[].record_offset": "of a progress: the last record below it; -1 without one",
    "entries[].fingerprint": "of a progress: CRC-32 of that record",
    "entries[].closed": "of `.log`: CRC-32 of the file `checkpoint` if the log was closed. Of "
    "`.head`: 0 while plugins must be notified of removed files of the log. Else null",
    "entries[].record": "of a plugin's state: an object with its state and figures",
}


def state_file_document(traces: Traces) -> dict[str, Any] | None:
    """Return the document of the state file; None if it does not exist."""
    state = traces.state_file
    if not state.load() and not state.is_damaged:
        return None
    return {
        "sequence": state.sequence,
        "is_damaged": state.is_damaged,
        "entries": _entries(traces, state),
    }


def print_state_file(traces: Traces) -> None:
    """Print the entries, one a line."""
    found = state_file_document(traces)
    if found is None or found["is_damaged"]:
        print_facts([("state file", "does not exist" if found is None else "damaged")])
        return
    print_facts([("sequence", str(found["sequence"])), *map(_line, found["entries"])])


def _entries(traces: Traces, state: StateFile) -> list[dict[str, Any]]:
    import attrs

    places, documents = dict(traces.places()), []
    for slot in state.known[:1]:
        for name, entry in slot.items():
            document = {"name": name, "changed": entry.changed}
            if name in places:
                document |= attrs.asdict(places[name])
            elif name.endswith("/state"):
                record = traces.records.load(name.removesuffix("/state"))
                document["record"] = attrs.asdict(record)
            documents.append(document)
    return documents


def _line(entry: dict[str, Any]) -> tuple[str, str]:
    if "physical_offset" not in entry:
        record = entry.get("record") or {}
        return entry["name"], f"{record.get('state')}, {record.get('message_count')} messages"
    text = f"physical offset {entry['physical_offset']}"
    if entry["record_offset"] >= 0:
        text += f", last record at {entry['record_offset']}, {entry['fingerprint']:08X}"
    mark = "plugins not notified of removed files" if entry["name"] == ".head" else "closed"
    return entry["name"], text if entry["closed"] is None else f"{text}, {mark}"
