"""Reads and changes ``reput/state`` of closed stores."""

from __future__ import annotations

import os

from reput.files import Disk
from reput.log import StateFile
from reput.log.stateblocks import JOURNAL
from reput.storefiles import MANIFEST, Manifest


def state_of(root) -> StateFile:
    """Return the state file of a store."""
    return StateFile.of(os.fspath(root), Disk())


def manifest_of(root) -> Manifest | None:
    """Return a store's plugins and options."""
    return Manifest.of(state_of(root))


def change_manifest(root, change) -> None:
    """Replace the text of a store's manifest by what ``change`` makes of it."""
    state = state_of(root)
    text = state.value(MANIFEST)
    changed = change(text)
    assert changed != text
    state.note_everywhere({MANIFEST: changed}, {})


def value_of(root, name: str) -> bytes:
    """Return a value of the journal."""
    return state_of(root).value(name)


def put_value(root, name: str, value: bytes) -> None:
    """Change a value of the journal."""
    state_of(root).note({name: value})


def forget(root, *names: str) -> None:
    """Remove entries from both slots."""
    state = state_of(root)
    for name in names:
        state.save_in_both({}, name)


def forget_progress(root) -> None:
    """Remove all that moves with a flush, as if nobody had flushed the store."""
    state = state_of(root)
    forget(root, *(name for slot in state.known[:1] for name in slot if name != MANIFEST))


def damage_journal(root) -> int:
    """Change a byte of each block of the journal; return the position of the first block."""
    path = os.path.join(root, "reput", "state")
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        first = place = data.find(JOURNAL)
        assert first > 0
        while place >= 0:
            data[place + 50] ^= 1
            place = data.find(JOURNAL, place + 1)
        file.seek(0)
        file.write(data)
    return first
