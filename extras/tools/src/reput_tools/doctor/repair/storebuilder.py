"""Makes a valid store, in a directory of its own, from a damaged one and its plan.

The order: losses are noted while their bytes can be read, the log's files are brought and repaired,
the small files beside them are written, plugins' files are rebuilt, what cannot be rebuilt
is taken over, and the store is opened and closed once, as by any writer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.files import (
    OWN_DIRECTORY,
    Disk,
    FilePool,
    MappedFileQueue,
    file_name,
)
from reput.log import (
    LOG_SECTION,
    CheckedNote,
    LogEnd,
    QueueFloors,
    StateFile,
)
from reput.storefiles import Manifest
from reput_tools.doctor.repair.filecopy import copy_bytes, copy_tree
from reput_tools.doctor.repair.loglayout import Notice, PlacedDisk
from reput_tools.doctor.repair.logrepair import LogRepair
from reput_tools.doctor.repair.newstore import (
    OWN,
    close_log,
    copy_others,
    copy_samples,
    derived_names,
    derived_plugins,
    open_once,
)
from reput_tools.doctor.repair.pluginstates import keep_store_times, take_over_states
from reput_tools.offline import Rebuilt, rebuild

if TYPE_CHECKING:
    from reput_tools.doctor.repair.planner import Step
    from reput_tools.doctor.repair.repairplan import RepairPlan

_REMADE: Final = frozenset({"rebuild", "state", "requests", "plugins"})
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
        placed.hide(plan.misplaced)
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
    _take_over_config(source, root, disk)  # first, as topics say which kind of queues they have
    rebuilt, notices = _rebuild(source, root, disk, jobs, step)
    notices += _take_over(source, root, disk)
    if bases_of(plan):
        old = StateFile.of(plan.root, source.disk, lambda error: None)
        keep_store_times(old, StateFile.of(root, disk))
        take_over_states(plan, old, root, disk)
    notices += _open_once(plan, root, disk, step)
    return Built(tuple(rebuilt), tuple(notices))


class _Reading:
    """Original bytes of a log, by physical offset."""

    def __init__(self, source: Source) -> None:
        layout = source.plan.layout
        self._pool = FilePool(source.disk, _FILES_OPEN)
        self._files = MappedFileQueue(layout.directory, layout.file_size, source.disk, self._pool)
        self._files.grows = layout.grows
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
    disk.make_directory(own)
    state = StateFile.of(root, disk)
    CheckedNote(state).save(plan.checked)
    if plan.queue_floors:
        QueueFloors(state, writable=True).keep(plan.queue_floors)
    usable = plan.plugins
    if usable.manifest is not None:
        names, master = tuple(sorted(usable.plugins)), usable.manifest.master
        Manifest(names, _sections(plan), master).save(state)
    close_log(
        root,
        disk,
        file_size=plan.layout.file_size,
        start=found.start_offset,
        end=LogEnd(found.end_offset, found.last_record_offset, found.last_store_timestamp),
    )


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
    derived = derived_plugins(plan.plugins.plugins)
    if not derived or not bases_of(plan):
        return [], []
    copy_samples(source.disk, plan.root, disk, root, plan.plugins.plugins)
    sections = plan.plugins.sections if plan.plugins.manifest is None else {}
    return rebuild(root, derived, jobs=jobs, progress=step("rebuilding"), config=sections), []


# --------------------------------------------------------------------------- what is taken over


def _take_over(source: Source, root: str, disk: Disk) -> list[Notice]:
    """Copy what is neither the log's nor rebuilt; return what was left out."""
    plan = source.plan
    # Of an empty log nothing is made; files derived from other bytes must not come back.
    left = {*OWN, *derived_names(plan.plugins.plugins)}
    notices = copy_others(source.disk, plan.root, disk, root, left)
    own = os.path.join(plan.root, OWN_DIRECTORY)
    for entry in source.disk.list(own):
        if entry.name in _REMADE or not entry.is_dir(follow_symlinks=source.disk.follows_links):
            continue
        copy_tree(source.disk, entry.path, disk, os.path.join(root, OWN_DIRECTORY, entry.name))
    disk.flush_directory(root)
    return notices


def _take_over_config(source: Source, root: str, disk: Disk) -> None:
    plan = source.plan
    directory, made = os.path.join(plan.root, "config"), os.path.join(root, "config")
    # A file that cannot be read is taken over as it is: what it says stays unknown, and nobody is
    # served by settings that are not his.
    changed = {each.name: each.data for each in plan.config if each.data is not None}
    entries = source.disk.list(directory)
    if not entries and not changed:
        return
    disk.make_directory(made)
    for entry in entries:
        if entry.name not in changed:
            copy_tree(source.disk, entry.path, disk, os.path.join(made, entry.name))
    for name, data in changed.items():
        disk.replace(os.path.join(made, name), data)
    disk.flush_directory(made)


def _open_once(plan: RepairPlan, root: str, disk: Disk, step: Step) -> list[Notice]:
    """Open and close the store, so that plugins which keep more than they derive look at it."""
    if not bases_of(plan):
        return []  # a log without files has nothing to look at
    notices = open_once(root, _sections(plan) or None, step)
    if plan.plugins.manifest is not None and plan.plugins.missing:
        plan.plugins.manifest.save(StateFile.of(root, disk))
    return notices
