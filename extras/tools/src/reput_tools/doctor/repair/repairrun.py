"""Repairs a store into a new directory, or in place; takes a repair in place back."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

import reput
from reput.errors import CorruptFileError, ReputError
from reput.files import Disk, system_clock
from reput.storefiles import refuse_broker_files
from reput_tools.doctor.repair.backup import Backup, back_up, bring_in_place, move_aside
from reput_tools.doctor.repair.diskspace import check_space
from reput_tools.doctor.repair.loglayout import Notice
from reput_tools.doctor.repair.logrepair import overwritten
from reput_tools.doctor.repair.lostandfound import Doubt, doubts_of, keep_evidence
from reput_tools.doctor.repair.planner import make_plan
from reput_tools.doctor.repair.repairplan import RepairPlan
from reput_tools.doctor.repair.storebuilder import Built, Source, build, copied_log
from reput_tools.doctor.repair.undo import Undone, put_back
from reput_tools.doctor.repair.unfinishedstore import (
    STAGING,
    Mark,
    NotEmptyError,
    begin,
    check_empty,
    end,
    publish,
    read_mark,
    start,
)
from reput_tools.doctor.verification.readeropening import wrong_entries
from reput_tools.offline import HidingDisk, LocalEngine, lock_store, run_rebuild

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput_tools.doctor.repair.planner import Step
    from reput_tools.offline import Difference

__all__ = [
    "NotEmptyError",
    "Repaired",
    "derived_differences",
    "dry_run",
    "look_and_plan",
    "repair",
    "repair_in_place",
    "undo",
]


_SMALL: Final = 64 << 20
"""Bytes of a log that one process has rebuilt before others have started."""
_LIMIT: Final = 1_000
"""Differences of one file that are listed."""


@attrs.frozen(kw_only=True, eq=False)
class Repaired:
    """What a repair has done."""

    plan: RepairPlan
    target: str
    """The valid store; that of the plan itself if nothing was to be done."""
    built: Built | None
    """None if nothing was to be done."""
    differences: tuple[Difference, ...] = ()
    """Derived files that differed from what the log gives, where only these were damaged."""
    doubts: tuple[Doubt, ...] = ()
    """Those of them of which nothing says whether the log or the derived file was wrong."""
    was_compared: bool = True
    """Whether derived files were compared with the log, and not just rebuilt."""
    backup: str = ""
    """Directory with the original bytes, after a repair in place."""


def _silent(name: str) -> Callable[[int, int], None]:
    return lambda done, total: None


def repair(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    file_size: int = 0,
    config: Mapping[str, Mapping[str, Any]] | None = None,
    jobs: int | None = None,
    follow_links: bool = False,
    clock: Callable[[], int] = system_clock,
    step: Step = _silent,
) -> Repaired:
    """Make a valid copy of a damaged store; the store itself is not changed.

    Args:
        path: the damaged store. No process may have it open for writing.
        target: a new or an empty directory, or one in which an earlier repair has not ended.
        file_size: bytes of a log file; 0 to find out.
        config: options of plugins, by section, where the store does not record them.
        jobs: processes that make plugins' files; None for one per processor.
        follow_links: as for `reput.open`.
        clock: returns now, ms since the epoch.
        step: called with the name of each step; returns a callable for its progress.

    Raises:
        StoreNotFoundError: there is no store.
        StoreLockedError: a process has it open for writing.
        NotEmptyError: ``target`` has other files in it.
        NoSpaceError: there is too little space for the copy.
        UnsafePathError: a link below the store's directory.
        ConfigError: an unknown option in ``config``.
    """
    root = os.path.abspath(os.fspath(target))
    look = functools.partial(
        look_and_plan,
        path,
        file_size=file_size,
        config=config,
        follow_links=follow_links,
        step=step,
    )
    making = _Making(root, jobs, follow_links, clock, step)
    with look() as plan:
        check_empty(making.mark(plan))
        if plan.is_needed:
            return attrs.evolve(making.make(plan), was_compared=False)
    # A comparison takes the store's lock itself.
    differences, doubts = derived_differences(plan, making.jobs(plan), follow_links, step)
    if not differences:
        return Repaired(plan=plan, target=plan.root, built=None)
    with look() as plan:  # a writer may have come meanwhile
        return attrs.evolve(making.make(plan, doubts), differences=differences)


@attrs.frozen(eq=False)
class _Making:
    """Makes the valid store; the damaged one's lock is held."""

    root: str
    wanted_jobs: int | None
    follow_links: bool
    clock: Callable[[], int]
    step: Step

    def jobs(self, plan: RepairPlan) -> int | None:
        """Return how many processes make plugins' files."""
        return self.wanted_jobs or (1 if plan.size < _SMALL else None)

    def mark(self, plan: RepairPlan) -> Mark:
        """Return what says that the store is not complete."""
        return Mark(source=plan.root, target=self.root)

    def make(self, plan: RepairPlan, doubts: tuple[Doubt, ...] = ()) -> Repaired:
        """Make the store; keep what the log and derived files contradict each other about."""
        root = self.root
        check_space(plan, os.path.dirname(root), has_log=False)
        mark = self.mark(plan)
        disk, staging = begin(mark)
        source = Source.of(plan, follow_links=self.follow_links)
        built = build(
            source,
            staging,
            copied_log(source, self.step),
            now=self.clock(),
            jobs=self.jobs(plan),
            step=self.step,
        )
        keep_evidence(plan, doubts, source.disk, staging, disk)
        end(mark, disk)
        return Repaired(plan=plan, target=root, built=built, doubts=doubts)


