"""`LedgerFiles`: the files of a log that DLedger keeps, and what they say to be committed.

    dledger-n0/data/<20 digits>     entries (`reput.record.entries`)
    dledger-n0/index/<20 digits>    32 bytes for each entry; a file is named by 32 * its first index
    dledger-n0/checkpoint           committedIndex=…, as of three seconds ago at most
    dledger-n0/currterm             voteLeader=…, the node that this one voted for

A plain log may precede the entries: files of ``commitlog``, which end where the first file of
entries begins. reput writes files of entries only, and only those of a group of one node.

Source: DLedger ``DLedgerMmapFileStore``, ``MemberState``; RocketMQ ``DLedgerCommitLog``.
"""

from __future__ import annotations

import os
import re
import struct
from typing import TYPE_CHECKING, Final

from reput.errors import UnsafePathError
from reput.files.filenames import is_file_name
from reput.files.mappedfilequeue import MappedFileQueue
from reput.record.entries import ENTRY_DTYPE, ENTRY_HEAD_SIZE, LastEntry, last_entry, size_and_magic
from reput.record.layout import MAGIC_V1, MAGIC_V2, SIZE_AND_MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput.files.filepool import FilePool
    from reput.files.system.disk import Disk

_UNIT: Final = struct.Struct(">iqiqq")  # magic, position, size, index, term of an entry
_HEAD: Final = struct.Struct(">iiqqq")  # the same values at the beginning of the entry
_FOLDER: Final = "dledger-"
_NOTE_SIZE_MAX: Final = 65_536
_INDEX: Final = re.compile(r"-1|[0-9]{1,17}")
_NAMES: Final = re.compile(r"data|index|snapshot|(?:checkpoint|currterm)(?:\.bak|\.tmp|\.new)?")


def ledger_in(root: str, disk: Disk, names: Iterable[str] | None = None) -> str | None:
    """Return the name of the folder in which DLedger keeps a store's log; None without one.

    Args:
        root: the store's directory.
        disk: bound to it.
        names: the names in it; listed when left out.
    """
    for name in sorted(disk.list_names(root) if names is None else names):
        if name.startswith(_FOLDER):
            try:
                if disk.exists(os.path.join(root, name, "data")):
                    return name
            except UnsafePathError:
                continue  # a link, which an opening reports
    return None


def why_not_written(root: str, folder: str, disk: Disk) -> str:
    """Return why entries are not appended in ``folder``, or nothing if they may be.

    That the group has one node is known as far as the directory says it: such a node votes for
    itself, and its term stays 0. A leader of several nodes may look the same until there is a
    second term.

    Args:
        root: the store's directory.
        folder: name of DLedger's folder in there.
        disk: bound to the store's directory.
    """
    if any(
        name.startswith(_FOLDER)
        and name != folder
        and disk.exists(os.path.join(root, name, "data"))
        for name in disk.list_names(root)
    ):
        return "the directory has logs of several nodes"
    path = os.path.join(root, folder)
    unknown = sorted(each for each in disk.list_names(path) if not _NAMES.fullmatch(each))
    if unknown:
        return f"{folder}/{unknown[0]} is not known"
    note = _note(disk, path, "currterm")
    leader, term = note.get("voteLeader", ""), note.get("currTerm", "")
    if leader in ("", "null") or not term:
        return f"{folder}/currterm does not say for whom the node has voted"
    if leader != folder.removeprefix(_FOLDER):
        return f"its group has several nodes ({folder} voted for {leader}), which lack the entries"
    if term != "0":
        return f"its group had several elections (term {term}), as groups of several nodes have"
    return "" if _begins(os.path.join(path, "data"), disk) else f"{folder}/data has no entry yet"


def _begins(directory: str, disk: Disk) -> bool:
    """Whether the first file of entries begins with an entry."""
    try:
        names = disk.list_names(directory)
    except (FileNotFoundError, NotADirectoryError):
        return False
    first = min(filter(is_file_name, names), default=None)
    if first is None:
        return False
    descriptor = disk.open(os.path.join(directory, first))
    try:
        head = disk.read(descriptor, ENTRY_HEAD_SIZE + SIZE_AND_MAGIC.size, 0)
    finally:
        disk.close(descriptor)
    size, magic = size_and_magic(head)
    return size > 0 and magic in (MAGIC_V1, MAGIC_V2)


def log_files(
    root: str,
    file_size: int,
    disk: Disk,
    pool: FilePool,
    names: Iterable[str] | None = None,
    maps_to_read: bool = False,
    grows: bool = False,
) -> MappedFileQueue:
    """Return the files of a store's log, not loaded.

    Args:
        root: the store's directory.
        file_size: bytes of one file; 0 for the size that the files have.
        disk: bound to it.
        pool: of open files.
        names: the names in the directory among which DLedger's may be; listed when left out.
        maps_to_read: see `MappedFileQueue`; files of DLedger are not mapped.
        grows: whether files grow (`MappedFileQueue.grows`); those of DLedger do not.
    """
    directory = os.path.join(root, "commitlog")
    ledger = ledger_in(root, disk, names) if names is None or names else None
    if ledger is None:
        files = MappedFileQueue(directory, file_size, disk, pool, maps_to_read)
        files.grows = grows
        return files
    return LedgerFiles(os.path.join(root, ledger, "data"), directory, file_size, disk, pool)


