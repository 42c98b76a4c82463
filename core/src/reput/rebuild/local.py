"""Drives a rebuild on the cores of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import attrs

from reput.checkpoint import StoreLock
from reput.disk import Disk
from reput.errors import CorruptFileError, PluginError, StoreNotFoundError
from reput.manifest import OWN_DIRECTORY, Manifest
from reput.pluginset import PluginSet
from reput.rebuild.publish import publish, remove_tree, staging_directory
from reput.rebuild.shards import NotSplittableError
from reput.rebuild.splits import SPLIT_SIZE, Split, plan_splits
from reput.rebuild.worker import Job, Scanned, Worker
from reput.storeconfig import decide

if TYPE_CHECKING:
    from reput.logreader import CommitLogReader
    from reput.rebuild.shards import ShardBuilder

__all__ = ["Rebuilt", "rebuild"]

_SPLITS_PER_JOB = 3  # so that a slow split at the end keeps one core waiting, not all


@attrs.frozen
class Rebuilt:
    """How one plugin's files were built."""

    plugin: str
    message_count: int
    size: int
    """Bytes of the log."""
    split_count: int
    """Splits that were read side by side; 1 when it was built in one piece."""
    seconds: float
    reason: str | None = None
    """Why it was built in one piece, where it could not be otherwise."""


def rebuild(
    path: str | os.PathLike[str],
    plugins: Sequence[str] = (),
    *,
    jobs: int | None = None,
    split_size: int = SPLIT_SIZE,
    progress: Callable[[int, int], None] | None = None,
    disk: Disk | None = None,
) -> list[Rebuilt]:
    """Build the files of plugins anew from the log, and put them in the place of the old ones.

    The store must not be open for writing anywhere. Until the end the old files stay as they are;
    a crash in the last moment leaves plugins that derive their files anew at the next opening.

    Args:
        path: the store's directory.
        plugins: names of those to rebuild, which the store uses; all that derive files and keep
            nothing else when left out.
        jobs: processes; as many as there are processors when left out, and none for 1.
        split_size: bytes of the log that a process reads at a time, about.
        progress: called with bytes of the log done and bytes in all, plugins built in one piece
            counting once more.
        disk: file operations of this process; others use the system's.

    Raises:
        StoreNotFoundError: no store there.
        StoreLockedError: somebody has it open for writing.
        PluginError: the store does not use a plugin, or nothing can be rebuilt of it.
    """
    root = os.path.abspath(os.fspath(path))
    disk = disk or Disk()
    if not disk.exists(os.path.join(root, "commitlog")):
        raise StoreNotFoundError(root, 'no store: a directory that holds "commitlog" is expected')
    lock = StoreLock(os.path.join(root, "lock"), root, disk)
    lock.acquire()
    try:
        return _Rebuild(root, disk, jobs, split_size, progress).run(plugins)
    finally:
        lock.release()


_Built = tuple[Rebuilt, Sequence[str]]
"""What came of one plugin, and the names below the staging directory that it wrote."""


