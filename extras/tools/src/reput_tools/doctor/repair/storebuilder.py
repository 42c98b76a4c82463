"""Makes a valid store, in a directory of its own, from a damaged one and its plan.

The order: losses are noted while their bytes can be read, the log's files are brought and repaired,
the small files beside them are written, plugins' files are rebuilt, what cannot be rebuilt
is taken over, and the store is opened and closed once, as by any writer.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

import reput
from reput.errors import ReputError
from reput.files import (
    OWN_DIRECTORY,
    Disk,
    FilePool,
    MappedFileQueue,
    file_name,
    is_file_name,
    is_system_name,
)
from reput.log import (
    LOG_SECTION,
    CheckedNote,
    Checkpoint,
    LogEnd,
    LogHead,
    LogReader,
    LogStateFile,
    QueueFloors,
)
from reput.plugin import PluginHooks
from reput.storefiles import UNFINISHED, Manifest
from reput_tools.doctor.repair.filecopy import copy_bytes, copy_file, copy_tree
from reput_tools.doctor.repair.loglayout import Notice, PlacedDisk
from reput_tools.doctor.repair.logrepair import LogRepair
from reput_tools.doctor.repair.planner import WINDOW_SIZE
from reput_tools.doctor.repair.unfinishedstore import STAGING
from reput_tools.offline import Rebuilt, offline_hooks, rebuild

if TYPE_CHECKING:
    from reput_tools.doctor.repair.planner import Step
    from reput_tools.doctor.repair.repairplan import RepairPlan

__all__ = ["Built", "Source", "build", "copied_log"]

_OWN: Final = frozenset(
    {"commitlog", "config", "checkpoint", "abort", "abort.bak", "lock", UNFINISHED, STAGING}
)
_REMADE: Final = frozenset({"progress", "rebuild", "requests", "plugins"})
"""Directories of reput's own whose files are rebuilt, or taken over one by one."""
_FILES_OPEN: Final = 64


@attrs.frozen(eq=False)
class Source:
    """The damaged store, as it is read while the new one is made."""

    plan: RepairPlan
    disk: Disk
    """Shows the log's files under the names that they should have."""

    @classmethod
    def of(cls, plan: RepairPlan, *, follow_links: bool) -> Source:
        """Return the store of ``plan``."""
        placed = PlacedDisk()
        placed.show(plan.layout)
        return cls(plan, placed.at(plan.root, follow_links=follow_links))


@attrs.frozen
class Built:
    """The store that was made."""

    rebuilt: tuple[Rebuilt, ...]
    notices: tuple[Notice, ...]
    """What became known only while the store was made."""


Bring = Callable[[str, Disk], None]
"""Brings the log's files to ``commitlog`` below a directory: each with its name and size, all zeros
from the log's end on. Missing files are made."""


def build(
    source: Source,
    root: str,
    bring: Bring,
    *,
    now: int,
    jobs: int | None,
    step: Step,
) -> Built:
    """Make a valid store in ``root``, an empty directory.

    Args:
        source: the damaged store, which is not changed, but for what ``bring`` does.
        root: where the store is made; absolute.
        bring: brings the log's files.
        now: ms.
        jobs: processes that make plugins' files; None for one per processor.
        step: called with each step that begins.
    """
    plan = source.plan
    disk = Disk().at(root)
    mending = LogRepair(plan, root, disk, now)
    with _Reading(source) as read_original:
        mending.note(read_original)
    bring(root, disk)
    mending.write()
    _write_notes(plan, root, disk)
    rebuilt, notices = _rebuild(source, root, disk, jobs, step)
    notices += _take_over(source, root, disk)
    notices += _open_once(plan, root, disk, step)
    return Built(tuple(rebuilt), tuple(notices))


class _Reading:
    """Original bytes of a log, by physical offset."""

    def __init__(self, source: Source) -> None:
        layout = source.plan.layout
        self._pool = FilePool(source.disk, _FILES_OPEN)
        self._files = MappedFileQueue(layout.directory, layout.file_size, source.disk, self._pool)
        self._files.load(writable=False, damaged=lambda text: None)

    def __enter__(self) -> Callable[[int, int], bytes]:
        return self._files.read

    def __exit__(self, *_: object) -> None:
        self._pool.close()


