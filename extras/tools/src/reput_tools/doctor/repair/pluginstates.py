"""Takes over what a state file says of plugins, as far as the repaired log is the same log.

Compacted messages do not follow from a log alone: a plugin that begins at the head of the log again
cuts those whose records are damaged, and lists superseded ones. So its progress stays, with the
notes that belong to it, if the log still has the record below it, or lost that record by the damage
that is repaired; and if the plugin finds nothing wrong with its files.

After damage to the log this holds only for plugins that read messages from files of their own.
Others look through all of the log: a timed message whose delivered record is damaged is
delivered again, as long as the record that waited is whole.
"""

from __future__ import annotations

import os
from collections.abc import Container
from typing import TYPE_CHECKING, Final

import attrs

import reput
from reput.errors import ReputError
from reput.files import FilePool, MappedFileQueue
from reput.log import LogEnd, LogReader, Progress, ProgressEntry, StateFile, fingerprint_of
from reput.plugin import PluginHooks
from reput.storefiles import StoredPluginState, StoredPluginStates
from reput_tools.doctor.repair.logrepair import overwritten
from reput_tools.doctor.repair.newstore import derived_plugins
from reput_tools.doctor.repair.planner import WINDOW_SIZE
from reput_tools.doctor.verification.readeropening import wrong_entries

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_tools.doctor.repair.repairplan import RepairPlan

_TIMES: Final = ".times"
"""Name of the value that says where store times go back; see `reput.log.TimeRuns`."""
_FILES_OPEN: Final = 64
_LOCK_SIZE: Final = 4096


def keep_store_times(old: StateFile, new: StateFile) -> None:
    """Take over where store times of the log go back, which only its writer has noted."""
    if times := old.value(_TIMES):
        new.note({_TIMES: times})


def take_over_states(plan: RepairPlan, old: StateFile, root: str, disk: Disk) -> None:
    """Take over progress, notes and records of plugins; their files are taken over already.

    Args:
        plan: the repair.
        old: the state file of the damaged store.
        root: the store that is made; its log is complete, and no plugin was opened.
        disk: of that store.
    """
    old.load()
    new, before = StateFile.of(root, disk), StoredPluginStates(plan.root, old.disk, old)
    kept = _believable(plan, old, root, disk, _stateful(plan))
    after = StoredPluginStates(root, disk, new)
    records = after.entries(_records(plan, before, kept))
    new.save({**{name: each.packed() for name, each in kept.items()}, **records})
    wrong = _plugins_with_wrong_files(plan, old.disk, root, disk) if kept else set()
    for name in wrong & kept.keys():
        new.save_in_both({}, name)
        new.save(after.entries({name: attrs.evolve(before.known(name), cut_to=None)}))
        del kept[name]
    notes = {each: old.value(each) for each in old.names() if each.partition("/")[0] in kept}
    if notes:
        new.note(notes)


def _records(
    plan: RepairPlan, before: StoredPluginStates, kept: Container[str]
) -> dict[str, StoredPluginState]:
    """Return the records of plugins that go on at their progress, or that stay suspended."""
    records = {}
    for name in plan.plugins.plugins:
        record = before.known(name)
        if name in kept:
            # A plugin looks at its files after a crash more closely.
            is_clean = record.is_clean and plan.was_closed
            records[name] = attrs.evolve(record, is_clean=is_clean)
        elif record.asked:
            records[name] = attrs.evolve(record, is_clean=True, cut_to=None)
    return records


def _stateful(plan: RepairPlan) -> list[str]:
    """Return the plugins that do not begin at the head of the repaired log."""
    plugins = plan.plugins.plugins
    derived = derived_plugins(plugins)
    return [
        name
        for name, plugin in plugins.items()
        if name not in derived and (plan.is_log_sound or PluginHooks.of(name, plugin).read)
    ]


def _believable(
    plan: RepairPlan, old: StateFile, root: str, disk: Disk, names: list[str]
) -> dict[str, Progress]:
    """Return the progress of plugins, by name, of those whose progress is of the repaired log."""
    found, pool = plan.searched, FilePool(disk, _FILES_OPEN)
    try:
        directory = os.path.join(root, "commitlog")
        files = MappedFileQueue(directory, plan.layout.file_size, disk, pool)
        files.grows = plan.layout.grows
        files.load(writable=False)
        end = LogEnd(found.end_offset, found.last_record_offset, found.last_store_timestamp)
        log = LogReader(files, WINDOW_SIZE, end=end)
        kept = {}
        for name in names:
            for progress in ProgressEntry(old, name).known():
                if (repaired := _repaired(plan, log, progress)) is not None:
                    kept[name] = repaired
                    break
        return kept
    finally:
        pool.close()


def _repaired(plan: RepairPlan, log: LogReader, progress: Progress) -> Progress | None:
    """Return what a progress is in the repaired log; None if it is of another log."""
    offset, record = progress.physical_offset, progress.record_offset
    if offset > plan.searched.end_offset:
        return None
    if record < plan.searched.start_offset:
        return progress
    fingerprint = fingerprint_of(log, record)
    if fingerprint == progress.fingerprint:
        return progress
    changed = [each for each in overwritten(plan) if each.start_offset < offset]
    if not any(each.end_offset > record for each in changed):
        return None
    # Nothing is read from within a filled range.
    end = max(offset, *(each.end_offset for each in changed))
    return Progress(end, record, fingerprint)


def _plugins_with_wrong_files(plan: RepairPlan, old_disk: Disk, root: str, disk: Disk) -> set[str]:
    """Return the plugins that find something wrong with their files; all if none can be asked."""
    sections = plan.plugins.sections if plan.plugins.manifest is None else None
    try:
        # What it says tells plugins whether a broker has changed their files since.
        lock = old_disk.read_if_exists(os.path.join(plan.root, "lock"), _LOCK_SIZE)
        if lock and plan.plugins.manifest is not None:
            disk.replace(os.path.join(root, "lock"), lock)
        with reput.open(root, "r", config=sections) as store:
            return {name for name, _ in wrong_entries(store)}
    except (ReputError, OSError):
        return {*plan.plugins.plugins}