class _Rebuild:
    """One rebuild under way; the store's lock is held."""

    def __init__(
        self,
        root: str,
        disk: Disk,
        jobs: int | None,
        split_size: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.root = root
        self.disk = disk
        self.jobs = max(jobs or os.cpu_count() or 1, 1)
        self.split_size = split_size
        self.progress = progress or (lambda done, total: None)
        self.staging = staging_directory(root)
        self._done = self._total = 0

    def run(self, wanted: Sequence[str]) -> list[Rebuilt]:
        from reput.opening import open_store

        manifest = Manifest.load(self.root, self.disk)
        names, sections = decide(manifest, None, {}, frozenset(), writable=False)
        known = [name for name in names if isinstance(name, str)]
        plugins = PluginSet(known, sections)
        targets = _targets(plugins, wanted)
        # Opened to be read, and so as its next writer will find it: its valid end, its damage.
        with open_store(self.root, "r", plugins=(), disk=self.disk) as store:
            log = store.log
            self._sweep()
            job = Job(
                root=self.root,
                file_size=log.file_size,
                start_offset=log.min_physical_offset,
                end_offset=log.max_physical_offset,
                plugins=tuple(known),
                sections=sections,
                staging=self.staging,
            )
            last = store.recovery.last_record_offset
            is_sound = not store.losses() and store.recovery.finding is None
            try:
                built = self._build(job, log, targets, is_sound=is_sound)
                for each, directories in built:
                    _check_directories(each.plugin, directories)
                for each, directories in built:
                    publish(self.root, each.plugin, directories, log, last, self.disk)
            finally:
                self._sweep()
        return [each for each, _ in built]

    def _sweep(self) -> None:
        """Remove what this rebuild, or an earlier one that was killed, has left."""
        remove_tree(self.staging, self.disk)

    # ------------------------------------------------------------------ building

    def _build(
        self, job: Job, log: CommitLogReader, targets: Sequence[str], *, is_sound: bool
    ) -> list[_Built]:
        """Build each plugin below the staging directory, in parts where that can be."""
        size = job.end_offset - job.start_offset
        builders = Worker(job, self.disk).builders(targets) if is_sound and self.jobs > 1 else {}
        reasons: dict[str, str | None] = {name: None for name in targets if name not in builders}
        if not is_sound:
            reasons = dict.fromkeys(targets, "the log has lost records")
        self._total = size * (bool(builders) + len(reasons))
        built: list[_Built] = []
        if builders:
            with self._pool(job) as pool:
                built, unlike = self._build_in_parts(job, pool, log, builders)
            self._total += size * len(unlike)
            reasons.update(unlike)
        return built + [self._build_in_order(job, name, why) for name, why in reasons.items()]

    def _build_in_parts(
        self,
        job: Job,
        pool: ProcessPoolExecutor,
        log: CommitLogReader,
        builders: dict[str, ShardBuilder],
    ) -> tuple[list[_Built], dict[str, str]]:
        """What was built, and of the others why it could not be in parts."""
        started = time.monotonic()
        splits = plan_splits(log, self._size_of_splits(job))
        try:
            scanned = self._run(
                pool, [(_scan, split, list(builders)) for split in splits], self._scanned
            )
        except CorruptFileError as error:
            for builder in builders.values():
                self._discard(builder)
            return [], dict.fromkeys(builders, str(error))
        built: list[_Built] = []
        unlike: dict[str, str] = {}
        for name, builder in builders.items():
            try:
                self._complete(pool, name, builder, [each.results[name] for each in scanned])
            except NotSplittableError as error:
                unlike[name] = error.reason
                self._discard(builder)
                continue
            count = sum(each.message_count for each in scanned)
            size = job.end_offset - job.start_offset
            done = Rebuilt(name, count, size, len(splits), time.monotonic() - started)
            built.append((done, builder.directories))
        return built, unlike

    def _discard(self, builder: ShardBuilder) -> None:
        for directory in builder.directories:
            remove_tree(os.path.join(self.staging, directory), self.disk)

    def _complete(
        self, pool: ProcessPoolExecutor, name: str, builder: ShardBuilder, results: list[Any]
    ) -> None:
        failure = next((each for each in results if isinstance(each, NotSplittableError)), None)
        if failure is not None:
            raise failure
        tasks = builder.plan(results)
        built = self._run(pool, [(_build, name, task) for task in tasks])
        builder.finish(results, built, self.staging)

    def _size_of_splits(self, job: Job) -> int:
        """Smaller than asked for where there would not be enough for every process."""
        even = (job.end_offset - job.start_offset) // (self.jobs * _SPLITS_PER_JOB)
        return max(min(self.split_size, even), 1 << 20)

    def _scanned(self, result: Scanned) -> None:
        self._advance(result.split.size)

    def _run(
        self,
        pool: ProcessPoolExecutor,
        calls: Sequence[tuple[Any, ...]],
        after: Callable[[Any], None] = lambda result: None,
    ) -> list[Any]:
        """Results of all calls, in their order."""
        futures = [pool.submit(*call) for call in calls]
        waiting = set(futures)
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    after(future.result())
        except BaseException:
            for future in waiting:
                future.cancel()
            wait(waiting)  # those under way still write where somebody is about to clear up
            raise
        return [future.result() for future in futures]

    def _build_in_order(self, job: Job, name: str, reason: str | None) -> _Built:
        started, begin = time.monotonic(), self._done
        own = attrs.evolve(job, staging=os.path.join(self.staging, "in-order", name))
        self.disk.make_directory(own.staging)

        def report(offset: int) -> None:
            self._advance(begin + offset - job.start_offset - self._done)

        count = Worker(own, self.disk).build_in_order(name, report)
        # What a plugin keeps in the store's own directory is for the time of its work only.
        found = [entry.name for entry in self.disk.list(own.staging)]
        directories = [name for name in found if name != OWN_DIRECTORY]
        for directory in directories:
            target = os.path.join(self.staging, directory)
            self.disk.rename(os.path.join(own.staging, directory), target)
        size = job.end_offset - job.start_offset
        seconds = time.monotonic() - started
        return Rebuilt(name, count, size, 1, seconds, reason), directories

    def _advance(self, size: int) -> None:
        self._done += size
        self.progress(self._done, self._total)

    @contextlib.contextmanager
    def _pool(self, job: Job) -> Iterator[ProcessPoolExecutor]:
        # Spawned, not forked: whoever calls this may have threads, and locks that they hold.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(
            self.jobs, mp_context=context, initializer=_begin, initargs=(job,)
        ) as pool:
            yield pool


_NOT_DERIVED = frozenset({"commitlog", "config", OWN_DIRECTORY, "checkpoint", "abort", "lock"})


def _check_directories(plugin: str, names: Sequence[str]) -> None:
    """Refuse to replace what is not the plugin's alone."""
    for name in names:
        if name in _NOT_DERIVED:
            raise PluginError(plugin, f"it writes to {name!r}, which others use, too")


def _targets(plugins: PluginSet, wanted: Sequence[str]) -> list[str]:
    """Plugins to rebuild, in dispatch order.

    Raises:
        PluginError: one of those named cannot be rebuilt; the text says why.
    """
    deriving = {name for name, _ in plugins.implementing("reput_dispatch")}
    acting = {name for name, _ in plugins.implementing("reput_work")}
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


# ---------------------------------------------------------------------- in the other processes

_worker: Worker | None = None


def _begin(job: Job) -> None:
    global _worker
    _worker = Worker(job)


def _scan(split: Split, names: Sequence[str]) -> Scanned:
    assert _worker is not None
    return _worker.scan(split, names)


def _build(name: str, task: Any) -> Any:
    assert _worker is not None
    return _worker.build(name, task)
