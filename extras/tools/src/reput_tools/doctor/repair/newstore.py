"""Steps that make a store in a directory of its own out of another directory.

A repair and a conversion bring a log. These steps write the notes beside it, copy what plugins
read before they are rebuilt, take over all other files, and open the store once.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

import reput
from reput.errors import ReputError
from reput.files import (
    OWN_DIRECTORY,
    Disk,
    FilePool,
    MappedFileQueue,
    is_file_name,
    is_system_name,
)
from reput.log import Checkpoint, LogEnd, LogHead, LogReader, LogStateFile, StateFile
from reput.plugin import PluginHooks
from reput.storefiles import UNFINISHED
from reput_tools.doctor.repair.filecopy import copy_file, copy_tree
from reput_tools.doctor.repair.loglayout import Notice
from reput_tools.doctor.repair.planner import WINDOW_SIZE
from reput_tools.doctor.repair.unfinishedstore import STAGING
from reput_tools.offline import offline_hooks

if TYPE_CHECKING:
    from reput.files import Entry
    from reput.plugin import Plugin
    from reput_tools.doctor.repair.planner import Step

OWN: Final = frozenset(
    {"commitlog", "config", "checkpoint", "abort", "abort.bak", "lock", UNFINISHED, STAGING}
)
"""Names in a store's directory that are made, or taken over one by one."""
_FILES_OPEN: Final = 64


def close_log(root: str, disk: Disk, *, file_size: int, start: int, end: LogEnd) -> None:
    """Write what says that the log in ``root`` was closed.

    Args:
        root: the store.
        disk: bound to it.
        file_size: bytes of a file of its log.
        start: physical offset at which the log begins.
        end: where it ends.
    """
    time = end.last_store_timestamp
    Checkpoint(time, time, 0).save(os.path.join(root, "checkpoint"), disk)
    LogHead(StateFile.of(root, disk)).note(start)
    pool = FilePool(disk, _FILES_OPEN)
    try:
        files = MappedFileQueue(os.path.join(root, "commitlog"), file_size, disk, pool)
        files.load(writable=False)
        log = LogReader(files, WINDOW_SIZE, end=end)
        LogStateFile.of(root, disk).close(log, end.last_record_offset)
    finally:
        pool.close()


def derived_plugins(plugins: Mapping[str, Plugin]) -> list[str]:
    """Return the plugins all of whose files follow from the log."""
    hooks = {name: PluginHooks.of(name, each) for name, each in plugins.items()}
    return [name for name, each in hooks.items() if each.dispatch and not each.work]


def derived_names(plugins: Mapping[str, Plugin]) -> list[str]:
    """Return the names that files of `derived_plugins` have in a store's directory."""
    derived = derived_plugins(plugins)
    return [*derived, *(f"{name}_ext" for name in derived)]


def copy_samples(
    disk: Disk,
    root: str,
    target_disk: Disk,
    target: str,
    plugins: Mapping[str, Plugin],
    left: Collection[str] = (),
) -> None:
    """Copy a few of the old files that a rebuild replaces, which it asks for the size of files.

    All of them where the plugin says that its rebuild reads them. Directories that no rebuild
    replaces are left to `copy_others`, which copies all of their files.

    Only directories that hold nothing but files named by numbers, at any depth, and of them only
    files of the most frequent size: the damaged ones may have another.

    Args:
        disk: of the old store.
        root: the old store.
        target_disk: of the new store.
        target: the new store.
        plugins: of the new store, by name.
        left: names in ``root`` of directories that are not looked at.
    """
    whole: set[str] = set()
    rebuilt = {*derived_names(plugins), *(f"batch{name}" for name in derived_plugins(plugins))}
    for name, plugin in plugins.items():
        whole.update(offline_hooks(name, plugin).reput_tools_rebuilt_from() or ())
    for entry in disk.list(root):
        if entry.name in OWN or entry.name in left or entry.name == OWN_DIRECTORY:
            continue
        if is_system_name(entry.name) or not _is_directory(disk, entry):
            continue
        if entry.name in whole:
            copy_tree(disk, entry.path, target_disk, os.path.join(target, entry.name))
            continue
        if entry.name not in rebuilt:
            continue
        found = [(path, size) for path, size in _files(disk, entry.path) if size]
        if not found:
            continue
        usual = Counter(size for _, size in found).most_common(1)[0][0]
        is_flat = all(os.path.dirname(path) == entry.path for path, _ in found)
        chosen = [path for path, size in found if size == usual]
        for path in chosen if is_flat else _heads(chosen)[:1]:
            copied = os.path.join(target, os.path.relpath(path, root))
            target_disk.make_directory(os.path.dirname(copied))
            copy_file(disk, path, target_disk, copied)


def _heads(paths: list[str]) -> list[str]:
    """Return the paths that are the first file of their queue."""
    names = ((path, os.path.basename(path)) for path in paths)
    return [path for path, name in names if is_file_name(name) and int(name) == 0]


def _is_directory(disk: Disk, entry: Entry) -> bool:
    try:
        return bool(entry.is_dir(follow_symlinks=disk.follows_links))
    except OSError:
        return False


def _files(disk: Disk, directory: str) -> list[tuple[str, int]]:
    found = []
    for entry in disk.list(directory):
        if is_system_name(entry.name):
            continue
        if entry.is_dir(follow_symlinks=disk.follows_links):
            found += _files(disk, entry.path)
        elif entry.is_file(follow_symlinks=disk.follows_links) and entry.name.isdigit():
            found.append((entry.path, entry.stat(follow_symlinks=disk.follows_links).st_size))
    return found


def copy_others(
    disk: Disk, root: str, target_disk: Disk, target: str, left: Collection[str]
) -> list[Notice]:
    """Copy what the new store does not have; return what cannot be copied.

    Args:
        disk: of the old store.
        root: the old store.
        target_disk: of the new store.
        target: the new store.
        left: names in ``root`` that are not copied; reput's own directory is not, either.
    """
    notices = []
    made = {entry.name for entry in target_disk.list(target)}
    for entry in disk.list(root):
        name = entry.name
        if name in made or name in left or name == OWN_DIRECTORY or is_system_name(name):
            continue
        for path in copy_tree(disk, entry.path, target_disk, os.path.join(target, name)):
            shown = os.path.relpath(path, root)
            notices.append(Notice(shown, "store.left-out", "it cannot be copied; it is left out"))
    return notices


def open_once(
    root: str, options: Mapping[str, Mapping[str, Any]] | None, step: Step
) -> list[Notice]:
    """Open and close the store, so that plugins which keep more than they derive look at it."""
    told = step("opening")
    try:
        with reput.open(root, "w", threads=False, config=options, progress=told) as store:
            store.wait_dispatched(progress=told)
            return [
                Notice(f"plugin {each.name}", "plugin.failed", str(each.last_error))
                for each in store.plugins()
                if each.last_error
            ]
    except ReputError as error:
        return [Notice(".", "store.opening", str(error))]
