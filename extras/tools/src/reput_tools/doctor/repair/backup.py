"""Keeps the original bytes of a store that is repaired in place, and puts them back.

A backup is a directory:

    backup.json   which store, and what it holds: one entry for each changed part of a log file
    bytes         the original bytes of these parts, one after the other
    files/        everything else of the store, moved there when the repaired store takes its place
    log-files/    files of ``commitlog`` that the repaired log does not have

``backup.json`` and ``bytes`` are on disk before the first byte of the store changes, and name every
byte of the log that will: file, position, size, and what stood there.
"""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput.files import Disk, file_name, is_safe_name, is_system_name
from reput.storefiles import UNFINISHED
from reput_tools.doctor.repair.filecopy import copy_tree
from reput_tools.doctor.repair.storebuilder import bases_of
from reput_tools.doctor.repair.unfinishedstore import STAGING, remove
from reput_tools.offline import inspect_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reput_tools.doctor.repair.repairplan import RepairPlan
    from reput_tools.doctor.repair.storebuilder import Bring

_NAME: Final = "backup.json"
BYTES: Final = "bytes"
FILES: Final = "files"
LEFT_OUT: Final = "log-files"
_COPY_SIZE: Final = 1 << 20
_SIZE_MAX: Final = 256 << 20
_LOG: Final = "commitlog"
WAS: Final = ".was-"
"""Begins the name that a file of the log has while names are exchanged; its old name follows."""
_MOVING: Final = ".moving-"
RENAMED: Final = 1
"""Every file of the log has left its old name; without a prefix, a name is a new one."""
RENAMED_BACK: Final = 2
"""Every file of the log has left its new name; without a prefix, a name is an old one."""


@attrs.define(eq=False, slots=False)
class NoBackupError(ReputError):
    """A directory is not a backup of a store, or one of another store."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@attrs.frozen(kw_only=True)
class Change:
    """A part of a file of the log that a repair changes."""

    name: str
    """The file's name in ``commitlog`` before the repair."""
    position: int
    """File position, bytes."""
    size: int
    """Bytes that stood there."""
    kept_at: int
    """Where they begin in ``bytes``."""
    is_blank: bool = False
    """Whether they were zeros up to the end of the file, of which ``bytes`` has none."""


@attrs.frozen(kw_only=True)
class Backup:
    """What ``backup.json`` says."""

    store: str
    """The store's directory."""
    names: dict[str, str]
    """Names of the log's files before the repair, and afterwards; empty for those left out."""
    sizes: dict[str, int]
    """Their sizes before the repair."""
    changes: tuple[Change, ...]
    parts: tuple[str, ...]
    """Names of everything else in the store before the repair."""
    step: int = 0
    """How far the names of the log's files are changed: `RENAMED`, `RENAMED_BACK`, or 0."""
    is_put_back: bool = False

    @classmethod
    def load(cls, path: str) -> Backup:
        """Read the backup in a directory.

        Raises:
            NoBackupError: it does not exist.
        """
        try:
            facts = json.loads(Disk().read_file(os.path.join(path, _NAME), _SIZE_MAX))
            changes = tuple(Change(**each) for each in facts.pop("changes"))
            found = cls(**{**facts, "changes": changes, "parts": tuple(facts["parts"])})
        except FileNotFoundError:
            raise NoBackupError(path, "no backup of a repair is there") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise NoBackupError(path, f"no backup of a repair: {error}") from None
        found.check(path)
        return found

    def check(self, path: str) -> None:
        """Refuse names that lead out of the store, and numbers that are none.

        Raises:
            NoBackupError: the file was not written by a repair.
        """
        names = [*self.names, *filter(None, self.names.values()), *self.parts]
        names += [each.name for each in self.changes]
        numbers = [number for each in self.changes for number in (each.position, each.size)]
        numbers += [*self.sizes.values(), *(each.kept_at for each in self.changes), self.step]
        texts: list[Any] = [*names, self.store]
        is_right = all(isinstance(text, str) for text in texts) and all(map(is_safe_name, names))
        is_right = is_right and all(type(each.is_blank) is bool for each in self.changes)
        if not is_right or not all(type(number) is int and number >= 0 for number in numbers):
            raise NoBackupError(path, "no backup of a repair: a name or a number is not possible")

    def save(self, path: str) -> None:
        """Write ``backup.json``; on disk when this returns."""
        data = json.dumps(attrs.asdict(self), indent=1).encode() + b"\n"
        Disk().replace(os.path.join(path, _NAME), data)


# --------------------------------------------------------------------------- backing up


def log_changes(
    plan: RepairPlan, ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[str, int, int]]:
    """Yield file path, position and size of all that changes in the log's files.

    Args:
        plan: the repair.
        ranges: physical offsets, half-open, that are overwritten before the log's end.
    """
    size, end = plan.layout.file_size, plan.searched.end_offset
    for part in plan.layout.parts:
        if part.base >= end:
            continue  # it is moved to the backup as a whole
        for start, stop in ranges:
            first, last = max(start, part.base), min(stop, part.base + size)
            if first < last:
                held = min(last - part.base, part.size) - (first - part.base)
                if held > 0:
                    yield part.path, first - part.base, held
        kept = min(end - part.base, size)
        if kept < part.size:  # the bytes that are cut, zeros included
            yield part.path, kept, part.size - kept


