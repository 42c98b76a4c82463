"""`Schema`: the columns of a plugin's table, and the SQL that makes the table.

    "_place"   one row: how far the log is in the table, and what made the table
    "_parts"   one row for each part of the log that has rows
    "_rows"    the author's columns, before them the part, after them a checksum of the row
    <plugin>   a view: the author's columns, summed up over all parts

A *part* is a stretch of one commit-log file. The log loses its tail in a crash and its head to
retention; the table then loses all rows of the parts concerned, and nothing has to be subtracted.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

KINDS: Final[Mapping[type, str]] = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}
"""Types of columns, and what SQLite calls them."""


_PLACE: Final = """CREATE TABLE "_place" (
    "one" INTEGER PRIMARY KEY,
    "dispatched_to" INTEGER NOT NULL,  -- physical offset below which all messages are in the table
    "layout" TEXT NOT NULL,  -- fingerprint of version, options and sizes
    "_check" INTEGER NOT NULL
)"""
_PARTS: Final = """CREATE TABLE "_parts" (
    "part" INTEGER PRIMARY KEY,  -- physical offset at which it begins
    "first_offset" INTEGER NOT NULL,  -- physical offset of its first record
    "first_row" INTEGER NOT NULL,  -- number of its first row; 0 in a table with a key
    "_check" INTEGER NOT NULL
)"""


def checksum(*values: Any) -> int:
    """Return the checksum of one row; SQL knows it as ``reput_check``."""
    return zlib.crc32(repr(values).encode())


def with_checksums(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield rows with the `checksum` of each behind its values."""
    crc32 = zlib.crc32  # a call of `checksum` would cost as much as the checksum
    return ((*row, crc32(repr(row).encode())) for row in rows)