# --------------------------------------------------------------------------- its log


def copied_log(source: Source, step: Step) -> Bring:
    """Return what copies the log's files."""

    def bring(root: str, disk: Disk) -> None:
        plan = source.plan
        directory = os.path.join(root, "commitlog")
        disk.make_directory(directory)
        told, done = step("copying"), 0

        def copied(size: int) -> None:
            nonlocal done
            done += size
            told(min(done, plan.size), plan.size)

        paths = {part.base: part.path for part in plan.layout.parts}
        for base in bases_of(plan):
            made = disk.open(os.path.join(directory, file_name(base)), create=True)
            try:
                size = min(plan.searched.end_offset - base, plan.layout.file_size)
                if base in paths:
                    opened = Disk.open(source.disk, paths[base])
                    try:
                        copy_bytes(source.disk, opened, disk, made, size, copied)
                    finally:
                        source.disk.close(opened)
                disk.truncate(made, plan.layout.file_size)
                disk.flush(made)
            finally:
                disk.close(made)
        disk.flush_directory(directory)

    return bring


def bases_of(plan: RepairPlan) -> range:
    """Return the bases of all files that the repaired log has."""
    found, size = plan.searched, max(plan.layout.file_size, 1)
    # A file that begins at the end is made by the next writer.
    return range(found.start_offset, max(found.end_offset, found.start_offset), size)


def _write_notes(plan: RepairPlan, root: str, disk: Disk) -> None:
    """Write what lies beside the log of a store that was closed."""
    found, own = plan.searched, os.path.join(root, OWN_DIRECTORY)
    disk.make_directory(os.path.join(own, "progress"))
    time = found.last_store_timestamp
    Checkpoint(time, time, 0).save(os.path.join(root, "checkpoint"), disk)
    LogHead.of(root, disk).note(found.start_offset)
    CheckedNote(root, disk).save(plan.checked)
    if plan.queue_floors:
        QueueFloors(root, disk, writable=True).keep(plan.queue_floors)
    usable = plan.plugins
    if usable.manifest is not None:
        names, master = tuple(sorted(usable.plugins)), usable.manifest.master
        Manifest(names, _sections(plan), master).save(root, disk)
    pool = FilePool(disk, _FILES_OPEN)
    try:
        directory = os.path.join(root, "commitlog")
        files = MappedFileQueue(directory, plan.layout.file_size, disk, pool)
        files.load(writable=False)
        last = found.last_record_offset
        log = LogReader(files, WINDOW_SIZE, end=LogEnd(found.end_offset, last, time))
        LogStateFile.of(root, disk).close(log, last)
    finally:
        pool.close()


def _sections(plan: RepairPlan) -> dict[str, Mapping[str, Any]]:
    """Return the store's options, with the size that the log's files have now."""
    sections = dict(plan.plugins.sections)
    if "file_size" in sections.get(LOG_SECTION, {}) and plan.layout.parts:
        sections[LOG_SECTION] = {**sections[LOG_SECTION], "file_size": plan.layout.file_size}
    return sections


# --------------------------------------------------------------------------- plugins


def _rebuild(
    source: Source, root: str, disk: Disk, jobs: int | None, step: Step
) -> tuple[list[Rebuilt], list[Notice]]:
    plan = source.plan
    derived = _derived(plan)
    if not derived or not bases_of(plan):
        return [], []
    _copy_samples(source, root, disk)
    sections = plan.plugins.sections if plan.plugins.manifest is None else {}
    return rebuild(root, derived, jobs=jobs, progress=step("rebuilding"), config=sections), []


def _derived(plan: RepairPlan) -> list[str]:
    """Return the plugins all of whose files follow from the log."""
    hooks = {name: PluginHooks.of(name, each) for name, each in plan.plugins.plugins.items()}
    return [name for name, each in hooks.items() if each.dispatch and not each.work]


