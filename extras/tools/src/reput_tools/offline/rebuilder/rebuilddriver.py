"""Runs a rebuild from the store's lock to the exchange of files, on any engine.

Tasks run in two rounds. First every split is read for the plugins that are built in parts, while
each plugin that is built in order has a process. Then the tasks that plugins have planned are run,
beside plugins that the first round has shown to need building in order after all.
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from reput.errors import CorruptFileError, PluginError, ReputError
from reput.files import OWN_DIRECTORY, Disk, system_clock
from reput.log import QueueFloors, files_grow
from reput.plugin import PluginSet, StoreContext
from reput_tools.offline.closedstore.lockedstore import lock_store
from reput_tools.offline.contract.comparison import Comparison, Difference
from reput_tools.offline.contract.shards import NotSplittableError
from reput_tools.offline.logsplits import SPLIT_SIZE, plan_splits
from reput_tools.offline.offlinehooks import offline_hooks
from reput_tools.offline.rebuilder.explain import explained
from reput_tools.offline.rebuilder.filecompare import built_sizes, compare, extent
from reput_tools.offline.rebuilder.rebuildtasks import (
    BuildTask,
    Ordered,
    OrderTask,
    Scanned,
    ScanTask,
    parts_directory,
    run_task,
)
from reput_tools.offline.rebuilder.rebuildworker import Job, Worker
from reput_tools.offline.rebuilder.stagingarea import StagingArea

if TYPE_CHECKING:
    from pluggy import HookRelay

    from reput.log import LogReader
    from reput_tools.offline.closedstore.lockedstore import ClosedStore
    from reput_tools.offline.contract.comparison import Compared, TouchedMessage
    from reput_tools.offline.contract.shards import ShardBuilder
    from reput_tools.offline.taskengine.engine import Engine

logger = logging.getLogger(__name__)

_SPLITS_PER_JOB = 3  # so that a slow last split keeps one core waiting, not all
_SPLIT_MIN = 1 << 20
_FILES_EXPLAINED = 10  # as many differences, times the limit of one file, are explained


@attrs.frozen
class Rebuilt:
    """How the files of one plugin were built."""

    plugin: str
    message_count: int
    size: int
    """Bytes of the log."""
    split_count: int
    """Splits that were read side by side; 1 if the plugin was built in one piece."""
    seconds: float
    reason: str | None = None
    """Why it was built in one piece, if that was not its usual way."""
    differences: tuple[Difference, ...] | None = None
    """Where the store's files differ from those built; None unless only a comparison was asked."""
    built_sizes: Mapping[str, int] = attrs.field(factory=dict)
    """Sizes of rebuilt files, bytes, by the path of the store's file that differs from each."""
    not_compared: tuple[str, ...] = ()
    """What in the store's files does not follow from the log, each with the reason."""
    more_count: int = 0
    """Differences that are not listed, as there are very many."""
    compared_count: int = 0
    """Files that were compared, and their bytes."""
    compared_size: int = 0
    lost: tuple[TouchedMessage, ...] = ()
    """Messages in damaged ranges of the log that the store's files know."""
    assumed: tuple[str, ...] = ()
    """What had to be assumed, as neither the store nor the caller says it."""


def run_rebuild(
    path: str | os.PathLike[str],
    plugins: Sequence[str],
    engine: Engine,
    *,
    split_size: int = SPLIT_SIZE,
    progress: Callable[[int, int], None] | None = None,
    check: bool = False,
    disk: Disk | None = None,
    follow_links: bool = False,
    config: Mapping[str, Mapping[str, Any]] | None = None,
    limit: int = 1,
    explains: bool = False,
    damaged: Sequence[tuple[int, int]] = (),
    end_offset: int | None = None,
) -> list[Rebuilt]:
    """Rebuild files of plugins; see `reput_tools.offline.rebuild`.

    Args:
        path: the store's directory, the same path for all processes that run tasks.
        plugins: names; if empty, all plugins whose files follow from the log alone.
        engine: runs the tasks.
        split_size: bytes of the log that one task reads, roughly.
        progress: called with bytes done and bytes in all; both may grow.
        check: compare what is built with the files that are there, and change nothing.
        disk: file operations of this process.
        follow_links: as for `reput.open`.
        config: options of plugins, by section.
        limit: with ``check``, how many differences of each file are wanted.
        explains: with ``check``, whether to say what was found and expected where files differ, and
            which messages are touched; log files of a wrong size are not an error then.
        damaged: with ``check``, ranges of physical offsets whose records cannot be read, ascending:
            the comparison goes on without them. Other damage is an error.
        end_offset: with ``check``, the end of a record up to which files are built and compared, of
            plugins that have not come further; the log's end when left out.

    Raises:
        ValueError: one of the last four without ``check``.
    """
    if not check and (limit != 1 or explains or damaged or end_offset is not None):
        raise ValueError("these options apply to a comparison only: use them with check=True")
    look = _Look(limit, explains, tuple(damaged), end_offset) if check else None
    with lock_store(
        path, writes=not check, derived=True, disk=disk, follow_links=follow_links
    ) as closed:
        return _Rebuild(closed, engine, split_size, progress, look, config or {}).run(plugins)


