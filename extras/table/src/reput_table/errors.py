"""`QueryError`, and what SQLite's errors mean for a table."""

from __future__ import annotations

import errno
import sqlite3

import attrs

from reput.errors import CorruptFileError, ReputError

_BUSY, _READ_ONLY, _IO, _CORRUPT, _FULL = 5, 8, 10, 11, 13
_CANNOT_OPEN, _NOT_A_DATABASE = 14, 26
_SYSTEM = {
    _BUSY: errno.EAGAIN,
    _READ_ONLY: errno.EROFS,
    _IO: errno.EIO,
    _FULL: errno.ENOSPC,
    _CANNOT_OPEN: errno.EIO,
}


@attrs.define(eq=False, slots=False)
class QueryError(ReputError, ValueError):
    """A query that a table cannot answer."""

    plugin: str
    query: str
    reason: str
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"table {self.plugin}: {self.reason}; in: {self.query}"
        return f"{text}; columns: {', '.join(self.columns)}" if self.columns else text


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection has a lock that this one needs."""
    return _code(error) == _BUSY


def is_refused(error: sqlite3.Error) -> bool:
    """Whether SQLite, or Python, could do nothing with what it read; the file itself was read."""
    return _code(error) in (0, 1)


def error_of(error: sqlite3.Error | UnicodeError, path: str) -> Exception:
    """Return the error that tells a store, and its users, what has happened to the file."""
    if isinstance(error, UnicodeError):  # SQLite quotes names of a damaged file
        return CorruptFileError(path, 0, f"not what SQLite wrote: {error}")
    code = _code(error)
    if code in (_CORRUPT, _NOT_A_DATABASE):
        return CorruptFileError(path, 0, f"not what SQLite wrote: {error}")
    if code in _SYSTEM:
        return OSError(_SYSTEM[code], str(error), path)
    return error


def _code(error: sqlite3.Error) -> int:
    # Extended codes say more in their high bytes.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