def dry_run(
    path: str | os.PathLike[str],
    *,
    file_size: int = 0,
    jobs: int | None = None,
    follow_links: bool = False,
    step: Step = _silent,
) -> tuple[RepairPlan, tuple[Difference, ...], tuple[Doubt, ...]]:
    """Return what a repair would do, where derived files differ, and which of these are doubts.

    Changes nothing.

    As in a repair, derived files are compared only if nothing else is wrong; otherwise all of them
    are rebuilt.

    Args:
        path: the store.
        file_size: see `repair`; likewise those below.
        jobs: see `repair`.
        follow_links: see `repair`.
        step: see `repair`.
    """
    with look_and_plan(path, file_size=file_size, follow_links=follow_links, step=step) as plan:
        pass
    if plan.is_needed:
        return plan, (), ()
    jobs = jobs or (1 if plan.size < _SMALL else None)
    return plan, *derived_differences(plan, jobs, follow_links, step)


def repair_in_place(
    path: str | os.PathLike[str],
    backup: str | os.PathLike[str] = "",
    *,
    file_size: int = 0,
    config: Mapping[str, Mapping[str, Any]] | None = None,
    jobs: int | None = None,
    follow_links: bool = False,
    clock: Callable[[], int] = system_clock,
    step: Step = _silent,
) -> Repaired:
    """Repair a damaged store where it is; every byte that changes is backed up first.

    `undo` brings the store back, also after a repair that was interrupted.

    Args:
        path: the store. No process may have it open for writing.
        backup: a new or an empty directory; beside the store when left out.
        file_size: see `repair`; likewise those below.
        config: see `repair`.
        jobs: see `repair`.
        follow_links: see `repair`.
        clock: see `repair`.
        step: see `repair`.

    Raises:
        StoreNotFoundError: there is no store, or an earlier repair has to be undone first.
        StoreLockedError: a process has it open for writing.
        NotEmptyError: ``backup`` has files in it.
        NoSpaceError: there is too little space for the backup and for what is rebuilt.
        UnsafePathError: a link below the store's directory.
        ConfigError: an unknown option in ``config``.
    """
    root = os.path.abspath(os.fspath(path))
    kept = os.path.abspath(os.fspath(backup)) if backup else f"{root}.backup"
    look = functools.partial(
        look_and_plan,
        path,
        file_size=file_size,
        config=config,
        follow_links=follow_links,
        writes=True,
        step=step,
    )
    names = [entry.name for entry in Disk().list(kept)]
    if names:
        raise NotEmptyError(kept, names[0])
    with look() as plan:
        wanted = jobs or (1 if plan.size < _SMALL else None)
        if plan.is_needed:
            done = _in_place(plan, kept, wanted, follow_links, clock(), step)
            return attrs.evolve(done, was_compared=False)
    differences, doubts = derived_differences(plan, wanted, follow_links, step)
    if not differences:
        return Repaired(plan=plan, target=plan.root, built=None)
    with look() as plan:
        done = _in_place(plan, kept, wanted, follow_links, clock(), step)
        return attrs.evolve(done, differences=differences, doubts=doubts)


