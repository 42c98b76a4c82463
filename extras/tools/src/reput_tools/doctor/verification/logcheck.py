"""Reads every record of a log on all cores: structure, checksums, and the order of records."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError
from reput.files import Disk, FilePool, system_clock
from reput.log import (
    CheckedRanges,
    Damage,
    LogEnd,
    LogReader,
    LossLedger,
    StateFile,
    log_files,
)
from reput_tools.doctor.checksumcoverage import checksummed_count
from reput_tools.doctor.tornrecord import torn_damages
from reput_tools.doctor.verification.logorder import LogOrder, join
from reput_tools.doctor.verification.plausibility import Oddity, PlausibilityCheck
from reput_tools.offline import DamageCollector, Split, plan_splits, read_in_rounds, read_split

if TYPE_CHECKING:
    from reput import Store
    from reput_tools.offline import Engine

_WINDOW_SIZE: Final = 4 << 20
_FILES_OPEN: Final = 16
_SPLITS_PER_JOB: Final = 3  # so that a slow last split keeps one core waiting, not all
_SPLIT_MIN: Final = 8 << 20
_SPLIT_MAX: Final = 256 << 20


@attrs.frozen
class LogPlace:
    """Which log: plain values."""

    root: str
    """A store's directory, or a mirror of it."""
    file_size: int
    grows: bool = False
    """Whether files grow (`reput.CommitLogConfig.grows`)."""


@attrs.frozen
class LogTask:
    """One stretch of the log to read."""

    place: LogPlace
    split: Split
    log_end: int
    deep: bool
    checked: CheckedRanges

    @property
    def size(self) -> int:
        """Bytes of the stretch."""
        return self.split.size


@attrs.frozen
class LogPart:
    """What one stretch of the log shows."""

    orders: LogOrder = attrs.field(factory=LogOrder)
    damages: tuple[Damage, ...] = ()
    oddities: tuple[Oddity, ...] = ()
    oddity_count: int = 0
    missing_codecs: tuple[str, ...] = ()
    checksummed: int = 0
    """Records with a checksum of all of their bytes."""
    is_sound: bool = True


@attrs.frozen
class LogChecked:
    """What a whole log shows."""

    size: int
    """Bytes read."""
    orders: LogOrder
    checksummed: int
    """Records with a checksum of all of their bytes."""
    damages: list[Damage]
    """In the log's order."""
    oddities: list[Oddity]
    oddity_count: int
    missing_codecs: list[str]
    """Compressions of bodies that could not be unpacked, as a library is missing."""


def check_log(
    store: Store,
    engine: Engine,
    *,
    deep: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    checked: CheckedRanges | None = None,
) -> LogChecked:
    """Read all of a store's log.

    Args:
        store: open for reading; tells where the log begins and ends.
        engine: runs the tasks.
        deep: whether to look into topics, properties and compressed bodies, too.
        progress: called with bytes done and bytes in all.
        checked: ranges in which each record has a checksum of its own.
    """
    checked = CheckedRanges() if checked is None else checked
    log = store.log
    first, end = log.min_physical_offset, log.max_physical_offset
    even = (end - first) // (engine.parallelism * _SPLITS_PER_JOB)
    size = max(min(_SPLIT_MAX, even), _SPLIT_MIN)
    place = LogPlace(store.root, log.file_size, log.files.grows)
    # The store's reader may follow a writer; the end that was found first is the end for all.
    splits = plan_splits(log, size, first, end)
    tasks = [LogTask(place, split, end, deep, checked) for split in splits]
    read = read_in_rounds(tasks, engine, _check, _search, progress=progress)
    parts: list[LogPart] = [part for _, part in read]
    damages = [damage for part in parts for damage in part.damages]
    collector = DamageCollector(log)
    collector.add_end(store.recovery.finding)
    damages += collector.damages
    known = {each.start_offset for each in damages}
    damages += [each for each in torn_damages(store) if each.start_offset not in known]
    return LogChecked(
        end - first,
        join([part.orders for part in parts]),
        sum(part.checksummed for part in parts),
        sorted(damages, key=lambda each: each.start_offset),
        [each for part in parts for each in part.oddities],
        sum(part.oddity_count for part in parts),
        sorted({codec for part in parts for codec in part.missing_codecs}),
    )


def _check(task: LogTask, report: Callable[[int], None]) -> LogPart:
    """Read one split, which most often is valid."""
    orders, deep, checksummed = LogOrder(), PlausibilityCheck() if task.deep else None, 0
    with _open(task) as log:
        try:
            for batch in read_split(log, task.split, check_crc=True):
                orders.add(batch)
                checksummed += checksummed_count(batch)
                if deep is not None:
                    deep.add(batch)
                report(batch.end_offset - task.split.start_offset)
        except CorruptFileError:
            return LogPart(is_sound=False)
    return _part(orders, deep, (), checksummed)


def _search(task: LogTask, report: Callable[[int], None]) -> LogPart:
    """Read a stretch that is not valid, in one piece, and name each damage."""
    orders, deep, checksummed = LogOrder(), PlausibilityCheck() if task.deep else None, 0
    split = task.split
    with _open(task) as log:
        collector = DamageCollector(log)
        for batch in log.scan(split.start_offset, split.end_offset, check_crc=True):
            orders.add(batch)
            checksummed += checksummed_count(batch)
            if deep is not None:
                deep.add(batch)
            collector.add(batch)
            report(min(batch.end_offset, split.end_offset) - split.start_offset)
    return _part(orders, deep, tuple(collector.damages), checksummed)


def _part(
    orders: LogOrder, deep: PlausibilityCheck | None, damages: tuple[Damage, ...], checksummed: int
) -> LogPart:
    if deep is None:
        return LogPart(orders, damages, checksummed=checksummed)
    codecs = tuple(sorted(deep.missing_codecs))
    return LogPart(orders, damages, tuple(deep.found), deep.count, codecs, checksummed)


@contextlib.contextmanager
def _open(task: LogTask) -> Iterator[LogReader]:
    root = task.place.root
    disk = Disk().at(root, follow_links=True)  # a mirror is made of links
    pool = FilePool(disk, _FILES_OPEN)
    try:
        place = task.place
        files = log_files(root, place.file_size, disk, pool, grows=place.grows)
        files.load(writable=False, damaged=lambda text: None)
        ledger = LossLedger(StateFile.of(root, disk), system_clock)
        ledger.load(writable=False)
        end = LogEnd(task.log_end)
        yield LogReader(files, _WINDOW_SIZE, ledger=ledger, end=end, checked=task.checked)
    finally:
        pool.close()
        disk.release()