class LedgerFiles(MappedFileQueue):
    """Files of entries, perhaps after those of a plain log, all of one size."""

    def __init__(
        self, directory: str, before: str | None, file_size: int, disk: Disk, pool: FilePool
    ) -> None:
        """List the files later, by `load`.

        Args:
            directory: with the files of entries: ``dledger-…/data``.
            before: directory of the plain log from before DLedger; None to leave it out.
            file_size: bytes of one file; 0 for the size that the files have.
            disk: file operations.
            pool: of open files.
        """
        super().__init__(directory, file_size, disk, pool)
        self._folder = os.path.dirname(directory)
        self._name = os.path.basename(self._folder)
        self._before = before

    def _path_of(self, name: str, base_offset: int) -> str:
        if self._before is None or base_offset >= self.entries_from:
            return super()._path_of(name, base_offset)
        return os.path.join(self._before, name)

    def _sized_files(self, directory: str) -> list[tuple[int, int]]:
        entries = super()._sized_files(directory)
        self.entries_from = entries[0][0] if entries else type(self).entries_from
        if self._before is None or not self._disk.exists(self._before):
            return entries
        plain = super()._sized_files(self._before)
        return [each for each in plain if each[0] < self.entries_from] + entries

    def entry_of(self, record_offset: int) -> LastEntry | None:
        """Return the entry around the record at an offset; None without one."""
        if record_offset < self.entries_from:
            return None
        return last_entry(self.read(record_offset - ENTRY_HEAD_SIZE, ENTRY_HEAD_SIZE))

    # ------------------------------------------------------------------ what is committed

    def note_committed(self, number: int) -> None:
        """Note durably that the entry of that index, the last one, is committed and dispatched."""
        data = b"committedIndex=%d\nendIndex=%d\n" % (number, number)
        self._disk.replace(os.path.join(self._folder, "checkpoint"), data)

    def note_no_more(self, number: int) -> None:
        """Note that no entry after that one, the last of the log, is committed and dispatched.

        The note may name entries that a power cut lost; others get their indexes.
        """
        if (self.committed_index or 0) > number:
            self.note_committed(number)

    @property
    def is_of_another(self) -> bool:
        """Whether this node has voted for another one: the group has several."""
        leader = self._note("currterm").get("voteLeader", "")
        return leader not in ("", "null", self._name.removeprefix(_FOLDER))

    @property
    def committed_index(self) -> int | None:
        """Index of the last entry that DLedger notes as committed, or -1; None if not known."""
        index = self._note("checkpoint").get("committedIndex", "")
        return int(index) if _INDEX.fullmatch(index) else None

    @property
    def committed_end(self) -> int | None:
        """Offset after the last entry that DLedger notes as committed; None if that is not known.

        The note is of a moment ago while DLedger runs, or after it was killed.
        """
        index = self.committed_index
        if index is None:
            return None
        return self.entries_from if index < 0 else self._end_of(index)

    @property
    def visible_end(self) -> int | None:  # type: ignore[override]
        """See `MappedFileQueue.visible_end`: in a group of one, all entries will be committed."""
        return self.committed_end if self.is_of_another else None

    def beyond(self, end_offset: int) -> str:
        """Return what a reader must know of entries that are not known to be committed, or nothing.

        Args:
            end_offset: after the last entry of the log, or the last one that is visible.
        """
        end = self.committed_end
        if self.is_of_another:
            if end is None:
                return f"{self._name}: it is not known which entries are committed: all are shown"
            is_more = len(self.read(end, 4).strip(b"\0")) > 0
            return f"{self._name}: entries after {end} are not committed: not shown" * is_more
        if end is None or end >= end_offset:
            return ""
        return (
            f"{self._name}: entries from {end} to {end_offset} were not noted as committed; they "
            "are shown, as a group of one node commits them; a group of several may drop them"
        )

    def has_later(self, number: int) -> bool:
        """Whether the index has the entry after that one in a file which is not here.

        A broker may keep files at several places (``storePathDLedgerCommitLog``).
        """
        unit = self._unit_of(number + 1)
        return unit is not None and unit[3] == number + 1 and unit[1] >= self.capacity_end

    def _end_of(self, index: int) -> int | None:
        """Return the position after an entry, by its unit in the index; None if it is not there."""
        unit = self._unit_of(index)
        if unit is None:
            return None
        magic, position, size, stated, term = unit
        head = self.read(position, ENTRY_DTYPE.itemsize)[: _HEAD.size]
        is_there = stated == index and head == _HEAD.pack(magic, size, index, term, position)
        return position + size if is_there else None

    def _unit_of(self, index: int) -> tuple[int, ...] | None:
        """Return the unit of an entry in the index; None if the index does not reach there."""
        directory, place = os.path.join(self._folder, "index"), index * _UNIT.size
        if not self._disk.exists(directory):
            return None
        files = [(base, size) for base, size in super()._sized_files(directory) if base <= place]
        if not files:
            return None
        base, size = files[-1]
        if place >= base + size:
            return None
        path = os.path.join(directory, f"{base:020d}")
        unit = self._pool.read(path, min(_UNIT.size, base + size - place), place - base)
        return _UNIT.unpack(unit) if len(unit) == _UNIT.size else None

    def _note(self, name: str) -> dict[str, str]:
        return _note(self._disk, self._folder, name)


def _note(disk: Disk, folder: str, name: str) -> dict[str, str]:
    """Return the properties in a small file; of the copy that is left while it is replaced."""
    for each in (name, f"{name}.bak"):
        try:
            data = disk.read_if_exists(os.path.join(folder, each), _NOTE_SIZE_MAX)
        except IsADirectoryError:
            continue
        if data:
            pairs = (line.partition("=") for line in data.decode("latin-1").splitlines())
            return {key.strip(): value.strip() for key, _, value in pairs}
    return {}
