"""The work of one process in a rebuild: reads splits, builds tasks, or builds a plugin in order.

A process opens the log and the plugins itself, from a `Job` of plain values, so that no open file
is ever sent. Plugins that enrich batches are opened as in a read-only store: plugins that are built
get the same batches as in an open store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from reput.errors import CorruptFileError, PluginError
from reput.files import Disk, FilePool, system_clock
from reput.log import (
    LOG_SECTION,
    SKIPPED,
    CommitLogConfig,
    LogEnd,
    LogReader,
    Loss,
    LossLedger,
    QueueFloors,
    StateFile,
    files_grow,
    log_files,
)
from reput.plugin import PluginSet, StoreContext, build_config
from reput.record import CorruptionKind
from reput_tools.offline.contract.shards import NotSplittableError
from reput_tools.offline.logsplits import Split, read_split
from reput_tools.offline.offlinehooks import offline_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from reput.record import DispatchBatch
    from reput_tools.offline.contract.shards import ShardBuilder, ShardScan

_WINDOW_SIZE = 4 << 20
_FILES_OPEN = 16


@attrs.frozen(kw_only=True)
class Job:
    """What a process must know to take part; plain values that can be sent."""

    root: str
    """The store's directory."""
    file_size: int
    """Bytes of a commit-log file."""
    start_offset: int
    end_offset: int
    """Physical offset at which the valid log ends."""
    plugins: tuple[str, ...]
    """All plugins that the store uses."""
    sections: Mapping[str, Mapping[str, Any]]
    """Configuration sections of the log and the plugins."""
    staging: str
    """Directory below which all is written; used by this job alone."""
    scratch: str = ""
    """Directory outside of the store that has ``staging``; empty if the store has it."""
    follow_links: bool = False
    """As for `reput.open`."""
    queue_floors: Mapping[tuple[str, int], int] = attrs.field(factory=dict)
    """Lowest next queue offsets (`reput.log.writer.queueoffsets`); the log may not show them."""
    damaged: tuple[tuple[int, int], ...] = ()
    """Ranges of physical offsets whose records are passed over though no loss is recorded; for a
    comparison only."""
    passes_over_damage: bool = False
    """Whether files of the log may be short, long or missing."""
    is_check: bool = False
    """Whether files are only compared, so that what plugins warn of is told as a difference."""

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return self.end_offset - self.start_offset