@attrs.frozen(kw_only=True)
class Schema:
    """The columns of a table: either ``columns``, or a ``key`` with aggregates.

    With ``columns`` the table has every row that the plugin returns. With a ``key`` rows of one
    key become one row; each aggregate says in its name how. Missing texts of a key are empty.

        Schema(key={"topic": str}, sums=["messages"], greatest={"largest": int})

    Raises:
        ValueError: a name or a type that a column cannot have.
        TypeError: types by name are not a mapping, or ``sums`` or ``indexes`` not lists of names.
    """

    columns: Mapping[str, type] = attrs.field(factory=dict)
    """Types by name: ``int``, ``float``, ``str`` or ``bytes``; values may be None."""
    key: Mapping[str, type] = attrs.field(factory=dict)
    """Types by name of the columns that rows are put together by."""
    sums: Collection[str] = ()
    """Columns of integers that are added up. Floats are not: their sum depends on their order."""
    least: Mapping[str, type] = attrs.field(factory=dict)
    """Columns of numbers of which the least is kept."""
    greatest: Mapping[str, type] = attrs.field(factory=dict)
    """Columns of numbers of which the greatest is kept."""
    indexes: Sequence[Sequence[str]] = ()
    """Columns that queries look rows up by: an index for each sequence of names."""

    def __attrs_post_init__(self) -> None:
        self._check_kinds()
        names = [*self.columns, *self.key, *self.sums, *self.least, *self.greatest]
        if bool(self.columns) == bool(self.key):
            raise ValueError("a schema has columns, or a key with aggregates: name one of the two")
        if self.columns and len(names) > len(self.columns):
            raise ValueError("sums, least and greatest need a key")
        for name in names:
            if not name.isidentifier() or name.startswith("_"):
                raise ValueError(
                    f"{name!r} is not a name of a column: a word without a leading _ expected"
                )
        if len({name.lower() for name in names}) < len(names):
            raise ValueError(f"a column is named twice, and SQL ignores case: {', '.join(names)}")
        for name, kind in self.types.items():
            if kind not in KINDS:
                raise ValueError(f"{name} is of {kind!r}; known: int, float, str, bytes")
        for name in (*self.least, *self.greatest):
            if self.types[name] not in (int, float):
                raise ValueError(f"{name} is not a number; least and greatest need int or float")
        for name in (name for index in self.indexes for name in index):
            if name not in self.types:
                raise ValueError(f"an index names {name}; known: {', '.join(names)}")

    def _check_kinds(self) -> None:
        for name in ("columns", "key", "least", "greatest"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                expected = f'types by name expected, such as {name}={{"size": int}}'
                raise TypeError(f"{name}: {expected}; found {value!r}")
        if not _are_names(self.sums):
            expected = 'a list of names expected, such as sums=["messages"]'
            raise TypeError(f"sums: {expected}; found {self.sums!r}")
        indexes: Any = self.indexes
        if not (isinstance(indexes, Collection) and all(map(_are_names, indexes))):
            expected = 'lists of names expected, such as indexes=[["topic", "minute"]]'
            raise TypeError(f"indexes: {expected}; found {self.indexes!r}")

    @property
    def types(self) -> dict[str, type]:
        """Types of all columns by name, in the order in which they are stored."""
        sums = dict.fromkeys(self.sums, int)
        return {**self.columns, **self.key, **sums, **self.least, **self.greatest}

    # ------------------------------------------------------------------ SQL

    def statements(self, view: str) -> list[str]:
        """Return the statements that make the tables, and the view of that name."""
        columns = [f'"{name}" {KINDS[kind]}' for name, kind in self.types.items()]
        rows = ['"_part" INTEGER NOT NULL', *columns, '"_check" INTEGER NOT NULL']
        end = ""
        if self.key:
            rows.append(f"PRIMARY KEY ({_listed(['_part', *self.key])})")
            end = " WITHOUT ROWID"
        made = [
            _PLACE,
            _PARTS,
            f'CREATE TABLE "_rows" ({", ".join(rows)}){end}',
            f'CREATE VIEW "{view}" AS SELECT {self._selected()}',
        ]
        for number, names in enumerate(self.indexes):
            made.append(f'CREATE INDEX "_index_{number}" ON "_rows" ({_listed(names)})')
        return made

    def _selected(self) -> str:
        if not self.key:
            return f'{_listed(self.columns)} FROM "_rows"'
        chosen = [f'"{name}"' for name in self.key]
        for function, names in (("sum", self.sums), ("min", self.least), ("max", self.greatest)):
            chosen += [f'{function}("{name}") AS "{name}"' for name in names]
        return f'{", ".join(chosen)} FROM "_rows" GROUP BY {_listed(self.key)}'

    @property
    def insert(self) -> str:
        """The statement that stores a row: part, columns, checksum. It adds to a row of its key."""
        marks = ", ".join("?" * (len(self.types) + 2))
        text = f'INSERT INTO "_rows" VALUES ({marks})'
        return f"{text} {self.on_conflict}" if self.key else text

    @property
    def on_conflict(self) -> str:
        """What happens to a row whose part and key are there."""
        merged = {name: f'"{name}" + excluded."{name}"' for name in self.sums}
        merged |= {name: f'min("{name}", excluded."{name}")' for name in self.least}
        merged |= {name: f'max("{name}", excluded."{name}")' for name in self.greatest}
        values = ", ".join([_listed(["_part", *self.key]), *merged.values()])
        sets = [f'"{name}" = {value}' for name, value in merged.items()]
        sets.append(f'"_check" = reput_check({values})')
        target = _listed(["_part", *self.key])
        return f"ON CONFLICT ({target}) DO UPDATE SET {', '.join(sets)}"

    @property
    def wrong_rows(self) -> str:
        """The query that counts rows that do not have their checksum."""
        values = _listed(["_part", *self.types])
        return f'SELECT count(*) FROM "_rows" WHERE "_check" IS NOT reput_check({values})'


def _are_names(value: Any) -> bool:
    return (
        isinstance(value, Collection)
        and not isinstance(value, str | bytes)
        and all(isinstance(name, str) for name in value)
    )


def _listed(names: Collection[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