def _in_place(
    plan: RepairPlan, kept: str, jobs: int | None, follow_links: bool, now: int, step: Step
) -> Repaired:
    root = plan.root
    disk = Disk().at(root, follow_links=follow_links)
    check_space(plan, os.path.dirname(root), has_log=True)
    source = Source.of(plan, follow_links=follow_links)
    ranges = [(each.start_offset, each.end_offset) for each in overwritten(plan)]
    backup = back_up(plan, kept, ranges, source.disk)
    mark = Mark(source=root, target=root, backup=kept)
    start(root, disk, mark)
    staging = os.path.join(root, STAGING)
    disk.remove_tree(staging)
    disk.make_directory(staging)
    bring = bring_in_place(plan, kept, backup)
    built = build(source, staging, bring, now=now, jobs=jobs, step=step)
    start(root, disk, attrs.evolve(mark, is_complete=True))
    move_aside(root, disk, kept, backup.parts)
    publish(root, disk)
    return Repaired(plan=plan, target=root, built=built, backup=kept)


def undo(
    path: str | os.PathLike[str],
    backup: str | os.PathLike[str] = "",
    *,
    follow_links: bool = False,
) -> Undone:
    """Bring a store back to what it was before it was repaired in place.

    Args:
        path: the store.
        backup: the backup's directory; beside the store when left out.
        follow_links: as for `reput.open`.

    Raises:
        NoBackupError: there is no backup of this store.
        StoreLockedError: a process has the store open for writing.
    """
    root = os.path.abspath(os.fspath(path))
    kept = os.path.abspath(os.fspath(backup)) if backup else f"{root}.backup"
    disk = Disk().at(root, follow_links=follow_links)
    Backup.load(kept)  # before anything is locked
    if read_mark(root, disk) is None:
        with lock_store(root, follow_links=follow_links):
            return put_back(kept, root, disk)
    # A writer cannot open an unfinished store, so none must be kept out.
    return put_back(kept, root, disk)


@contextlib.contextmanager
def look_and_plan(
    path: str | os.PathLike[str],
    *,
    file_size: int = 0,
    config: Mapping[str, Mapping[str, Any]] | None = None,
    follow_links: bool = False,
    writes: bool = False,
    step: Step = _silent,
) -> Iterator[RepairPlan]:
    """Plan the repair of a store, and keep writers out of the store until the block ends.

    Raises:
        StoreLockedError: a process has it open for writing, or, without ``writes``, came meanwhile.
        UnsupportedFilesError: a broker keeps files there that a repair would contradict.
    """
    hiding, root = HidingDisk(), os.path.abspath(os.fspath(path))
    if os.path.isdir(os.path.join(root, "lock")):
        hiding.hide([os.path.join(root, "lock")])  # no writer can hold it
    with lock_store(path, writes=writes, disk=hiding, follow_links=follow_links) as closed:
        # A copy would have them, too, with derived files that do not belong to them.
        refuse_broker_files(closed.root, closed.disk, closed.disk.list_names(closed.root))
        plan = make_plan(
            path, file_size=file_size, config=config, follow_links=follow_links, step=step
        )
        if not plan.is_needed:
            notices = (*plan.notices, *_entries(plan, follow_links))
            plan = attrs.evolve(plan, notices=notices)
        yield plan


def _entries(plan: RepairPlan, follow_links: bool) -> Iterator[Notice]:
    """Yield what plugins find wrong with files that no rebuild makes, in a store that is closed."""
    try:
        sections = plan.plugins.sections if plan.plugins.manifest is None else None
        with reput.open(plan.root, "r", config=sections, follow_links=follow_links) as store:
            for name, error in wrong_entries(store):
                path = str(error.path) if isinstance(error, CorruptFileError) else ""
                file = os.path.relpath(path, plan.root) if path else f"plugin {name}"
                yield Notice(file, "store.entry", f"{error}; the plugin looks at all of its files")
    except (ReputError, OSError):
        return  # as where a plugin is missing: then nothing can be asked


def derived_differences(
    plan: RepairPlan, jobs: int | None, follow_links: bool, step: Step
) -> tuple[tuple[Difference, ...], tuple[Doubt, ...]]:
    """Return where derived files differ from what a log gives, and which of these are doubts.

    None are found where a plugin is missing, without which none is made.
    """
    if plan.plugins.missing or not plan.layout.parts:
        return (), ()
    with LocalEngine(jobs) as engine:
        found = run_rebuild(
            plan.root,
            (),
            engine,
            progress=step("comparing"),
            check=True,
            follow_links=follow_links,
            config=plan.plugins.sections,
            limit=_LIMIT,
            explains=True,
        )
    differences = tuple(each for built in found for each in built.differences or ())
    return differences, doubts_of(plan, found)