class Worker:
    """The log and the plugins of one store, opened in one process for one task."""

    def __init__(self, job: Job, disk: Disk | None = None) -> None:
        self.job = job
        self.disk = disk or Disk().at(job.root, follow_links=job.follow_links, scratch=job.scratch)
        self._pool = FilePool(self.disk, _FILES_OPEN)
        self._grows = files_grow(job.sections)
        files = log_files(job.root, job.file_size, self.disk, self._pool, grows=self._grows)
        passes_over = (lambda text: None) if job.passes_over_damage else None
        files.load(writable=False, damaged=passes_over)
        ledger = LossLedger(StateFile.of(job.root, self.disk), system_clock)
        ledger.load(writable=False)
        for start, end in job.damaged:
            # In memory only: plugins then keep the places of what cannot be read.
            ledger.note(Loss(start, end, CorruptionKind.BAD_MAGIC.name, action=SKIPPED))
        self.log = LogReader(files, _WINDOW_SIZE, ledger=ledger, end=LogEnd(job.end_offset))
        self.plugins = PluginSet(job.plugins, job.sections)
        options = job.sections.get(LOG_SECTION, {})
        log_config: CommitLogConfig = build_config(CommitLogConfig, LOG_SECTION, options)
        self._light_queues = log_config.max_light_queues > 0
        self._opened: set[str] = set()
        self._enrichers = self.plugins.having("enrich")

    def close(self) -> None:
        """Close the log and the plugins."""
        for name, close in self.plugins.having("close"):
            if name in self._opened:
                close()
        self._pool.close()

    # ------------------------------------------------------------------ in parts

    def builders(self, names: Iterable[str]) -> dict[str, ShardBuilder]:
        """Return builders of those plugins that can be built in parts."""
        made: dict[str, ShardBuilder] = {}
        for name in names:
            hooks = offline_hooks(name, self.plugins.plugins[name])
            context = self._context(name, root=self.job.root, writable=False)
            builder = hooks.reput_tools_shards(context=context)
            if builder is not None:
                made[name] = builder
        return made

    def scan(
        self, split: Split, staging: Mapping[str, str], report: Callable[[int], None]
    ) -> tuple[int, dict[str, Any]]:
        """Read one split for some plugins, decoding it once.

        Args:
            split: the split.
            staging: by plugin, the directory into which it writes.
            report: called with the number of bytes read.

        Returns:
            Number of messages; by plugin the result of its scan, or why it cannot be built in
            parts.
        """
        builders = self.builders(staging)
        scans = {name: builders[name].begin(split, staging[name]) for name in staging}
        results: dict[str, Any] = {}
        count = 0
        try:
            for batch in self._enriched(read_split(self.log, split)):
                count += len(batch)
                self._add(batch, scans, results)
                report(batch.end_offset - split.start_offset)
        except CorruptFileError as error:
            # Reading in order gets past the damage, or says what to do.
            return count, {name: NotSplittableError(name, str(error)) for name in staging}
        results.update((name, scan.finish()) for name, scan in scans.items())
        return count, results

    def _add(
        self, batch: DispatchBatch, scans: dict[str, ShardScan], results: dict[str, Any]
    ) -> None:
        for name, scan in list(scans.items()):
            try:
                scan.add(batch)
            except NotSplittableError as error:
                results[name] = error
                del scans[name]

    def build(self, name: str, task: Any, staging: str) -> Any:
        """Run one task of one plugin's plan."""
        return self.builders([name])[name].build(task, staging)

    # ------------------------------------------------------------------ in order

    def build_in_order(self, name: str, root: str, report: Callable[[int], None]) -> int:
        """Dispatch the whole log to one plugin in a new directory; return the message count.

        Args:
            name: the plugin.
            root: an empty directory, so that the plugin starts at the log's beginning.
            report: called with the number of bytes dispatched.

        Raises:
            CorruptFileError: damage that no opening has found yet, so that what is lost there is
                not recorded.
        """
        hooks = self.plugins.hooks[name]
        if hooks.dispatch is None:
            raise PluginError(name, "it derives nothing from the log, so nothing can be rebuilt")
        begins = self.job.start_offset
        if hooks.open is not None:
            hooks.open(context=self._context(name, root=root, writable=True))
        self._opened.add(name)
        if hooks.recover is not None:
            hooks.recover(max_physical_offset=self.job.end_offset, progress=begins)
        count = 0
        for batch in self._enriched(self._sound(name)):
            hooks.dispatch(batch=batch)
            count += len(batch)
            report(batch.end_offset - begins)
        if hooks.queue_offsets is not None:
            hooks.queue_offsets()  # as an opening asks plugins that have all of the log
        if hooks.flush is not None:
            hooks.flush()
        return count

    def _sound(self, name: str) -> Iterator[DispatchBatch]:
        """Yield the whole log, without ranges that are recorded as lost."""
        for batch in self.log.scan(self.job.start_offset, self.job.end_offset):
            if batch.finding is not None and not self.log.losses(
                batch.finding.physical_offset, batch.finding.physical_offset + 1
            ):
                path, at = self.log.path_of(batch.finding.physical_offset)
                raise CorruptFileError(
                    path,
                    at,
                    f"{batch.finding}; `reput backfill {self.job.root} {name} --from-start` notes "
                    "what is lost and goes on after it",
                )
            yield batch

    # ------------------------------------------------------------------ parts

    def _enriched(self, batches: Iterator[DispatchBatch]) -> Iterator[DispatchBatch]:
        for batch in batches:
            if not len(batch):
                continue
            for name, enrich in self._enrichers:
                self._open(name)
                columns = enrich(batch=batch)
                if columns:
                    batch = batch.with_columns(columns)
            yield batch

    def _open(self, name: str) -> None:
        """Open a plugin that enriches, as in a read-only store."""
        if name in self._opened:
            return
        self._opened.add(name)
        hooks = self.plugins.hooks[name]
        if hooks.open is not None:
            hooks.open(context=self._context(name, root=self.job.root, writable=False))
        if hooks.recover is not None:
            hooks.recover(max_physical_offset=self.job.end_offset, progress=self.job.end_offset)

    def _context(self, name: str, *, root: str, writable: bool) -> StoreContext:
        return StoreContext(
            plugin=name,
            root=root,
            writable=writable,
            clean=True,
            log=self.log,
            disk=self.disk,
            clock=system_clock,
            grows=self._grows,
            light_queues=self._light_queues,
            queue_floors=QueueFloors.of(self.job.queue_floors),
            sizes_from="" if root == self.job.root else self.job.root,
        )
