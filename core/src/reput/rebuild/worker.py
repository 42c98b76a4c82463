"""What one process does of a rebuild: reads splits, builds tasks, or builds a plugin in order.

A process opens the log and the plugins for itself, from a `Job` of plain values, so that nothing
that is open is ever sent. Plugins that enrich batches are opened as in a read-only store: those
that are built see what they would have seen live.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import attrs

from reput.clock import system_clock
from reput.context import StoreContext
from reput.disk import Disk, FilePool
from reput.errors import CorruptFileError, PluginError
from reput.logreader import CommitLogReader
from reput.losses import LossLedger
from reput.pluginset import PluginSet
from reput.rebuild.shards import NotSplittableError
from reput.rebuild.splits import Split, read_split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from reput.batch import DispatchBatch
    from reput.rebuild.shards import ShardBuilder

__all__ = ["Job", "Scanned", "Worker"]

_WINDOW_SIZE = 4 << 20
_FILES_OPEN = 16


@attrs.frozen(kw_only=True)
class Job:
    """What a process must know to take part; plain values, made to be sent."""

    root: str
    """The store's directory."""
    file_size: int
    """Bytes of a commit-log file."""
    start_offset: int
    end_offset: int
    """The valid log."""
    plugins: tuple[str, ...]
    """All that the store uses."""
    sections: Mapping[str, Mapping[str, Any]]
    """Their configuration."""
    staging: str
    """Where everything is written."""


@attrs.frozen
class Scanned:
    """What came of one split."""

    split: Split
    message_count: int
    results: Mapping[str, Any]
    """By plugin: what its scan returned, or why it cannot be built in parts."""


class Worker:
    """The log and the plugins of one store, open in one process."""

    def __init__(self, job: Job, disk: Disk | None = None) -> None:
        self.job = job
        self.disk = disk or Disk()
        pool = FilePool(self.disk, _FILES_OPEN)
        directory = os.path.join(job.root, "commitlog")
        self.log = CommitLogReader(directory, job.file_size, self.disk, pool, _WINDOW_SIZE)
        self.log.files.load(writable=False)
        self.log.set_end(job.end_offset)
        self.log.ledger = LossLedger(job.root, self.disk, system_clock)
        self.log.ledger.load(writable=False)
        self.plugins = PluginSet(job.plugins, job.sections)
        self._opened: set[str] = set()
        self._enrichers = self.plugins.implementing("reput_enrich")

    # ------------------------------------------------------------------ in parts

    def builders(self, names: Sequence[str]) -> dict[str, ShardBuilder]:
        """Those of these plugins that can be built in parts."""
        offered = dict(self.plugins.implementing("reput_shards"))
        made = {
            name: offered[name](context=self._context(name, root=self.job.root, writable=False))
            for name in names
            if name in offered
        }
        return {name: builder for name, builder in made.items() if builder is not None}

    def scan(self, split: Split, names: Sequence[str]) -> Scanned:
        """Read one split for some plugins, decoding it once.

        Raises:
            CorruptFileError: the split has no sound end; see `read_split`.
        """
        staging = self.job.staging
        scans = {n: each.begin(split, staging) for n, each in self.builders(names).items()}
        results: dict[str, Any] = {}
        count = 0
        for batch in self._enriched(read_split(self.log, split)):
            count += len(batch)
            for name, scan in list(scans.items()):
                try:
                    scan.add(batch)
                except NotSplittableError as error:
                    results[name] = error
                    del scans[name]
        results.update((name, scan.finish()) for name, scan in scans.items())
        return Scanned(split, count, results)

    def build(self, name: str, task: Any) -> Any:
        """Build one task of one plugin's plan."""
        return self.builders([name])[name].build(task, self.job.staging)

    # ------------------------------------------------------------------ in order

    def build_in_order(self, name: str, report: Callable[[int], None] = lambda done: None) -> int:
        """Have one plugin dispatch the whole log into the staging directory; messages seen.

        Args:
            name: the plugin.
            report: called with the physical offset reached, batch by batch.

        Raises:
            CorruptFileError: damage that no opening has found yet, so that nobody has noted what is
                lost there.
        """
        plugins = self.plugins
        hooks = {
            hook: dict(plugins.implementing(hook)).get(name)
            for hook in ("reput_open", "reput_recover", "reput_dispatch", "reput_flush")
        }
        closing = dict(plugins.implementing("reput_close")).get(name)
        dispatch = hooks["reput_dispatch"]
        if dispatch is None:
            raise PluginError(name, "it derives nothing from the log, so nothing can be rebuilt")
        # A root of its own: the plugin finds nothing there, and so begins at the beginning.
        context = self._context(name, root=self.job.staging, writable=True)
        begins = self.job.start_offset
        if hooks["reput_open"] is not None:
            hooks["reput_open"](context=context)
        self._opened.add(name)
        if hooks["reput_recover"] is not None:
            hooks["reput_recover"](max_physical_offset=self.job.end_offset, progress=begins)
        count = 0
        for batch in self._enriched(self.log.scan(begins, self.job.end_offset)):
            if batch.finding is not None:
                path, at = self.log.path_of(batch.finding.physical_offset)
                raise CorruptFileError(
                    path,
                    at,
                    f"{batch.finding}; `reput backfill {self.job.root} {name} --from-start` notes "
                    "what is lost and goes on behind it",
                )
            if len(batch):
                dispatch(batch=batch)
            count += len(batch)
            report(batch.end_offset)
        for hook in (hooks["reput_flush"], closing):
            if hook is not None:
                hook()
        return count

    # ------------------------------------------------------------------ parts

    def _enriched(self, batches: Iterator[DispatchBatch]) -> Iterator[DispatchBatch]:
        for batch in batches:
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
        for hook in ("reput_open", "reput_recover"):
            function = dict(self.plugins.implementing(hook)).get(name)
            if function is None:
                continue
            if hook == "reput_open":
                function(context=self._context(name, root=self.job.root, writable=False))
            else:
                end = self.job.end_offset
                function(max_physical_offset=end, progress=end)

    def _context(self, name: str, *, root: str, writable: bool) -> StoreContext:
        return StoreContext(
            plugin=name,
            root=root,
            writable=writable,
            clean=True,
            log=self.log,
            disk=self.disk,
            clock=system_clock,
            old_root="" if root == self.job.root else self.job.root,
        )
