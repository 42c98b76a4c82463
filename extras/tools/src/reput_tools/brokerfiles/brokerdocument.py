"""`BrokerDocument`: one JSON file of a broker's ``config`` directory, changed and never replaced.

The file may hold members that only a broker knows, or entries of other plugins. So a change reads
the file, edits the entries that it is about and writes all others back as they were. What cannot be
read is not overwritten: the change is refused, or a copy is kept.

A broker may keep the same documents in RocksDB instead. Where such a database is there, it is the
document: it is read and never changed, and no file is written beside it.

Source: RocketMQ ``ConfigManager`` and ``DataVersion``. Different on purpose: files are replaced
atomically and durably, and a broker that can read neither file nor backup goes on without both.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs

from reput.errors import NotAFileError
from reput.files import Disk, new_lock
from reput_tools.brokerfiles.contents import expected_content, wrong_content
from reput_tools.brokerfiles.documenttext import encode, is_text, object_of
from reput_tools.brokerfiles.errors import (
    DatabaseDocumentError,
    RocksDBError,
    UnreadableDocumentError,
)
from reput_tools.brokerfiles.unreadable import COPY_SUFFIX, copies_in, keep_copy

logger = logging.getLogger(__name__)

BACKUP_SUFFIX: Final = ".bak"
VERSION: Final = "dataVersion"
_SIZE_MAX: Final = 256 << 20
_BLANKS: Final = b" \t\r\n\f\b"
_EMPTY: Final = "it is empty"
_changing: Final = new_lock()  # one for all stores of the process


def backup_of(path: str) -> str:
    """Return the path of the file's previous version, which is read if the file is damaged."""
    return f"{path}{BACKUP_SUFFIX}"


@contextlib.contextmanager
def changing() -> Iterator[None]:
    """Keep other threads from changing such a file during the ``with`` block.

    Several plugins keep entries in one file of a broker: each reads the file, changes its own
    entries and replaces the file in one such block. A signal handler that closes the store on the
    same thread goes ahead; it freezes the disk, so that the interrupted code writes nothing older.
    """
    with _changing:
        yield


@attrs.frozen
class _Version:
    """One of the two files, as it is now."""

    path: str
    data: bytes = b""
    document: dict[str, Any] | None = None
    problem: str | None = None
    """Why the file cannot be read, or that it is empty; None if it is missing, too."""

    @property
    def is_lost(self) -> bool:
        """Whether the file holds, or may hold, something that cannot be read."""
        return self.problem is not None and self.problem != _EMPTY

    @property
    def can_be_kept(self) -> bool:
        """Whether `data` is all that the file holds: the disk gave it, and it is not too long."""
        return self.problem is None or 0 < len(self.data) <= _SIZE_MAX or self.problem == _EMPTY


def _nothing(document: dict[str, Any]) -> object:
    return None


