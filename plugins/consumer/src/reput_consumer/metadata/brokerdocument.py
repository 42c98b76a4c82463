"""`BrokerDocument`: one JSON file of a broker's ``config`` directory, changed and never replaced.

`SettingsTable` is such a file whose table holds settings by name.

The file may hold members that only a broker knows, or entries of other plugins. So a change reads
the file, edits the entries that it is about and writes all others back as they were.

Source: RocketMQ ``ConfigManager`` and ``DataVersion``.
"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

import attrs

from reput.files import Disk, brokerjson

logger = logging.getLogger(__name__)

__all__ = ["BrokerDocument", "SettingsTable", "section_of"]

DIRECTORY: Final = "config"
VERSION: Final = "dataVersion"


@attrs.define(eq=False)
class BrokerDocument:
    """A file of the broker's. Thread-safe, with all other plugins that use `brokerjson`."""

    directory: str
    """The store's ``config`` directory."""
    file_name: str
    disk: Disk
    clock: Callable[[], int]
    note_problem: Callable[[str], None] = lambda text: None
    """Called with a text for a file that exists and says nothing."""
    _written: tuple[bytes, dict[str, Any]] | None = attrs.field(init=False, default=None)
    """What the last change wrote, so that the next one need not decode it again."""

    @property
    def path(self) -> str:
        """Path of the file."""
        return os.path.join(self.directory, self.file_name)

    def read(self) -> dict[str, Any]:
        """Return the file's document, or that of its backup; empty if neither holds one."""
        return brokerjson.read(self.disk, self.path, self._tell) or {}

    def change(self, edit: Callable[[dict[str, Any]], bool]) -> bool:
        """Edit the document, and replace the file durably if that has changed it.

        Args:
            edit: changes the document that it is given, and returns whether it did. The data
                version is counted up here.

        Returns:
            Whether the file was written.

        Raises:
            OSError: the file cannot be written; it is as it was.
        """
        with brokerjson.changing():
            before = self._bytes()
            document, is_sound = self._document_of(before)
            self._written = None  # until all is done
            if not edit(document):
                return False
            document[VERSION] = _next_version(document.get(VERSION), self.clock())
            # By name, as the broker's serializer writes members; tables keep their order.
            document = dict(sorted(document.items()))
            data = brokerjson.encode(document).encode()
            self.disk.make_directory(self.directory, durable=True)
            if is_sound:
                self.disk.replace(brokerjson.backup_of(self.path), before)
            self.disk.replace(self.path, data)
            self._written = data, document
            return True

    def _bytes(self) -> bytes:
        try:
            return self.disk.read_file(self.path)
        except FileNotFoundError:
            return b""

    def _document_of(self, data: bytes) -> tuple[dict[str, Any], bool]:
        """Return the document, and whether ``data`` holds it: if not, it is the backup's."""
        if self._written is not None and self._written[0] == data:
            return self._written[1], True
        try:
            document = brokerjson.decode(data)
        except ValueError:
            return self.read(), False
        return (document, True) if isinstance(document, dict) else (self.read(), False)

    def finish_replacing(self, *, flush: bool) -> None:
        """Finish or undo a change that a crash has interrupted; before the first `read`."""
        names = (self.file_name, brokerjson.backup_of(self.file_name))
        self.disk.finish_replacing(self.directory, *names, flush=flush)

    def _tell(self, text: str) -> None:
        logger.warning("file of the broker's not read: %s", text)
        self.note_problem(text)


