"""`make_report`: reads a store's log once and the small files beside it, and says what it holds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import attrs

import reput
from reput.files import system_clock
from reput.log import TimeRuns
from reput_tools.doctor.statistics.counts import TimeRange
from reput_tools.doctor.statistics.logcount import count_log
from reput_tools.doctor.statistics.logpart import LogPart
from reput_tools.doctor.statistics.reachedoffsets import ReachedOffset
from reput_tools.doctor.storereport import tablerows
from reput_tools.doctor.storereport.backlog import Waiting
from reput_tools.doctor.storereport.concerns import concerns_of
from reput_tools.doctor.storereport.reportmodel import LogExtent, StoreReport
from reput_tools.doctor.storereport.smallfiles.pluginpositions import plugin_places
from reput_tools.doctor.storereport.smallfiles.timerwheel import read_wheel
from reput_tools.doctor.storereport.transactions import transactions_of
from reput_tools.offline import (
    LocalEngine,
    inspect_store,
    read_consumer_offsets,
    read_delay_offsets,
)

if TYPE_CHECKING:
    from reput.log import Damage, Loss

_WORTH_PROCESSES: Final = 256 << 20  # bytes; a smaller log is read before processes have begun


def make_report(
    path: str | os.PathLike[str],
    *,
    since: int | None = None,
    until: int | None = None,
    jobs: int | None = None,
    follow_links: bool = False,
    clock: Callable[[], int] = system_clock,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> StoreReport:
    """Return what the store at ``path`` holds, and what in it waits, hangs or is damaged.

    Changes nothing, needs no plugin, and works while another process writes: the report is of the
    log up to where it ended when reading began.

    Args:
        path: the store's directory.
        since: count only messages stored at or after this time, ms; the log is read from the file
            in which they begin, so that what lies before is not looked at.
        until: count only messages stored at or before this time, ms.
        jobs: processes that read; all processors when left out, one for a small log.
        follow_links: as for `reput.open`.
        clock: ms since the epoch.
        progress: called with bytes done and bytes in all.

    Raises:
        StoreNotFoundError: there is no store.
        UnsafePathError: a link below the store's directory.
    """
    begun = time.monotonic()
    with reput.open(path, mode="r", plugins=(), follow_links=follow_links) as store:
        problems = list(store.problems)

        def tell(problem: str) -> None:
            if problem not in problems:
                problems.append(problem)

        traces = inspect_store(store.root, follow_links=follow_links)
        disk, log = traces.disk, store.log
        start, end = log.min_physical_offset, log.max_physical_offset
        is_open, writer = traces.is_open, traces.writer_pid
        first = start
        if since is not None:
            first = TimeRuns.of(store.root, disk).first_file_since(log, since)
        part = LogPart(
            root=store.root,
            file_size=log.file_size,
            start_offset=first,
            end_offset=end,
            grows=log.files.grows,
            follow_links=follow_links,
            checked=log.checked.until(end),
        )
        in_rocksdb = disk.exists(os.path.join(store.root, "config", "consumerOffsets"))
        plugins = plugin_places(traces, end, tell)
        delivered = read_delay_offsets(store.root, disk, tell)
        if delivered is None and any(each.plugin == "schedule" for each in plugins):
            delivered = {}  # the plugin writes the file with its first delivery
        waiting = Waiting(
            read_consumer_offsets(store.root, disk, tell),
            delivered,
            read_wheel(store.root, disk, tell),
        )
        marks: list[ReachedOffset] = waiting.marks()
        wanted = jobs if jobs is not None or part.size >= _WORTH_PROCESSES else 1
        with LocalEngine(wanted) as engine:
            counted = count_log(
                store,
                part,
                engine,
                times=TimeRange(since, until),
                marks=marks,
                progress=progress,
            )
        now = clock()
        found = tablerows.tables_of(counted.counts, now)
        extents = tablerows.extents_of(counted.counts)
        report = StoreReport(
            path=store.root,
            written_by=traces.written_by,
            made_timestamp=now,
            seconds=0.0,
            since_timestamp=since,
            until_timestamp=until,
            log=LogExtent(
                start_offset=start,
                end_offset=end,
                file_count=log.file_count,
                file_size=log.file_size,
                read_from=first,
                writer_pid=writer,
                is_open=is_open,
            ),
            **found,
            groups=waiting.groups(extents, counted.counts.finder.found),
            delay_levels=waiting.levels(extents, counted.counts.finder.found),
            timer=waiting.timer(extents, now),
            transactions=transactions_of(counted.counts.halves, waiting.finished_below(), log),
            retries=waiting.retries(found["topics"], extents),
            plugins=plugins,
            damages=tuple(tablerows.damage_document(each, store) for each in counted.damages),
            damage_count=counted.damage_count,
            damaged_size=counted.damaged_size,
            loss_count=_known_losses(store.losses(), counted.damages),
            disk=traces.sizes(),
            problems=tuple(problems),
            notes=tuple(
                tablerows.notes_of(counted, waiting, is_part=first != start, in_rocksdb=in_rocksdb)
            ),
            concerns=(),
        )
        seconds = time.monotonic() - begun
        return attrs.evolve(report, seconds=seconds, concerns=tuple(concerns_of(report)))


def _known_losses(losses: Iterable[Loss], damages: Iterable[Damage]) -> int:
    """Return how many losses were known before this look at the log."""
    found = {damage.start_offset for damage in damages}
    return sum(1 for loss in losses if loss.start_offset not in found)
