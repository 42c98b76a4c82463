"""Looks at a whole store and says what a repair of it does; changes nothing.

The log is read once, with every checksum; the files of plugins are read once if the log is damaged.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from reput.files import FilePool, MappedFileQueue, file_name, system_clock
from reput.log import (
    CUT,
    GONE,
    LOG_SECTION,
    Damage,
    LogReader,
    Loss,
    LossLedger,
    QueueFloors,
    files_grow,
)
from reput.record import Corruption, CorruptionKind
from reput_tools.doctor.checksumcoverage import checksummed_count
from reput_tools.doctor.missinghead import lost_head
from reput_tools.doctor.repair.brokerconfigrepair import plan_config
from reput_tools.doctor.repair.changedlastrecord import changed_last_record
from reput_tools.doctor.repair.fillerrecords import FilledLosses
from reput_tools.doctor.repair.foreignfiles import foreign_files, without
from reput_tools.doctor.repair.headerfaults import check_headers
from reput_tools.doctor.repair.loglayout import (
    LogLayout,
    Notice,
    PlacedDisk,
    is_closed_by_blank,
    lay_out,
)
from reput_tools.doctor.repair.lostmessages import LostPart, parts_of
from reput_tools.doctor.repair.pluginhints import (
    DamagePlace,
    PluginHints,
    Wanted,
    ask,
    inside,
    leads_into,
)
from reput_tools.doctor.repair.queuesequences import QueueSequences
from reput_tools.doctor.repair.recordsearch import RecordSearch, search
from reput_tools.doctor.repair.repairplan import RepairPlan
from reput_tools.doctor.repair.statefilerepair import damaged_notes
from reput_tools.doctor.repair.storeplugins import StorePlugins, plugins_of
from reput_tools.offline import HidingDisk, inspect_store, misplaced

if TYPE_CHECKING:
    from reput.record import DispatchBatch
    from reput_tools.doctor.repair.fieldrepair import FieldRepair
    from reput_tools.offline import Traces

WINDOW_SIZE: Final = 4 << 20
_FILES_OPEN: Final = 64
_FOREVER: Final = 1 << 62

Progress = Callable[[int, int], None]
Step = Callable[[str], Progress]
"""Called with the name of a step; returns what is called with bytes done, and bytes in all."""


def make_plan(
    path: str | os.PathLike[str],
    *,
    file_size: int = 0,
    config: Mapping[str, Mapping[str, Any]] | None = None,
    follow_links: bool = False,
    step: Step = lambda name: lambda done, total: None,
) -> RepairPlan:
    """Look at the store at ``path``, and plan its repair.

    Args:
        path: the store's directory.
        file_size: bytes of a log file; 0 to find out.
        config: options of plugins, by section.
        follow_links: as for `reput.open`.
        step: called with each step that begins.

    Raises:
        UnsafePathError: a link below the store's directory.
        ConfigError: an unknown option in ``config``.
    """
    disk = HidingDisk()
    traces = inspect_store(path, disk=disk, follow_links=follow_links)
    disk.hide(misplaced(traces.root, traces.disk))
    plugins = plugins_of(traces, config or {})
    noted = plugins.sections.get(LOG_SECTION, {}).get("file_size", 0)
    known = file_size or (noted if _is_size(noted) else 0)
    grows = files_grow(plugins.sections) and known == noted
    layout = lay_out(traces.root, traces.disk, known, grows=grows)
    with _Planning(traces, plugins, layout, step, tuple(sorted(disk.hidden))) as planning:
        return planning.plan()


def _is_size(noted: object) -> bool:
    return type(noted) is int and noted > 0


class _Planning:
    """One look at a store."""

    def __init__(
        self,
        traces: Traces,
        plugins: StorePlugins,
        layout: LogLayout,
        step: Step,
        wrong: tuple[str, ...],
    ) -> None:
        self.misplaced = wrong
        self.traces, self.plugins, self.layout, self.step = traces, plugins, layout, step
        self.was_closed = _was_closed(traces)
        self.filled = FilledLosses()
        self.checksummed = 0
        self.placed = PlacedDisk()
        self.placed.hide(wrong)
        self.disk = self.placed.at(traces.root, follow_links=traces.disk.follows_links)
        self.pool = FilePool(self.disk, _FILES_OPEN)

    def __enter__(self) -> _Planning:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()
        self.disk.release()

    def plan(self) -> RepairPlan:
        log, found, sequences = self._search(self.layout)
        known = self._ask(log, found, sequences)
        foreign = foreign_files(log, known, self.layout)
        if foreign:
            self.layout = without(self.layout, foreign)
            log, found, sequences = self._search(self.layout)
            known = self._ask(log, found, sequences)
        lost, mends = self._headers(log, found, sequences, known)
        last = changed_last_record(self.traces, log, found, mends)
        if last is not None:
            lost = (*lost, last)
            mends = tuple(each for each in mends if each.physical_offset != last.start_offset)
        sequences.forget(each.start_offset for each in lost)
        if len(lost) > len(found.lost):
            known = self._ask(log, attrs.evolve(found, lost=lost), sequences)
        places = known.in_ranges
        parts = [part for each in lost for part in parts_of(log, each, known, places)]
        cut = self._cut(log, found, known)
        gone = self._gone(found, known, cut)
        floors = self._floors(sequences, (*parts, *cut), gone)
        # A queue ends after its last message that is left, for RocketMQ as well; a queue without
        # any goes on at its floor.
        ends = {**floors, **sequences.next_offsets}
        mended = {each.physical_offset for each in mends}
        for place in known.in_gaps:
            if place.physical_offset in mended:
                queue = place.topic, place.queue_id
                ends[queue] = max(ends.get(queue, 0), place.queue_offset + 1)
        config = tuple(plan_config(self.traces.root, self.traces.disk, ends))
        ledger = LossLedger(self.traces.state_file, system_clock)
        ledger.load(writable=False)
        untold = self.filled.not_in(ledger.entries)
        notices = [
            *self.layout.notices,
            *(_missing(base) for base in found.missing),
            *_of_ledger(untold),
            *self.plugins.notices,
            *(_misplaced(os.path.relpath(path, self.traces.root)) for path in self.misplaced),
            *damaged_notes(self.traces, found.max_store_timestamp, found.end_offset),
            *(each.notice for each in config),
        ]
        return RepairPlan(
            root=self.traces.root,
            layout=self.layout,
            plugins=self.plugins,
            searched=found,
            lost=tuple(parts),
            cut=tuple(cut),
            gone=tuple(gone),
            head=lost_head(self.traces, found.start_offset, ledger.entries),
            mends=mends,
            notices=tuple(notices),
            misplaced=self.misplaced,
            config=config,
            queue_floors=floors,
            known_losses=(*ledger.entries, *untold),
            was_closed=self.was_closed,
            checksummed=self.checksummed,
            filler_count=self.filled.record_count,
            checked=self.traces.checked_ranges.until(found.end_offset),
        )

    # ------------------------------------------------------------------ the log

    def _search(self, layout: LogLayout) -> tuple[LogReader, RecordSearch, QueueSequences]:
        self.placed.show(layout)
        files = MappedFileQueue(layout.directory, layout.file_size, self.disk, self.pool)
        files.grows = layout.grows
        files.load(writable=False, damaged=lambda text: None)
        log = LogReader(files, WINDOW_SIZE, checked=self.traces.checked_ranges)
        sequences, fillers = QueueSequences(), FilledLosses()
        self.checksummed = 0

        def watch(batch: DispatchBatch) -> None:
            sequences.add(batch)
            fillers.add(batch)
            self.checksummed += checksummed_count(batch)

        found = search(
            log,
            was_closed=self.was_closed,
            leads_to=functools.partial(leads_into, self._leads),
            watch=watch,
            progress=self.step("reading"),
        )
        log.set_end(found.end_offset)
        self.filled = fillers
        return log, found, sequences

    def _leads(self) -> Iterator[Any]:
        return self.plugins.leads(self.traces)

    def _ask(self, log: LogReader, found: RecordSearch, sequences: QueueSequences) -> PluginHints:
        ranges = [(each.start_offset, each.end_offset) for each in found.lost]
        ranges += [(offset, offset + 1) for offset in sequences.misfits]
        ranges.append((found.end_offset, _FOREVER))
        wanted = Wanted(
            _merged(ranges),
            found.start_offset,
            log.file_size,
            sequences.gaps,
            asks_for_others=True,
        )
        return ask(self._leads(), wanted)

    def _headers(
        self, log: LogReader, found: RecordSearch, sequences: QueueSequences, known: PluginHints
    ) -> tuple[tuple[Damage, ...], tuple[FieldRepair, ...]]:
        """Return all lost ranges and all repairs, those of headers included."""
        offsets = np.array([each.physical_offset for each in known.in_gaps], np.int64)
        starts = np.array([each.start_offset for each in found.lost], np.int64)
        ends = np.array([each.end_offset for each in found.lost], np.int64)
        left = (offsets < found.end_offset) & ~inside(offsets, starts, ends)
        left &= ~np.isin(offsets, [each.physical_offset for each in found.mends])
        in_gaps = [known.in_gaps[row] for row in np.flatnonzero(left).tolist()]
        if not in_gaps and not sequences.misfits:
            return found.lost, found.mends
        asked = sorted({each.physical_offset for each in in_gaps} | set(sequences.misfits))
        beside: dict[tuple[str, int], set[tuple[int, int]]] = {}
        for place in in_gaps:
            at = place.queue_offset
            beside.setdefault((place.topic, place.queue_id), set()).update(
                [(at - 1, at), (at + 1, at + 2)]
            )
        wanted = Wanted(
            _merged((offset, offset + 1) for offset in asked),
            found.start_offset,
            log.file_size,
            {queue: np.array(_merged(each), np.int64) for queue, each in beside.items()},
        )
        faults = check_headers(log, sequences, in_gaps, ask(self._leads(), wanted))
        lost = sorted((*found.lost, *faults.lost), key=lambda each: each.start_offset)
        mends = sorted((*found.mends, *faults.mends), key=lambda each: each.physical_offset)
        return tuple(lost), tuple(mends)

    # ------------------------------------------------------------------ after its end

    def _cut(self, log: LogReader, found: RecordSearch, known: PluginHints) -> list[LostPart]:
        """Return what stands after the log's end, a part for each file."""
        files, parts = log.files, []
        end = found.end_offset
        for base in files.bases:
            file_end = base + files.file_size
            start = max(base, end)
            if start >= file_end:
                continue
            used = files.last_used(start, file_end)
            if used == start or _is_blank(log, start, file_end):
                continue
            kind = CorruptionKind.TORN if start == end else CorruptionKind.BAD_MAGIC
            finding = found.finding if start == end else None
            finding = finding or Corruption(start, kind, "no sound record follows the log's end")
            damage = log.finder().damage(finding, used, found.last_store_timestamp)
            parts += parts_of(log, damage, known, known.in_ranges)
        return parts

    def _gone(self, found: RecordSearch, known: PluginHints, cut: Sequence[LostPart]) -> list[Loss]:
        """Return what only queues know after the log's end, a loss for each queue."""
        by_queue: dict[tuple[str, int], list[DamagePlace]] = {}
        named = {each.start_offset for each in cut}
        for place in known.in_ranges:
            if place.physical_offset >= found.end_offset and place.physical_offset not in named:
                by_queue.setdefault((place.topic, place.queue_id), []).append(place)
        gone = []
        for (topic, queue_id), places in sorted(by_queue.items()):
            first = min(each.queue_offset for each in places)
            end = max(each.queue_offset for each in places) + 1
            gone.append(
                Loss(
                    min(each.physical_offset for each in places),
                    max(each.physical_offset + each.size for each in places),
                    GONE,
                    f"{end - first} of the queue's messages; the log ends at {found.end_offset}",
                    topic,
                    queue_id,
                    first,
                    CUT,
                    queue_end_offset=end,
                )
            )
        return gone

    def _floors(
        self, sequences: QueueSequences, lost: Iterable[LostPart], gone: Iterable[Loss]
    ) -> dict[tuple[str, int], int]:
        """Return next queue offsets that the repaired log does not show."""
        told: list[tuple[str | None, int | None, int | None, int | None]] = [
            (each.topic, each.queue_id, each.queue_offset, None) for each in lost
        ]
        told += [
            (each.topic, each.queue_id, each.queue_offset, each.queue_end_offset) for each in gone
        ]
        floors = dict(QueueFloors(self.traces.state_file).known)
        for topic, queue_id, offset, end in told:
            if topic is None or queue_id is None or offset is None:
                continue
            after = offset + 1 if end is None else end
            if after > sequences.next_offsets.get((topic, queue_id), 0):
                floors[topic, queue_id] = max(floors.get((topic, queue_id), 0), after)
        return floors


# --------------------------------------------------------------------------- parts


def _missing(base: int) -> Notice:
    text = "it is missing; a file of records that say so takes its place"
    return Notice(f"commitlog/{file_name(base)}", "log-file.missing", text)


def _misplaced(file: str) -> Notice:
    text = "a directory, pipe or device is in its place, which is left out"
    return Notice(file, "store.not-a-file", text)


def _of_ledger(untold: Sequence[Loss]) -> list[Notice]:
    if not untold:
        return []
    text = f"{len(untold)} losses that the log has filled are not in it; they are added"
    return [Notice("reput/state", "reput.ledger", text)]


def _was_closed(traces: Traces) -> bool:
    try:
        return traces.was_closed
    except OSError:
        return False


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _is_blank(log: LogReader, start: int, file_end: int) -> bool:
    return is_closed_by_blank(log.files.read(start, 8), file_end - start)