def section_of(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the table ``name`` of a document, to read or to change; an empty one if it has none.

    A value that is not a table is replaced by one, as a broker would fail to load it.
    """
    found = document.get(name)
    if not isinstance(found, dict):
        found = document[name] = {}
    return found


S = TypeVar("S")


@attrs.define(eq=False)
class SettingsTable(ABC, Generic[S]):
    """A file whose one table holds settings by name; base of those for groups and for topics.

    Thread-safe. Members of an entry that only brokers know are kept.
    """

    document: BrokerDocument
    _table: dict[str, dict[str, Any]] = attrs.field(init=False, factory=dict)
    _made: dict[str, tuple[dict[str, Any], S]] = attrs.field(init=False, factory=dict)
    """By name: the settings that were asked for last, and the entry that they were made of."""

    table_name: ClassVar[str]
    """The table's name in the file."""
    name_field: ClassVar[tuple[str, str]]
    """Field of the settings class that names the entry, and the entry's member for it."""
    fields: ClassVar[Mapping[str, tuple[str, type]]]
    """By field of the settings class: the entry's member, and the type of its value."""

    @abstractmethod
    def settings_of(self, name: str, found: Mapping[str, Any]) -> S:
        """Return what an entry says; ``found`` has the fields that it holds rightly."""

    def default_of(self, name: str) -> S:
        """Return the settings of an entry that says nothing."""
        return self.settings_of(name, {})

    def new_entry(self) -> dict[str, Any]:
        """Return members that a new entry has beside those of the settings."""
        return {}

    def complete(self, document: dict[str, Any]) -> None:
        """Add what a broker expects in a new file beside the table."""

    def load(self) -> None:
        """Read the file."""
        found = section_of(self.document.read(), self.table_name)
        self._table = {name: entry for name, entry in found.items() if isinstance(entry, dict)}

    def names(self) -> list[str]:
        """Return the names of all entries, sorted."""
        return sorted(self._table)

    @property
    def entries(self) -> Mapping[str, Mapping[str, Any]]:
        """The table as it is now; another object once anything in it has changed."""
        return self._table

    def get(self, name: str) -> S | None:
        """Return the settings of a name; None for one that the file does not know.

        As long as its entry is the same, the same object is returned.
        """
        entry = self._table.get(name)
        if entry is None:
            return None
        known = self._made.get(name)
        if known is not None and known[0] is entry:  # an entry is replaced, and never changed
            return known[1]
        made = self._made_of(name, entry)
        self._made[name] = entry, made
        return made

    def _made_of(self, name: str, entry: Mapping[str, Any]) -> S:
        found = {
            field: entry[member]
            for field, (member, kind) in self.fields.items()
            if type(entry.get(member)) is kind
        }
        try:
            return self.settings_of(name, found)
        except ValueError:
            return self.default_of(name)  # numbers that no broker writes

    def put(self, settings: S) -> S:
        """Add an entry, or change it; members that only brokers know are kept.

        Raises:
            OSError: the file cannot be written.
        """
        self.put_many([settings])
        return settings

    def put_many(self, many: Iterable[S]) -> None:
        """Add or change entries, in one change of the file.

        Raises:
            OSError: the file cannot be written.
        """
        entries: dict[str, dict[str, Any]] = {}

        def edit(document: dict[str, Any]) -> bool:
            self.complete(document)
            table = section_of(document, self.table_name)
            is_changed = False
            for settings in many:
                name, entry = self._entry(settings, table)
                is_changed |= table.get(name) != entry
                table[name] = entries[name] = entry
            return is_changed

        with brokerjson.changing():
            self.document.change(edit)
            self._table = {**self._table, **entries}

    def remove(self, name: str) -> bool:
        """Remove an entry; return whether there was one.

        Raises:
            OSError: the file cannot be written; the entry is still there.
        """

        def edit(document: dict[str, Any]) -> bool:
            return section_of(document, self.table_name).pop(name, None) is not None

        with brokerjson.changing():
            was_there = self.document.change(edit)
            self._table = {key: each for key, each in self._table.items() if key != name}
            self._made.pop(name, None)
            return was_there

    def _entry(self, settings: S, table: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        name_field, name_member = self.name_field
        name: str = getattr(settings, name_field)
        known = table.get(name)
        entry = {**(known if isinstance(known, dict) else self.new_entry()), name_member: name}
        for field, (member, _) in self.fields.items():
            entry[member] = getattr(settings, field)
        return name, dict(sorted(entry.items()))


def _next_version(version: object, now: int) -> dict[str, int]:
    """Return the data version after one more change; ``stateVersion`` is skipped by 4.8."""
    found = version if isinstance(version, dict) else {}
    numbers = {
        name: value
        for name in ("counter", "stateVersion")
        if isinstance(value := found.get(name), int)
    }
    return {
        "counter": numbers.get("counter", 0) + 1,
        "stateVersion": numbers.get("stateVersion", 0),
        "timestamp": now,
    }
