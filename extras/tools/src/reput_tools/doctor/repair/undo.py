"""Puts the original bytes of a store back that was repaired in place.

Each step may be interrupted, and is done again by the next call: names are exchanged by way of
names of their own, and the backup says how far that is.
"""

from __future__ import annotations

import os
from typing import Final

import attrs

from reput.errors import CorruptFileError
from reput.files import Disk, is_system_name
from reput.storefiles import UNFINISHED
from reput_tools.doctor.repair.backup import (
    BYTES,
    FILES,
    LEFT_OUT,
    RENAMED,
    RENAMED_BACK,
    WAS,
    Backup,
    Change,
    NoBackupError,
    move,
    used_size,
)
from reput_tools.doctor.repair.unfinishedstore import STAGING, remove

_LOG: Final = "commitlog"
_COPY_SIZE: Final = 1 << 20


@attrs.define(eq=False)
class Undone:
    """What an undo has changed."""

    store: str
    """The store's directory."""
    change_count: int = 0
    """Parts of the log whose bytes differed, and were put back."""
    size: int = 0
    """Their bytes."""
    parts: tuple[str, ...] = ()
    """Files and directories beside the log that were put back."""


def put_back(path: str, store: str, disk: Disk) -> Undone:
    """Bring a store back to what it was before it was repaired in place.

    May be called again after it was interrupted, and after a repair that was.

    Args:
        path: the backup's directory.
        store: the store's directory.
        disk: bound to the store.

    Raises:
        NoBackupError: there is no backup of this store.
        CorruptFileError: a file of the log is missing that the repair has not touched.
    """
    backup = Backup.load(path)
    if os.path.realpath(backup.store) != os.path.realpath(store):
        raise NoBackupError(path, f"it is the backup of {backup.store}")
    if backup.is_put_back:
        raise NoBackupError(path, "the store was brought back from it before")
    own = Disk()
    log, moved = os.path.join(store, _LOG), os.path.join(store, STAGING, _LOG)
    if disk.exists(moved) and not disk.exists(log):
        disk.rename(moved, log)
        disk.flush_directory(store)
    done = Undone(backup.store)
    _put_back_log(backup, path, log, disk, own, done)
    files = os.path.join(path, FILES)
    aside = {entry.name for entry in own.list(files)}
    for entry in disk.list(store):
        is_new = entry.name not in backup.parts or entry.name in aside
        is_new = is_new and not is_system_name(entry.name)
        if is_new and entry.name not in (_LOG, UNFINISHED, "lock"):
            remove(disk, entry)
    done.parts = tuple(sorted(aside & set(backup.parts)))
    for name in done.parts:
        move(own, os.path.join(files, name), own, os.path.join(store, name))
    disk.flush_directory(store)
    if disk.exists(os.path.join(store, UNFINISHED)):
        disk.remove(os.path.join(store, UNFINISHED))
        disk.flush_directory(store)
    attrs.evolve(backup, is_put_back=True).save(path)
    return done


def _put_back_log(backup: Backup, path: str, log: str, disk: Disk, own: Disk, done: Undone) -> None:
    """Bring the log's files back to their old names, sizes and bytes."""
    there = {entry.name for entry in disk.list(log) if not is_system_name(entry.name)}
    plain = {name for name in there if not name.startswith(WAS)}
    if backup.step == RENAMED:
        after = {new: old for old, new in backup.names.items() if new}
        for name in sorted(plain):
            if name in after:
                disk.rename(os.path.join(log, name), os.path.join(log, WAS + after[name]))
            else:
                disk.remove(os.path.join(log, name))  # made for a file that was missing
        disk.flush_directory(log)
        backup = attrs.evolve(backup, step=RENAMED_BACK)
        backup.save(path)
    elif backup.step != RENAMED_BACK:
        for name in sorted(plain - set(backup.names)):
            disk.remove(os.path.join(log, name))
    kept = own.open(os.path.join(path, BYTES))
    try:
        for old in backup.names:
            aside, was = os.path.join(path, LEFT_OUT, old), os.path.join(log, WAS + old)
            final = os.path.join(log, old)
            if disk.exists(was):
                _write_back(backup, old, was, kept, disk, own, done)
                disk.rename(was, final)
            elif own.exists(aside):
                move(own, aside, own, final)
            elif disk.exists(final):
                _write_back(backup, old, final, kept, disk, own, done)
            else:
                raise CorruptFileError(final, 0, "it is gone since the repair")
        disk.flush_directory(log)
    finally:
        own.close(kept)


def _write_back(
    backup: Backup, name: str, path: str, kept: int, disk: Disk, own: Disk, done: Undone
) -> None:
    changes = [each for each in backup.changes if each.name == name]
    blanks = [each for each in changes if each.is_blank]
    changed: set[Change] = set()
    descriptor = disk.open(path, write=True)
    try:
        for each in blanks:
            if used_size(disk, path, each.position, each.size):
                changed.add(each)
                disk.truncate(descriptor, each.position)
        if name in backup.sizes:
            disk.truncate(descriptor, backup.sizes[name])
        for change in (each for each in changes if not each.is_blank):
            for at in range(0, change.size, _COPY_SIZE):
                size = min(_COPY_SIZE, change.size - at)
                data = own.read(kept, size, change.kept_at + at)
                if disk.read(descriptor, size, change.position + at) != data:
                    changed.add(change)
                    disk.write(descriptor, data, change.position + at)
        disk.flush(descriptor)
    finally:
        disk.close(descriptor)
    done.change_count += len(changed)
    done.size += sum(each.size for each in changed)
