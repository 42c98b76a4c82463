"""Carries out a plan on the log's files: repairs fields, fills lost bytes, notes the losses.

The files are those of the store that is being made, or of one whose original bytes are backed up.
The ledger is written, as pending, before the first byte is overwritten, as at an opening.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.files import OWN_DIRECTORY, Disk, FilePool, MappedFileQueue, file_name
from reput.log import (
    LOG_SECTION,
    CommitLogConfig,
    Damage,
    Loss,
    LossLedger,
    StateFile,
    fill,
)
from reput.plugin import build_config
from reput.record import pack_host
from reput.record.layout import RECORD_MIN_SIZE
from reput_tools.doctor.repair.repairplan import loss_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput_tools.doctor.repair.lostmessages import LostPart
    from reput_tools.doctor.repair.repairplan import RepairPlan

_FILES_OPEN: Final = 64
_COPY_SIZE: Final = 1 << 20
_HEAD_SIZE: Final = 512
"""Bytes of the record at the head of a file whose other bytes are a blank."""


@attrs.frozen
class Overwritten:
    """A range of the log's files that a plan changes."""

    start_offset: int
    end_offset: int


def overwritten(plan: RepairPlan) -> list[Overwritten]:
    """Return all bytes of the log that `LogRepair` changes before the log's end, ascending."""
    found = [Overwritten(each.start_offset, each.end_offset) for each in plan.lost]
    found += [
        Overwritten(
            each.physical_offset + each.position,
            each.physical_offset + each.position + len(each.new),
        )
        for each in plan.mends
    ]
    return sorted(found, key=lambda each: each.start_offset)


@attrs.define(eq=False)
class LogRepair:
    """The repair of one log: `note` while the original bytes are there, then `write`.

    Args:
        plan: what to do.
        root: the store whose log is repaired.
        disk: of that store.
        now: ms; the time of the new entries of the ledger.
    """

    plan: RepairPlan
    root: str
    disk: Disk
    now: int
    _ledger: LossLedger = attrs.field(init=False)
    _noted: list[Loss] = attrs.field(factory=list, init=False)

    def note(self, read_original: Callable[[int, int], bytes]) -> None:
        """Copy what is lost to ``lost+found``, and note it in the ledger as pending.

        Args:
            read_original: returns original bytes of the log, at a physical offset; fewer, or none,
                where there is no file.
        """
        plan, disk = self.plan, self.disk
        own = os.path.join(self.root, OWN_DIRECTORY)
        disk.make_directory(own)
        self._ledger = LossLedger(StateFile.of(self.root, disk), lambda: self.now)
        self._ledger.load(writable=True)
        self._ledger.take_over(plan.known_losses)
        kept = _keep(plan, disk, own, read_original)
        filled = [loss_of(part, is_filled=True, kept=kept.get(part, "")) for part in plan.lost]
        cut = [loss_of(part, is_filled=False, kept=kept.get(part, "")) for part in plan.cut]
        self._noted = self._ledger.begin([*filled, *cut, *plan.gone])
        if plan.head is not None:
            self._ledger.note(plan.head)

    def write(self) -> None:
        """Repair the files below the store's root; on disk when this returns."""
        plan, disk, config = self.plan, self.disk, _log_config(self.plan)
        pool = FilePool(disk, _FILES_OPEN)
        try:
            directory = os.path.join(self.root, "commitlog")
            files = MappedFileQueue(directory, plan.layout.file_size, disk, pool)
            files.load(writable=False)
            _write_mends(plan, files, disk)
            host = pack_host(*config.store_host)
            for part, loss in zip(plan.lost, self._noted, strict=False):
                for damage in _filled_ranges(part, files.file_size):
                    has_crc = config.record_crc or plan.checked.covers(damage.start_offset)
                    fill(files, disk, damage, loss, host, record_crc=has_crc)
        finally:
            pool.close()
        self._ledger.finish()


def _log_config(plan: RepairPlan) -> CommitLogConfig:
    options: dict[str, Any] = dict(plan.plugins.sections.get(LOG_SECTION, {}))
    options["file_size"] = max(plan.layout.file_size, RECORD_MIN_SIZE + 8)
    found: CommitLogConfig = build_config(CommitLogConfig, LOG_SECTION, options)
    return found


# --------------------------------------------------------------------------- copies of what is lost


def _keep(
    plan: RepairPlan, disk: Disk, own: str, read_original: Callable[[int, int], bytes]
) -> dict[LostPart, str]:
    """Copy the lost bytes to ``lost+found``; return the name of each part's copy.

    Parts that follow each other in one file have one copy.
    """
    kept: dict[LostPart, str] = {}
    directory = os.path.join(own, "lost+found")
    for run in _runs((*plan.lost, *plan.cut), plan.layout.file_size):
        disk.make_directory(directory)
        name = _unused(disk, directory, file_name(run[0].start_offset))
        if not _copy_run(run, disk, os.path.join(directory, name), read_original):
            continue
        kept.update(dict.fromkeys(run, name))
    if kept:
        disk.flush_directory(directory)
    return kept


def _copy_run(
    run: Sequence[LostPart], disk: Disk, path: str, read_original: Callable[[int, int], bytes]
) -> bool:
    """Copy the bytes of parts that follow each other, less zeros at their end; False if all are."""
    start, fresh, size = run[0].start_offset, f"{path}.new", 0
    descriptor = disk.create_fresh(fresh)
    try:
        for at in range(start, run[-1].end_offset, _COPY_SIZE):
            data = read_original(at, min(_COPY_SIZE, run[-1].end_offset - at)).rstrip(b"\0")
            if data:
                disk.write(descriptor, data, at - start)
                size = at - start + len(data)
        disk.flush(descriptor)
    finally:
        disk.close(descriptor)
    if size:
        disk.rename(fresh, path)
    else:
        disk.remove(fresh)
    return bool(size)


def _runs(parts: Sequence[LostPart], file_size: int) -> list[list[LostPart]]:
    runs: list[list[LostPart]] = []
    for part in sorted(parts, key=lambda each: each.start_offset):
        is_next = runs and runs[-1][-1].end_offset == part.start_offset
        if is_next and part.start_offset % file_size:
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs


def _unused(disk: Disk, directory: str, name: str) -> str:
    found, number = name, 1
    while disk.exists(os.path.join(directory, found)):
        number += 1
        found = f"{name}-{number}"
    return found


# --------------------------------------------------------------------------- writing


def _write_mends(plan: RepairPlan, files: MappedFileQueue, disk: Disk) -> None:
    for mend in plan.mends:
        at = mend.physical_offset + mend.position
        base = files.base_of(at)
        assert base is not None
        descriptor = disk.open(files.path(base), write=True)
        try:
            disk.write(descriptor, mend.new, at - base)
            disk.flush(descriptor)
        finally:
            disk.close(descriptor)


def _filled_ranges(part: LostPart, file_size: int) -> list[Damage]:
    """Return the ranges to be filled for a part.

    A file that is lost as a whole begins with a record and not with a blank, as RocketMQ and reput
    look at a file's first record to see from when it is.
    """
    start, end = part.start_offset, part.end_offset
    is_file = start % file_size == 0 and end == start + file_size and file_size > 2 * _HEAD_SIZE
    borders = [start, start + _HEAD_SIZE, end] if is_file else [start, end]
    return [
        attrs.evolve(part, start_offset=first, end_offset=stop)
        for first, stop in itertools.pairwise(borders)
    ]