def used_size(disk: Disk, path: str, position: int, size: int) -> int:
    """Return how many of ``size`` bytes of a file stand before the zeros at their end."""
    descriptor = disk.open(path)
    try:
        for start, end in reversed([*disk.data_ranges(descriptor, position, position + size)]):
            for at in reversed(range(start, end, _COPY_SIZE)):
                data = disk.read(descriptor, min(_COPY_SIZE, end - at), at).rstrip(b"\0")
                if data:
                    return at + len(data) - position
        return 0
    finally:
        disk.close(descriptor)


def back_up(plan: RepairPlan, path: str, ranges: Sequence[tuple[int, int]], disk: Disk) -> Backup:
    """Copy every byte of the log that will change; all is on disk when this returns.

    Args:
        plan: the repair.
        path: directory of the backup, new or empty.
        ranges: see `log_changes`.
        disk: the store's.
    """
    own = Disk()
    own.make_directory(path, durable=True)
    changes, at = [], 0
    sizes = {part.path: part.size for part in plan.layout.parts}
    kept = own.create_fresh(os.path.join(path, BYTES))
    try:
        for source, position, size in log_changes(plan, ranges):
            name = os.path.basename(source)
            used = size
            if position + size == sizes[source]:
                used = used_size(disk, source, position, size)
            if used:
                changes.append(Change(name=name, position=position, size=used, kept_at=at))
                _keep(disk, source, position, used, own, kept, at)
                at += used
            if used < size:
                blank = Change(
                    name=name, position=position + used, size=size - used, kept_at=at, is_blank=True
                )
                changes.append(blank)
        own.truncate(kept, at)
        own.flush(kept)
    finally:
        own.close(kept)
    known = {
        os.path.basename(part.path): part
        for part in plan.layout.parts
        if part.base < plan.searched.end_offset
    }
    entries = inspect_store(plan.root, follow_links=disk.follows_links).disk.list(
        plan.layout.directory
    )
    backup = Backup(
        store=plan.root,
        names={
            entry.name: file_name(known[entry.name].base) if entry.name in known else ""
            for entry in entries
            if not is_system_name(entry.name)
        },
        sizes={name: part.size for name, part in known.items()},
        changes=tuple(changes),
        parts=tuple(
            name
            for name in Disk().at(plan.root).list_names(plan.root)  # with what is hidden
            if name not in (_LOG, STAGING, UNFINISHED, "lock") and not is_system_name(name)
        ),
    )
    own.flush_directory(path)
    backup.save(path)
    return backup


def _keep(disk: Disk, source: str, position: int, size: int, own: Disk, kept: int, at: int) -> None:
    descriptor = disk.open(source)
    try:
        for start, end in disk.data_ranges(descriptor, position, position + size):
            for place in range(start, end, _COPY_SIZE):
                data = disk.read(descriptor, min(_COPY_SIZE, end - place), place)
                own.write(kept, data, at + place - position)
    finally:
        disk.close(descriptor)


# --------------------------------------------------------------------------- taking the place


def move_aside(root: str, disk: Disk, path: str, names: Sequence[str]) -> None:
    """Move parts of the store to the backup; copy them where it is on another file system."""
    own = Disk()
    files = os.path.join(path, FILES)
    own.make_directory(files, durable=True)
    for name in names:
        source, target = os.path.join(root, name), os.path.join(files, name)
        if not disk.exists(source):
            continue
        move(disk, source, own, target)
    own.flush_directory(files)
    disk.flush_directory(root)


def move(disk: Disk, source: str, own: Disk, target: str) -> None:
    """Rename a file or directory; on another file system, make a copy, then remove it."""
    try:
        own.rename(source, target)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    directory, name = os.path.split(target)
    moving = os.path.join(directory, _MOVING + name)
    own.remove_tree(moving)
    copy_tree(disk, source, own, moving)
    own.rename(moving, target)
    own.flush_directory(directory)
    directory, name = os.path.split(source)
    for entry in disk.list(directory):
        if entry.name == name:
            remove(disk, entry)


def bring_in_place(plan: RepairPlan, path: str, backup: Backup) -> Bring:
    """Return what moves the log's files, and gives them the names and sizes that they should have.

    Args:
        plan: the repair.
        path: the backup's directory.
        backup: what it says.
    """

    def bring(staging: str, disk: Disk) -> None:
        # By way of the store's own disk, as the staging area's does not reach the store.
        own = Disk().at(plan.root)
        directory = os.path.join(staging, _LOG)
        own.rename(plan.layout.directory, directory)
        own.flush_directory(plan.root)
        if any(old != new for old, new in backup.names.items()):
            _rename(backup, path, directory, own)
        made = {file_name(base) for base in bases_of(plan)}
        for name in sorted(made):
            kept = min(plan.searched.end_offset - int(name), plan.layout.file_size)
            descriptor = own.open(os.path.join(directory, name), create=True)
            try:
                own.truncate(descriptor, min(kept, own.size(descriptor)))
                own.truncate(descriptor, plan.layout.file_size)
                own.flush(descriptor)
            finally:
                own.close(descriptor)
        own.flush_directory(directory)

    return bring


def _rename(backup: Backup, path: str, directory: str, disk: Disk) -> None:
    for old in backup.names:
        disk.rename(os.path.join(directory, old), os.path.join(directory, WAS + old))
    disk.flush_directory(directory)
    attrs.evolve(backup, step=RENAMED).save(path)
    left_out, own = os.path.join(path, LEFT_OUT), Disk()
    own.make_directory(left_out, durable=True)
    for old, new in backup.names.items():
        source = os.path.join(directory, WAS + old)
        if new:
            disk.rename(source, os.path.join(directory, new))
        else:
            move(disk, source, own, os.path.join(left_out, old))
    own.flush_directory(left_out)
    disk.flush_directory(directory)