@attrs.define(eq=False)
class BrokerDocument:
    """A file of the broker's. Thread-safe."""

    directory: str
    """The store's ``config`` directory."""
    file_name: str
    disk: Disk
    clock: Callable[[], int]
    note_problem: Callable[[str], None] = lambda text: None
    """Called with a text for a file that exists and cannot be read, and for a copy of it."""
    check: Callable[[dict[str, Any]], object] = _nothing
    """Raises `ValueError` for a document that says something else than it should; it counts as one
    that cannot be read then, as it does for a broker."""
    is_versioned: bool = True
    """Whether the document has a data version, which each change counts up."""
    starts_again: bool = False
    """Whether a change goes on from an empty document if neither file can be read. Copies of them
    are kept in any case."""
    consequence: str = ""
    """What follows if neither file can be read, in words; for the warning."""
    problem: UnreadableDocumentError | None = attrs.field(init=False, default=None)
    """Set while neither the file nor its backup can be read, as far as `read` or `change` know."""
    is_behind: bool = attrs.field(init=False, default=False)
    """Whether the document that a change begins with may be older than what was last written: it
    is the backup's, or empty, as the file cannot be read or does not exist."""
    _notes: tuple[str, ...] = attrs.field(init=False, default=())
    """What is to be known about the database that was read last."""
    _told: set[str] = attrs.field(init=False, factory=set)
    """Warnings of the last `read`, which a reader that looks again does not repeat."""
    _written: tuple[bytes, dict[str, Any]] | None = attrs.field(init=False, default=None)
    """What the last change wrote, so that the next one need not decode it again."""

    @property
    def path(self) -> str:
        """Path of the file."""
        return os.path.join(self.directory, self.file_name)

    @property
    def copies(self) -> list[str]:
        """Names of copies that were kept of versions that could not be read, sorted."""
        return copies_in(self.disk, self.directory, self.file_name)

    def modified_at(self) -> int:
        """Return when the file was written last, ms, as the file system knows it; -1 if missing."""
        try:
            return self.disk.modified_ms(self.path)
        except OSError:
            return -1

    def read(self) -> dict[str, Any]:
        """Return the document: the database's if there is one, or else the file's, or its backup's.

        It is empty if none of them can be read.
        """
        main = self._version(self.path)
        document, bad = self._read(main)
        reasons = {
            each.path: each.problem if each.problem == _EMPTY else f"it is damaged: {each.problem}"
            for each in bad
        }
        try:
            database = self._database()
        except OSError as error:  # a file does not count where a database may be
            database = document = None
            self.problem = self.problem or UnreadableDocumentError(self.path, str(error))
        if database is not None:
            from reput_tools.brokerfiles.rocksdbtables import takes_files_over

            beside, document = document, self._of_database(database)
            path = self.path if main.document is not None else backup_of(self.path)
            reasons = {}
            is_newer = _counter(beside) > _counter(document)
            if is_newer and self.problem is None and takes_files_over(database):
                reasons[path] = (
                    f"{database} is read instead; yet the data version of the file is newer, so a "
                    "broker copies the entries of the file to the database when it starts"
                )
        problem = self.problem
        if problem is not None:
            reason = reasons.get(problem.path, problem.reason)
            end = f"; {self.consequence}" if self.consequence else ""
            reasons[problem.path] = f"{reason}{end}"
        texts = [f"{path}: ignored, because {reason}" for path, reason in reasons.items()]
        texts += self._notes if database is not None else ()
        told, self._told = self._told, set(texts)
        for text in texts:
            if text not in told:
                self._tell(text)
        return document or {}

    @property
    def exists(self) -> bool:
        """Whether the file, its backup, or a database in its place is there."""
        there = self.disk.exists(self.path) or self.disk.exists(backup_of(self.path))
        return there or self._database() is not None

    def require(self) -> None:
        """Refuse to go on without what the file says.

        Raises:
            UnreadableDocumentError: neither the file nor its backup could be read the last time.
        """
        if self.problem is not None:
            raise self.problem

    def require_file(self) -> None:
        """Refuse to go on where a broker keeps the document in a database.

        Raises:
            DatabaseDocumentError: there is one.
        """
        database = self._database()
        if database is not None:
            raise DatabaseDocumentError(database)

    def change(self, edit: Callable[[dict[str, Any]], bool]) -> bool:
        """Edit the document, and replace the file durably if that has changed it.

        Args:
            edit: changes the document that it is given, and returns whether it did. The data
                version is counted up here.

        Returns:
            Whether the file was written.

        Raises:
            OSError: the file cannot be written; it is as it was. It is an `UnreadableDocumentError`
                if neither the file nor its backup can be read, and a `DatabaseDocumentError` if a
                broker keeps it in RocksDB.
        """
        with changing():
            self.require_file()
            try:
                before = self._current()
            except NotAFileError:
                if self.starts_again:
                    self._change_backup(edit)
                raise
            found, bad = self._read(before)
            self._written = None  # until all is done
            self.is_behind = before.document is None
            document = found or {}
            if found is None and not self.starts_again:
                self.require()
            # This change or the next one would overwrite it, though not all of it was copied.
            for each in bad:
                if not each.can_be_kept:
                    raise UnreadableDocumentError(each.path, str(each.problem))
            if not edit(document):
                return False
            self._write(self._versioned(document), before, bad)
            return True

    def _change_backup(self, edit: Callable[[dict[str, Any]], bool]) -> None:
        """Edit the backup, unless it is damaged: it is read while a directory is the file."""
        backup = self._version(backup_of(self.path))
        self._written, self.is_behind = None, True
        document = backup.document or {}
        if not backup.is_lost and edit(document):
            self.disk.replace(backup.path, encode(self._versioned(document)))

    def _versioned(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return a document that was edited as it is written."""
        if self.is_versioned:
            document[VERSION] = _next_version(document.get(VERSION), self.clock())
        # By name, as the broker's serializer writes members; tables keep their order.
        return dict(sorted(document.items()))

    def replace(self, document: Mapping[str, Any]) -> bool:
        """Replace the whole document durably; return whether it is another one.

        For documents that the caller knows in full. A copy is kept of what cannot be read.

        Raises:
            OSError: the file cannot be written; it is as it was. It is a `DatabaseDocumentError` if
                a broker keeps it in RocksDB.
        """
        with changing():
            self.require_file()
            before = self._current()
            if before.document == document:
                return False
            bad = self._read(before)[1]
            self._written = None
            self._write(dict(document), before, bad)
            return True

    def finish_replacing(self, *, flush: bool) -> None:
        """Finish or undo a change that a crash has interrupted; before the first `read`."""
        names = [self.file_name, backup_of(self.file_name)]
        copies = [f"{each}{COPY_SUFFIX}" for each in names]
        with changing():  # another plugin may write the file now
            self.disk.finish_replacing(self.directory, *names, *copies, flush=flush)

    def _write(self, document: dict[str, Any], before: _Version, bad: list[_Version]) -> None:
        data = encode(document)
        self.disk.make_directory(self.directory, durable=True)
        kept = [each for each in bad if each.is_lost and each.data.strip(b"\0")]
        if before.document is not None and not is_text(before.data):
            kept.append(before)  # some bytes of names are not in the document
        # The copies come first: from the next line on their bytes are nowhere else.
        for each in kept:
            copy = keep_copy(self.disk, each.path, each.data)
            reason = each.problem or "it is not UTF-8"
            self._tell(f"{each.path}: cannot be read, and was copied to {copy}: {reason}")
        if before.document is not None:
            self.disk.replace(backup_of(self.path), before.data)
        self.disk.replace(self.path, data)
        self.problem = None
        self._written = data, document

    def _database(self) -> str | None:
        """Return the path of the database in which a broker keeps this document; None without."""
        from reput_tools.brokerfiles.rocksdbtables import database_of

        return database_of(self.directory, self.file_name, self.disk)

    def _of_database(self, path: str) -> dict[str, Any] | None:
        self.problem = None  # of the file, which does not count
        self._notes = ()
        from reput_tools.brokerfiles.rocksdbtables import databases_of, read_database
        from reput_tools.brokerfiles.tables import change_time

        try:
            document, others = read_database(path, self.file_name, self.disk)
            self.check(document)
        except (RocksDBError, ValueError) as error:
            reason = error.reason if isinstance(error, RocksDBError) else str(error)
            self.problem = UnreadableDocumentError(path, reason)
            return None
        notes = [f"{path}: {others}"] if others else []
        for other in databases_of(self.directory, self.file_name, self.disk)[1:]:
            with contextlib.suppress(RocksDBError):
                beside, _ = read_database(other, self.file_name, self.disk)
                if change_time(beside) > change_time(document):
                    notes.append(
                        f"{other}: ignored, because {path} is read instead; yet it was changed "
                        "later: a broker without the option of the other reads it"
                    )
        self._notes = tuple(notes)
        return document

    def _current(self) -> _Version:
        """Return the file as it is now; for a change, which fails if the disk does."""
        data = self.disk.read_if_exists(self.path, _SIZE_MAX + 1)
        if data is None:
            return _Version(self.path)
        if self._written is not None and self._written[0] == data:
            return _Version(self.path, data, self._written[1])
        return self._decoded(self.path, data)

    def _read(self, main: _Version) -> tuple[dict[str, Any] | None, list[_Version]]:
        """Return the document of the file or of its backup, and what cannot be read of the two.

        None stands for no document: neither of them exists, or can be read.
        """
        if main.document is not None:
            self.problem = None
            return main.document, []
        backup = self._version(backup_of(self.path))
        bad = [each for each in (main, backup) if each.problem is not None]
        lost = [each for each in bad if each.is_lost] if backup.document is None else []
        self.problem = None
        if lost:
            self.problem = UnreadableDocumentError(lost[0].path, str(lost[0].problem))
        return backup.document, bad

    def _version(self, path: str) -> _Version:
        try:
            data = self.disk.read_file(path, _SIZE_MAX + 1)
        except FileNotFoundError:
            return _Version(path)
        except OSError as error:
            return _Version(path, problem=str(error))
        return self._decoded(path, data)

    def _decoded(self, path: str, data: bytes) -> _Version:
        if not data.strip(_BLANKS):
            # Brokers create a file empty before they write, and take an empty one for missing.
            return _Version(path, data, problem=_EMPTY)
        if not data.strip(b"\0"):
            return _Version(path, data, problem="all of its bytes are zero")
        if len(data) > _SIZE_MAX:
            return _Version(path, data, problem=f"it has more than {_SIZE_MAX} bytes")
        try:
            document = object_of(data)
            self.check(document)
        except ValueError as error:
            return _Version(path, data, problem=str(error))
        # A broker takes the content of another document for an empty one, and overwrites it.
        wrong = wrong_content(self.file_name, document)
        if wrong is not None:
            problem = f"{expected_content(self.file_name)} expected, found {wrong}"
            return _Version(path, data, problem=problem)
        return _Version(path, data, document)

    def _tell(self, text: str) -> None:
        logger.warning("%s", text)
        self.note_problem(text)


def _counter(document: dict[str, Any] | None) -> int:
    """Return how often a document was changed, by its data version; brokers compare only this."""
    version = (document or {}).get(VERSION)
    counter = version.get("counter") if isinstance(version, dict) else None
    return counter if isinstance(counter, int) else 0


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
