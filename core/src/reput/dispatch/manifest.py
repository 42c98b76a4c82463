"""The manifest: a store's plugins, configuration and role; a value of ``reput/state``.

It is UTF-8 JSON. Both slots of the file have it, as it must agree with the states of plugins, and
so does the journal: without it, a writer cannot know what its store is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import CorruptFileError
from reput.files.jsonfiles import object_of
from reput.log.stateblocks import VERSION

if TYPE_CHECKING:
    from reput.log.statefile import StateFile

MANIFEST: Final = ".manifest"
"""Name of the value."""
_AGAIN: Final = "move the file away to name the plugins again"


@attrs.frozen
class Manifest:
    """Plugins and options of the last writer."""

    plugins: tuple[str, ...]
    """Names, sorted."""
    config: Mapping[str, Mapping[str, Any]]
    """Sections by name, with the options that were given."""
    master: str | None = None
    """Name of the master of a replica; None for a store that takes puts."""

    @classmethod
    def of(cls, state: StateFile) -> Manifest | None:
        """Return the manifest in a state file; None if reput did not write the store.

        Raises:
            CorruptFileError: the file is damaged, or was written by another release.
        """
        slots = state.known
        found = slots[0].get(MANIFEST) if slots else None
        text = found.value if found is not None else state.value(MANIFEST)
        if not text:
            if state.is_damaged and state.contents.version != VERSION:
                reason = f"{state.damage}; open the store with the release that wrote it"
                raise CorruptFileError(state.path, 4, reason)
            if state.is_damaged:
                reason = f"{state.damage}, so the plugins and options are not known; {_AGAIN}"
                raise CorruptFileError(state.path, 0, reason)
            return None
        try:
            data = object_of(text)
            plugins, config, master = data["plugins"], data["config"], data.get("master")
        except (ValueError, KeyError) as error:
            raise CorruptFileError(state.path, 0, f"no manifest: {error}; {_AGAIN}") from None
        if not (
            isinstance(plugins, list)
            and {*map(type, plugins)} <= {str}
            and isinstance(config, dict)
            and {*map(type, config.values())} <= {dict}
        ):
            reason = "plugins must be a list of names, config a table of tables"
            raise CorruptFileError(state.path, 0, reason)
        if master is not None and not isinstance(master, str):
            raise CorruptFileError(state.path, 0, "master must be a name")
        return cls(tuple(plugins), config, master)

    def is_in(self, state: StateFile) -> bool:
        """Whether the journal and each slot of a state file have it."""
        text = self._text()
        for slot in state.known:
            if MANIFEST not in slot or slot[MANIFEST].value != text:
                return False
        return state.value(MANIFEST) == text

    def save(self, state: StateFile, others: Mapping[str, bytes] | None = None) -> None:
        """Note the manifest; on disk when this returns.

        Args:
            state: of the store.
            others: entries that a new file has besides.
        """
        state.note_everywhere({MANIFEST: self._text()}, others or {})

    def _text(self) -> bytes:
        data = {"plugins": sorted(self.plugins), "config": self.config}
        if self.master is not None:
            data["master"] = self.master
        return json.dumps(data, sort_keys=True).encode()