@attrs.frozen
class _Look:
    """How files are compared, where nothing is to be replaced."""

    limit: int
    explains: bool
    damaged: tuple[tuple[int, int], ...]
    end_offset: int | None


@attrs.frozen
class _Built:
    """The result for one plugin, and the directory of its files."""

    facts: Rebuilt
    directory: str
    names: Sequence[str]


class _Rebuild:
    """One rebuild in progress; the store's lock is held."""

    def __init__(
        self,
        closed: ClosedStore,
        engine: Engine,
        split_size: int,
        progress: Callable[[int, int], None] | None,
        look: _Look | None,
        config: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.closed = closed
        self.root = closed.root
        self.config = config
        self.disk = closed.disk
        self.engine = engine
        self.split_size = split_size
        self.look = look
        self.check = look is not None
        self._progress = progress or (lambda done, total: None)
        self._done = self._planned = 0
        self._started = time.monotonic()

    def run(self, wanted: Sequence[str]) -> list[Rebuilt]:
        manifest, sections = self.closed.manifest, self.closed.sections(self.config)
        self.plugins = self.closed.plugins(self.config)
        targets = _targets(self.plugins, wanted)
        log = self.closed.log
        end = log.max_physical_offset
        if self.look is not None and self.look.end_offset is not None:
            end = max(min(end, self.look.end_offset), log.min_physical_offset)
        area = StagingArea(self.root, self.disk, is_check=self.check, is_local=self.engine.is_local)
        self.disk = area.disk
        try:
            self.job = Job(
                root=self.root,
                file_size=log.file_size,
                start_offset=log.min_physical_offset,
                end_offset=end,
                plugins=tuple(self.plugins.plugins),
                sections=sections,
                staging=area.own,
                scratch=area.scratch,
                follow_links=self.disk.follows_links,
                queue_floors=self._floors(log, sections),
                damaged=() if self.look is None else self.look.damaged,
                passes_over_damage=self.look is not None and self.look.explains,
                is_check=self.check,
            )
            built = self._build(log, targets, is_sound=self.closed.is_sound)
            _check_names(built)
            if self.check:
                named = frozenset(manifest.plugins if manifest is not None else ())
                named |= self.config.keys()
                return [self._compared(each, log, named) for each in built]
            for each in built:
                plugin = each.facts.plugin
                aside = os.path.join(area.directory, "old", plugin)
                self.closed.replace_directories(plugin, each.directory, each.names, aside=aside)
            assumed = self._assumed() if manifest is None else ()
        finally:
            area.clear()
        return [attrs.evolve(each.facts, assumed=assumed) for each in built]

    def _assumed(self) -> tuple[str, ...]:
        """Return what decides the bytes built and is recorded nowhere: RocketMQ's options."""
        return tuple(
            f"the options of {name} are the usual ones; the store does not say what they were"
            for name, _ in self.plugins.having("enrich")
            if name not in self.config
        )

    def _floors(self, log: LogReader, sections: Mapping[str, Any]) -> Mapping[tuple[str, int], int]:
        """Return the next queue offsets: recorded, or shown by the old files alone.

        They are recorded before the old files go: RocketMQ may have removed messages without a
        record.
        """
        floors = QueueFloors(self.closed.state_file, writable=not self.check)
        found = PluginSet(self.plugins.plugins, sections)
        for name, hooks in found.hooks.items():
            if hooks.queue_offsets is None:
                continue
            context = StoreContext(
                plugin=name,
                root=self.root,
                writable=False,
                clean=False,
                log=log,
                disk=self.disk,
                clock=system_clock,
                grows=files_grow(sections),
                queue_floors=floors,
            )
            end = log.max_physical_offset
            try:
                if hooks.open is not None and hooks.recover is not None:
                    hooks.open(context=context)
                    hooks.recover(max_physical_offset=end, progress=end)
            except CorruptFileError as error:
                # Damage is why many rebuilds are asked for; the recorded queue offsets count.
                logger.warning("queue offsets of the old files not known error=%s", error)
            finally:
                if hooks.close is not None:
                    hooks.close()
        return floors.known

    def _compared(self, built: _Built, log: LogReader, named: frozenset[str]) -> Rebuilt:
        assert self.look is not None
        name, names, limit = built.facts.plugin, built.names, self.look.limit
        hooks = offline_hooks(name, self.plugins.plugins[name])
        by_clock = frozenset(hooks.reput_tools_named_by_clock() or ())
        found = tuple(compare(self.root, built.directory, names, self.disk, by_clock, limit))
        comparison = Comparison(
            self.root,
            built.directory,
            log,
            self.disk,
            named,
            limit,
            self.look.damaged,
            self.job.end_offset,
        )
        sizes = built_sizes(built.directory, found, self.disk)
        weighed = _weighed(name, hooks, comparison, found) if found else None
        told: tuple[str, ...] = ()
        lost: tuple[TouchedMessage, ...] = ()
        if weighed is not None:
            found, told, lost = weighed.differences, weighed.not_compared, weighed.lost
        more = max(len(found) - _FILES_EXPLAINED * limit, 0)
        if self.look.explains and found:
            found = explained(hooks, comparison, found[: len(found) - more])
        count, size = extent(built.directory, names, self.disk)
        return attrs.evolve(
            built.facts,
            differences=found,
            built_sizes=sizes,
            not_compared=told,
            lost=lost,
            more_count=more if self.look.explains else 0,
            compared_count=count,
            compared_size=size,
        )

    # ------------------------------------------------------------------ rounds

    def _build(self, log: LogReader, targets: Sequence[str], *, is_sound: bool) -> list[_Built]:
        """Build each plugin in the staging area, in parts if possible; in order of ``targets``."""
        builders: dict[str, ShardBuilder] = {}
        reasons: dict[str, str | None] = dict.fromkeys(targets)
        if not is_sound or self.job.damaged:
            reasons = dict.fromkeys(targets, "the log has lost records")
        elif self.engine.splits:
            worker = Worker(self.job, self.disk)
            builders = worker.builders(targets)
            worker.close()
            reasons = {name: None for name in targets if name not in builders}
        splits = []
        if builders:
            splits = plan_splits(log, self._size_of_splits(), end=self.job.end_offset)
        scans = [ScanTask(split, tuple(builders)) for split in splits]
        # Plugins built in one piece first: they take longest.
        found = self._run([*self._in_order(reasons), *scans])
        built = {each.plugin: self._ordered(each, reasons) for each in found[: len(reasons)]}
        scanned: list[Scanned] = found[len(reasons) :]
        built.update(self._second_round(builders, scanned, len(splits)))
        return [built[name] for name in targets]

    def _second_round(
        self, builders: dict[str, ShardBuilder], scanned: list[Scanned], split_count: int
    ) -> dict[str, _Built]:
        plans: dict[str, Sequence[Any]] = {}
        unlike: dict[str, str | None] = {}
        for name, builder in builders.items():
            try:
                plans[name] = _plan(name, builder, scanned)
            except NotSplittableError as error:
                unlike[name] = error.reason
        tasks = [task for name, plan in plans.items() for task in self._build_tasks(name, plan)]
        found = self._run([*self._in_order(unlike), *tasks])
        built = {each.plugin: self._ordered(each, unlike) for each in found[: len(unlike)]}
        results = iter(found[len(unlike) :])
        count = sum(each.message_count for each in scanned)
        for name, plan in plans.items():
            directory = parts_directory(self.job, name)
            self.disk.make_directory(directory)
            own = [next(results) for _ in plan]
            builders[name].finish([each.results[name] for each in scanned], own, directory)
            seconds = time.monotonic() - self._started
            facts = Rebuilt(name, count, self.job.size, split_count, seconds)
            built[name] = _Built(facts, directory, builders[name].directories)
        return built

    def _in_order(self, reasons: dict[str, str | None]) -> list[OrderTask]:
        return [OrderTask(name, self.job.size) for name in reasons]

    def _build_tasks(self, name: str, plan: Sequence[Any]) -> list[BuildTask]:
        size = self.job.size // max(len(plan), 1)
        return [BuildTask(name, number, task, size) for number, task in enumerate(plan)]

    def _ordered(self, found: Ordered, reasons: dict[str, str | None]) -> _Built:
        # What a plugin keeps in the store's own directory is needed only while it works.
        names = [entry.name for entry in self.disk.list(found.directory)]
        names = [name for name in names if name != OWN_DIRECTORY]
        reason = reasons[found.plugin]
        seconds, size = found.seconds, self.job.size
        facts = Rebuilt(found.plugin, found.message_count, size, 1, seconds, reason)
        return _Built(facts, found.directory, names)

    def _run(self, tasks: Sequence[ScanTask | BuildTask | OrderTask]) -> list[Any]:
        """Return the results of all tasks, in order."""
        if not tasks:
            return []
        begin = self._done
        self._planned += sum(task.size for task in tasks)

        def told(size: int) -> None:
            self._done = begin + size
            self._progress(self._done, self._planned)

        # Only tasks that run in this process can use a disk of the caller's.
        disk = self.disk if self.engine.is_here else None
        return self.engine.run(functools.partial(_do, self.job, disk), tasks, told)

    def _size_of_splits(self) -> int:
        """Smaller than asked for where there would be too few splits for all processes."""
        even = self.job.size // (self.engine.parallelism * _SPLITS_PER_JOB)
        return max(min(self.split_size, even), _SPLIT_MIN)


def _weighed(
    name: str, hooks: HookRelay, comparison: Comparison, found: Sequence[Difference]
) -> Compared | None:
    """Return what a plugin makes of differences; whatever it raises is an error of that plugin."""
    try:
        weighed: Compared | None = hooks.reput_tools_compare(
            comparison=comparison, differences=found
        )
        return weighed
    except (ReputError, OSError):
        raise
    except Exception as error:
        reason = f"its files cannot be compared: {type(error).__name__}: {error}"
        raise PluginError(name, reason) from error


def _do(job: Job, disk: Disk | None, task: Any, report: Callable[[int], None]) -> Any:
    if job.is_check and disk is None:
        # This process was made for these tasks alone, so nobody else's lines are silenced.
        logging.disable(logging.WARNING)
    return run_task(job, task, report, disk)


def _plan(name: str, builder: ShardBuilder, scanned: Sequence[Scanned]) -> Sequence[Any]:
    results = [each.results[name] for each in scanned]
    failure = next((each for each in results if isinstance(each, NotSplittableError)), None)
    if failure is not None:
        raise failure
    return builder.plan(results)


# ---------------------------------------------------------------------- what may be rebuilt

_NOT_DERIVED = frozenset({"commitlog", "config", OWN_DIRECTORY, "checkpoint", "abort", "lock"})


def _check_names(built: Sequence[_Built]) -> None:
    """Refuse to replace a directory that is not one plugin's alone."""
    owners: dict[str, str] = {}
    for each in built:
        plugin = each.facts.plugin
        for name in each.names:
            if name in _NOT_DERIVED:
                raise PluginError(plugin, f"it writes to {name!r}, which others use, too")
            if name in owners:
                raise PluginError(plugin, f"it writes to {name!r}, as {owners[name]!r} does")
            owners[name] = plugin


def _targets(plugins: PluginSet, wanted: Sequence[str]) -> list[str]:
    """Return the plugins to rebuild, in dispatch order.

    Raises:
        PluginError: a named plugin cannot be rebuilt; the text says why.
    """
    deriving = {name for name, hooks in plugins.hooks.items() if hooks.dispatch}
    acting = {name for name, hooks in plugins.hooks.items() if hooks.work}
    for name in wanted:
        if name not in plugins.plugins:
            known = ", ".join(plugins.plugins) or "none"
            raise PluginError(name, f"the store does not use it; it uses {known}")
        if name not in deriving:
            raise PluginError(name, "it derives nothing from the log, so nothing can be rebuilt")
        if name in acting:
            raise PluginError(
                name, "it keeps more than what follows from the log, so it cannot be rebuilt"
            )
    chosen = set(wanted) or deriving - acting
    return [name for name in plugins.plugins if name in chosen]
