"""`HalfRow`: what memory holds of one unfinished half message; `HalfRows`: all of them."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from reput_transaction.layout import ENDED, OPEN, SUPERSEDED, UNDECIDED


@attrs.define(eq=False, repr=False)
class Group:
    """The messages that one `TransactionPlugin.transaction` ends together."""

    name: str
    decision: int = UNDECIDED
    rows: dict[int, HalfRow] = attrs.field(factory=dict)
    """The unfinished half messages of the group, by physical offset."""
    open_count: int = 0

    @property
    def is_halved(self) -> bool:
        """Whether the group was decided, but some of its messages are still open."""
        return self.decision != UNDECIDED and self.open_count > 0


@attrs.define(eq=False, repr=False)
class HalfRow:
    """One half message; the message itself stays in the log."""

    queue_offset: int
    physical_offset: int
    born_timestamp: int
    check_times: int
    key: int
    """Hash of its ``UNIQ_KEY``; its birth time if it has none."""
    group: Group | None = None
    state: int = OPEN
    ended_to: int = 0
    """Physical offset after the record that ended it; 0 while it is open."""
    newer: HalfRow | None = None
    """The copy that replaced it."""
    older: HalfRow | None = None
    """The half message that it replaced."""

    @property
    def newest(self) -> HalfRow:
        """The copy that stands for the transaction now; the row itself if it has no copy."""
        row = self
        while row.newer is not None:
            row = row.newer
        return row


@attrs.define(eq=False, repr=False)
class HalfRows:
    """The unfinished half messages, indexed by everything that refers to them."""

    by_place: dict[int, HalfRow] = attrs.field(factory=dict)
    """By physical offset, ascending, which is also the order of the half queue."""
    by_queue_offset: dict[int, HalfRow] = attrs.field(factory=dict)
    by_key: dict[int, HalfRow | dict[int, HalfRow]] = attrs.field(factory=dict)
    """One row by key; several rows with the same key by physical offset."""
    groups: dict[str, Group] = attrs.field(factory=dict)
    ended: dict[int, HalfRow] = attrs.field(factory=dict)
    """Rows whose marker is still to be written, by physical offset."""
    halved: dict[str, Group] = attrs.field(factory=dict)
    """Groups that are half-done, by name."""
    open_count: int = 0

    def __len__(self) -> int:
        return len(self.by_place)

    def add(self, row: HalfRow, group: str | None = None) -> None:
        """Add an open row."""
        self.by_place[row.physical_offset] = row
        self.by_queue_offset[row.queue_offset] = row
        known = self.by_key.get(row.key)
        if known is None:
            self.by_key[row.key] = row
        elif isinstance(known, HalfRow):
            self.by_key[row.key] = {known.physical_offset: known, row.physical_offset: row}
        else:
            known[row.physical_offset] = row
        self.open_count += 1
        if group is not None:
            row.group = self.groups.setdefault(group, Group(group))
            row.group.rows[row.physical_offset] = row
            row.group.open_count += 1
            self.look_at(row.group)

    def with_key(self, key: int) -> list[HalfRow]:
        """Return the rows with that key, oldest first."""
        known = self.by_key.get(key)
        if known is None:
            return []
        return [known] if isinstance(known, HalfRow) else list(known.values())

    def set_state(self, row: HalfRow, state: int, ended_to: int = 0) -> None:
        """Make a row ended, or superseded."""
        if row.state == OPEN:
            self._count_open(row, -1)
        row.state, row.ended_to = state, ended_to
        if state == ENDED:
            self.ended[row.physical_offset] = row
        else:
            self.ended.pop(row.physical_offset, None)

    def decide(self, group: Group, decision: int) -> None:
        """Set the first decision of a group; later decisions change nothing."""
        if group.decision == UNDECIDED:
            group.decision = decision
        self.look_at(group)

    def look_at(self, group: Group) -> None:
        """Update whether a group is half-done."""
        if group.is_halved:
            self.halved[group.name] = group
        else:
            self.halved.pop(group.name, None)

    def forget_chain(self, newest: HalfRow) -> None:
        """Forget a row and all rows that it replaced."""
        row: HalfRow | None = newest
        while row is not None:
            older = row.older
            self.forget(row)
            row = older

    def forget(self, row: HalfRow) -> None:
        """Forget a row."""
        if row.state == OPEN:
            self._count_open(row, -1)
        self.by_place.pop(row.physical_offset, None)
        if self.by_queue_offset.get(row.queue_offset) is row:
            del self.by_queue_offset[row.queue_offset]
        known = self.by_key.get(row.key)
        if isinstance(known, dict):
            known.pop(row.physical_offset, None)
        if not known or known is row:
            self.by_key.pop(row.key, None)
        self.ended.pop(row.physical_offset, None)
        if row.older is not None:
            row.older.newer = None
        if row.newer is not None:
            row.newer.older = None
        row.newer = row.older = None
        group = row.group
        if group is not None:
            group.rows.pop(row.physical_offset, None)
            self.look_at(group)
            if not group.rows:
                self.groups.pop(group.name, None)

    def _count_open(self, row: HalfRow, step: int) -> None:
        self.open_count += step
        if row.group is not None:
            row.group.open_count += step
            self.look_at(row.group)

    def open_rows(self) -> list[HalfRow]:
        """Return the open rows, oldest first."""
        return [row for row in self.by_place.values() if row.state == OPEN]

    def unfinished(self) -> Iterator[HalfRow]:
        """Yield the rows that are open or lack a marker, oldest first."""
        return (row for row in self.by_place.values() if row.state != SUPERSEDED)
