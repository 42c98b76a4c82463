"""`ActionLog`: who changed a store by the pages, when, and how it ended.

The file is ``reput/web/actions.json`` in the store's directory: a JSON list of the last actions,
oldest first. It is replaced as a whole, so it is never torn; a lock file beside it lets several
processes write it. Nothing but these pages reads or writes it, and removing it harms nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from reput.errors import CorruptFileError
from reput.files import OWN_DIRECTORY, Disk, system_clock

KEPT: Final = 500
_TEXT_MAX: Final = 300
_SIZE_MAX: Final = 8 << 20


@attrs.frozen
class LoggedAction:
    """One action."""

    id: str
    timestamp: int
    """When it began, ms."""
    action: str
    values: dict[str, str]
    """Those of its form, cut to a length."""
    actor: str
    """The address that asked for it, and the user name that a browser sent, if any."""
    state: str = "begun"
    """``begun``, ``done`` or ``failed``; it stays ``begun`` if the process ended in between."""
    text: str = ""
    """What was done, or why not."""


@attrs.define(eq=False)
class ActionLog:
    """The log of one store. Used on threads that may wait."""

    root: str
    follow_links: bool = False

    @property
    def _disk(self) -> Disk:
        return Disk().at(self.root, follow_links=self.follow_links)

    @property
    def path(self) -> str:
        """The file."""
        return os.path.join(self.root, OWN_DIRECTORY, "web", "actions.json")

    def read(self) -> list[LoggedAction]:
        """Return the last actions, newest first.

        Raises:
            CorruptFileError: the file is not what the pages write.
            OSError: it cannot be read.
        """
        return self._load(self._disk)[::-1]

    def begin(self, action: str, values: Mapping[str, str], actor: str) -> LoggedAction:
        """Note that an action begins; durable when this returns.

        Raises:
            CorruptFileError: the file is not what the pages write.
            OSError: it cannot be written; the action must not begin, then.
        """
        shown = {name: _short(value) for name, value in values.items() if value}
        entry = LoggedAction(secrets.token_hex(8), system_clock(), action, shown, _short(actor))
        with self._locked() as disk:
            self._save(disk, [*self._load(disk), entry])
        return entry

    def end(self, entry: LoggedAction, state: str, text: str) -> None:
        """Note how an action ended."""
        ended = attrs.evolve(entry, state=state, text=_short(text))
        with self._locked() as disk:
            found = [ended if each.id == entry.id else each for each in self._load(disk)]
            self._save(disk, found)

    def _load(self, disk: Disk) -> list[LoggedAction]:
        data = disk.read_if_exists(self.path, _SIZE_MAX)
        if data is None:
            return []
        try:
            found = json.loads(data)
            if not isinstance(found, list):
                raise TypeError
            return [_entry(each) for each in found]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            reason = f"this is not a log of actions ({type(error).__name__}); remove the file"
            raise CorruptFileError(self.path, 0, reason) from None

    def _save(self, disk: Disk, entries: list[LoggedAction]) -> None:
        rows = [_row(each) for each in entries[-KEPT:]]
        while sum(map(len, rows)) + 2 * len(rows) > _SIZE_MAX:  # a longer file is not read
            del rows[0]
        disk.replace(self.path, b"[" + b",\n".join(rows) + b"]")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Disk]:
        disk = self._disk
        disk.make_directory(os.path.dirname(self.path))
        descriptor = disk.open(f"{self.path}.lock", create=True)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield disk
        finally:
            disk.close(descriptor)


def _row(entry: LoggedAction) -> bytes:
    # Names of files may have bytes that are not UTF-8; JSON escapes each of them.
    return json.dumps(attrs.asdict(entry), ensure_ascii=False).encode("utf-8", "backslashreplace")


def _entry(row: Mapping[str, Any]) -> LoggedAction:
    texts = ("id", "action", "actor", "state", "text")
    values = {str(name): str(value) for name, value in dict(row["values"]).items()}
    return LoggedAction(
        timestamp=int(row["timestamp"]), values=values, **{name: str(row[name]) for name in texts}
    )


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"