def _copy_samples(source: Source, root: str, disk: Disk) -> None:
    """Copy a few of the old files of plugins, which a rebuild asks for the size of files.

    All of them where the plugin says that its rebuild reads them.

    Only directories that hold nothing but files named by numbers, at any depth, and of them only
    files of the most frequent size: the damaged ones may have another.
    """
    whole: set[str] = set()
    for name, plugin in source.plan.plugins.plugins.items():
        whole.update(offline_hooks(name, plugin).reput_tools_rebuilt_from() or ())
    for entry in source.disk.list(source.plan.root):
        if entry.name in _OWN or entry.name == OWN_DIRECTORY or is_system_name(entry.name):
            continue
        if not _is_directory(source, entry):
            continue
        if entry.name in whole:
            copy_tree(source.disk, entry.path, disk, os.path.join(root, entry.name))
            continue
        found = [(path, size) for path, size in _files(source.disk, entry.path) if size]
        if not found:
            continue
        usual = Counter(size for _, size in found).most_common(1)[0][0]
        is_flat = all(os.path.dirname(path) == entry.path for path, _ in found)
        chosen = [path for path, size in found if size == usual]
        for path in chosen if is_flat else _heads(chosen)[:1]:
            target = os.path.join(root, os.path.relpath(path, source.plan.root))
            disk.make_directory(os.path.dirname(target))
            copy_file(source.disk, path, disk, target)


def _heads(paths: list[str]) -> list[str]:
    """Return the paths that are the first file of their queue."""
    names = ((path, os.path.basename(path)) for path in paths)
    return [path for path, name in names if is_file_name(name) and int(name) == 0]


def _is_directory(source: Source, entry: object) -> bool:
    try:
        return bool(entry.is_dir(follow_symlinks=source.disk.follows_links))  # type: ignore[attr-defined]
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


# --------------------------------------------------------------------------- what is taken over


def _take_over(source: Source, root: str, disk: Disk) -> list[Notice]:
    """Copy what is neither the log's nor rebuilt; return what was left out."""
    plan, notices = source.plan, []
    made = {entry.name for entry in disk.list(root)}
    # Of an empty log nothing is made; files derived from other bytes must not come back.
    derived = tuple(_derived(plan))
    old = (*derived, *(f"{name}_ext" for name in derived))
    for entry in source.disk.list(plan.root):
        name = entry.name
        if name in made or name in _OWN or name in old or name == OWN_DIRECTORY:
            continue
        if is_system_name(name):
            continue
        for path in copy_tree(source.disk, entry.path, disk, os.path.join(root, name)):
            shown = os.path.relpath(path, plan.root)
            notices.append(Notice(shown, "store.left-out", "it cannot be copied; it is left out"))
    own = os.path.join(plan.root, OWN_DIRECTORY)
    for entry in source.disk.list(own):
        if entry.name in _REMADE or not entry.is_dir(follow_symlinks=source.disk.follows_links):
            continue
        copy_tree(source.disk, entry.path, disk, os.path.join(root, OWN_DIRECTORY, entry.name))
    _take_over_config(source, root, disk)
    disk.flush_directory(root)
    return notices


def _take_over_config(source: Source, root: str, disk: Disk) -> None:
    plan = source.plan
    directory = os.path.join(plan.root, "config")
    # A file that cannot be read is taken over as it is: what it says stays unknown, and nobody is
    # served by settings that are not his.
    changed = {os.path.join(directory, each.name) for each in plan.config if each.data is not None}
    copy_tree(
        source.disk,
        directory,
        disk,
        os.path.join(root, "config"),
        wanted=lambda path, size: path not in changed,
    )
    for each in plan.config:
        if each.data is not None:
            path = os.path.join(root, "config", each.name)
            disk.make_directory(os.path.dirname(path))
            disk.replace(path, each.data)


def _open_once(plan: RepairPlan, root: str, disk: Disk, step: Step) -> list[Notice]:
    """Open and close the store, so that plugins which keep more than they derive look at it."""
    if not bases_of(plan):
        return []  # a log without files has nothing to look at
    told = step("opening")
    options = _sections(plan) or None
    try:
        with reput.open(root, "w", threads=False, config=options, progress=told) as store:
            store.wait_dispatched(progress=told)
            notices = [
                Notice(f"plugin {each.name}", "plugin.failed", str(each.last_error))
                for each in store.plugins()
                if each.last_error
            ]
    except ReputError as error:
        notices = [Notice(".", "store.opening", str(error))]
    if plan.plugins.manifest is not None and plan.plugins.missing:
        plan.plugins.manifest.save(root, disk)
    return notices
