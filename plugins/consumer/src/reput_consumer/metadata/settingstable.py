"""`SettingsTable`: a file of the broker whose one table holds settings by name."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import attrs

from reput_tools.brokerfiles import (
    BrokerDocument,
    changing,
    flag_of,
    integer_of,
    member_of,
    plain_name,
    section_of,
    table_of,
    text_of,
)

S = TypeVar("S")
_INT_BITS = 32


@attrs.define(eq=False, repr=False)
class SettingsTable(ABC, Generic[S]):
    """Base of the tables for groups and for topics.

    Thread-safe. Members of an entry that only brokers know are kept.
    """

    document: BrokerDocument
    _changed: Callable[[], object] = attrs.field(default=lambda: None, kw_only=True)
    """Called, on any thread, when there are other entries."""
    _watcher: Callable[[], object] = attrs.field(init=False, default=lambda: None)
    _listener: Callable[[], object] = attrs.field(init=False, default=lambda: None)
    _table: dict[str, dict[str, Any]] = attrs.field(init=False, factory=dict)
    _pending: dict[str, S] = attrs.field(init=False, factory=dict)
    """By name: what was added and is not in the file yet."""
    _made: dict[str, tuple[dict[str, Any], S]] = attrs.field(init=False, factory=dict)
    """By name: the settings that were asked for last, and the entry that they were made of."""

    table_name: ClassVar[str]
    """The table's name in the file."""
    name_field: ClassVar[tuple[str, str]]
    """Field of the settings class that names the entry, and the entry's member for it."""
    fields: ClassVar[Mapping[str, tuple[str, type]]]
    """By field of the settings class: the entry's member, and the type of its value."""

    def __attrs_post_init__(self) -> None:
        self.document.check = self.check

    def watch(self, watcher: Callable[[], object]) -> None:
        """Have ``watcher`` called, on any thread, when there are other entries; for servers.

        It replaces the one of an earlier call.
        """
        self._watcher = watcher

    def listen(self, listener: Callable[[], object]) -> None:
        """Have ``listener`` called like a watcher; for the members of this process."""
        self._listener = listener

    def _notify(self) -> None:
        self._changed()
        self._watcher()
        self._listener()

    @staticmethod
    @abstractmethod
    def check_name(name: object, /) -> str:
        """Refuse a name that no entry can have.

        Raises:
            TypeError: it is not a string.
            ValueError: no broker takes it.
        """

    @abstractmethod
    def settings_of(self, name: str, found: Mapping[str, Any]) -> S:
        """Return what an entry says; ``found`` has the fields that it has."""

    def default_of(self, name: str) -> S:
        """Return the settings of an entry that says nothing."""
        return self.settings_of(name, {})

    def new_entry(self) -> dict[str, Any]:
        """Return members that a new entry has beside those of the settings."""
        return {}

    def complete(self, document: dict[str, Any]) -> None:
        """Add what a broker expects in a new file beside the table."""

    def check(self, document: Mapping[str, Any]) -> None:
        """Refuse a document that a broker cannot read, as settings would be taken for others.

        Raises:
            ValueError: the table, an entry, or a value has a type that cannot be converted.
        """
        for name, entry in table_of(document, self.table_name).items():
            if not isinstance(entry, dict):
                raise ValueError(f"{self.table_name}, {name!r:.80}: not an object")
            self._values_of(name, entry)

    def load(self) -> None:
        """Read the file."""
        self._table = section_of(self.document.read(), self.table_name)

    def require(self) -> None:
        """Refuse to go on without what the file says; it is read again, as it may be corrected.

        Raises:
            UnreadableDocumentError: neither the file nor its backup can be read.
        """
        if self.document.problem is not None:
            self.load()
            self.document.require()

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
        found: dict[str, Any] = {}
        with contextlib.suppress(ValueError):
            found = self._values_of(name, entry)
            return self.settings_of(name, found)
        # Numbers that no broker writes: what they stand beside, such as a permission, counts.
        return self.settings_of(
            name, {key: value for key, value in found.items() if self._fits(name, key, value)}
        )

    def _fits(self, name: str, field: str, value: object) -> bool:
        try:
            self.settings_of(name, {field: value})
        except ValueError:
            return False
        return True

    def _values_of(self, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for field, (member, kind) in self.fields.items():
            try:
                value = _converted(member_of(entry, member), kind)
            except ValueError as error:
                text = f"{self.table_name}, {name!r:.80}: {member}: {error}"
                raise ValueError(text) from None
            if value is not None:
                found[field] = value
        return found

    def put(self, settings: S) -> S:
        """Add an entry, or change it; members that only brokers know are kept.

        Raises:
            ValueError: the name of a new entry is not valid.
            OSError: the file cannot be written, or what it says cannot be read.
        """
        self.put_many([settings])
        return settings

    def put_soon(self, settings: S) -> S:
        """Add an entry in memory; the next change, or `save`, writes it to the file.

        For an entry that is added again when it is needed, if a crash loses it.

        Raises:
            ValueError: the name of a new entry is not valid.
            UnreadableDocumentError: what the file says cannot be read.
        """
        self._check_new(settings)
        self.document.require()
        with changing():
            name, entry = self._entry(settings, self._table)
            self._pending[name] = settings
            self._table = {**self._table, name: entry}
        self._notify()
        return settings

    @property
    def is_saved(self) -> bool:
        """Whether the file has all entries."""
        return not self._pending

    def save(self) -> None:
        """Write the entries that are not in the file yet.

        Raises:
            OSError: the file cannot be written, or what it says cannot be read.
        """
        if self._pending:
            SettingsTable.put_many(self, [])

    def put_many(self, many: Iterable[S]) -> None:
        """Add or change entries, in one change of the file.

        Raises:
            ValueError: the name of a new entry is not valid; no entry is added or changed.
            OSError: the file cannot be written, or what it says cannot be read.
        """
        entries: dict[str, dict[str, Any]] = {}
        many = list(many)
        for each in many:
            self._check_new(each)

        def edit(document: dict[str, Any]) -> bool:
            self.complete(document)
            table = section_of(document, self.table_name)
            is_changed = self._fill(table)
            for settings in (*pending.values(), *many):
                name, entry = self._entry(settings, table)
                is_changed |= table.get(name) != entry
                table[name] = entries[name] = entry
            return is_changed

        with changing():
            pending = dict(self._pending)
            self.document.change(edit)
            self._table = {**self._table, **entries}
            for name in pending:
                self._pending.pop(name, None)
        self._notify()

    def remove(self, name: str) -> bool:
        """Remove an entry; return whether there was one.

        Raises:
            OSError: the file cannot be written; the entry is still there.
        """
        was_there = False

        def edit(document: dict[str, Any]) -> bool:
            nonlocal was_there
            table = section_of(document, self.table_name)
            is_changed = self._fill(table)
            was_there = table.pop(name, None) is not None
            return is_changed or was_there

        with changing():
            is_known = name in self._table
            self.document.change(edit)
            is_known |= self._pending.pop(name, None) is not None
            self._table = {key: each for key, each in self._table.items() if key != name}
            self._made.pop(name, None)
        self._notify()
        return was_there or is_known

    def _fill(self, table: dict[str, Any]) -> bool:
        """Complete a table that may be older than what is known here; return whether it changed.

        As where another program has removed the file while the store is open.
        """
        if not self.document.is_behind or self._table.items() <= table.items():
            return False
        table.update(self._table)
        return True

    def _check_new(self, settings: S) -> None:
        name = getattr(settings, self.name_field[0])
        if name not in self._table:  # an entry that is there can be changed, whatever its name
            self.check_name(name)

    def _entry(self, settings: S, table: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        name_field, name_member = self.name_field
        name: str = getattr(settings, name_field)
        known, fields = table.get(name), self.fields.values()
        before = known if isinstance(known, dict) else self.new_entry()
        # Other spellings of these members, which brokers take, too, would stand beside them.
        own = {plain_name(each) for each in (name_member, *(member for member, _ in fields))}
        entry = {key: value for key, value in before.items() if plain_name(key) not in own}
        entry[name_member] = name
        for field, (member, _) in self.fields.items():
            entry[member] = getattr(settings, field)
        return name, dict(sorted(entry.items()))


def _converted(value: object, kind: type) -> object:
    """Return a member's value in the type of its field, as brokers convert it; None without one.

    Raises:
        ValueError: brokers do not convert it either.
    """
    if kind is int:
        return integer_of(value, _INT_BITS)
    if kind is bool:
        return flag_of(value)
    if kind is str:
        return text_of(value)
    if value is None or isinstance(value, dict):
        return value
    raise ValueError("an object is expected")
