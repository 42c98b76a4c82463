"""`convert`: makes a plain store of a directory with a log of DLedger, or with RocksDB.

Everything is made as for a repair into a new directory: until it is complete, the directory cannot
be opened as a store. The source is only read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import attrs

import reput
from reput.errors import ReputError, UnsupportedFilesError
from reput.files import OWN_DIRECTORY
from reput.log import LOG_SECTION, LogEnd, StateFile
from reput.record.layout import INNER_BATCH
from reput.storefiles import FoundFiles, find_broker_files
from reput_tools.brokerfiles.rocksdbtables import settings_in
from reput_tools.doctor.convert.logcopy import LogCopy
from reput_tools.doctor.convert.movedids import MOVED_IDS, MovedIds
from reput_tools.doctor.convert.queuecheck import other_queues
from reput_tools.doctor.convert.settingsfiles import settings_files
from reput_tools.doctor.repair.diskspace import require_space
from reput_tools.doctor.repair.filecopy import copy_tree, tree_size
from reput_tools.doctor.repair.newstore import (
    OWN,
    close_log,
    copy_others,
    copy_samples,
    derived_names,
    derived_plugins,
    open_once,
)
from reput_tools.doctor.repair.storeplugins import plugins_of
from reput_tools.doctor.repair.unfinishedstore import Mark, begin, check_empty, end
from reput_tools.offline import Rebuilt, lock_store, rebuild

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.files import Disk
    from reput_tools.doctor.repair.loglayout import Notice
    from reput_tools.doctor.repair.planner import Step
    from reput_tools.doctor.repair.storeplugins import StorePlugins
    from reput_tools.offline import ClosedStore

_CONVERTED: Final = frozenset({"dledger", "rocksdb-queues", "rocksdb-settings", "rocksdb-tables"})
"""Kinds of `reput.storefiles.BROKER_FILES` that a plain store has in another form."""
_TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
_LEFT: Final = frozenset({"consumequeue", "consumequeue_ext", "consumequeue_rocksdb", "index"})
_EPOCHS: Final = frozenset({"epochFileCheckpoint", "epochFileCheckpoint.bak"})
"""State physical offsets at which masters changed."""
_QUEUES: Final = "consumequeue"
_COMPACTED: Final = "position-checkpoint"
_SPARE: Final = 16 << 20
_SMALL: Final = 64 << 20


@attrs.define(eq=False, slots=False)
class NotConvertibleError(ReputError):
    """There is nothing to convert, or something that would be lost; nothing was made."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: not converted: {self.reason}"


@attrs.frozen(kw_only=True)
class Converted:
    """What a conversion has done."""

    source: str
    target: str
    found: tuple[str, ...]
    """Kinds of files of a broker that were converted."""
    message_count: int
    moved_count: int
    """Messages whose physical offset, and so whose id, is another one now."""
    ids: str
    """The file with their old and new ids."""
    start_offset: int
    end_offset: int
    """Of the new log, physical offsets."""
    lost: tuple[str, ...]
    """Damage of the source, for people; the new store lacks these bytes."""
    notices: tuple[Notice, ...]
    """What could not be taken over."""
    problems: tuple[str, ...]
    """What a reader of the source must know, such as entries that may not be committed."""
    rebuilt: tuple[Rebuilt, ...]


def _silent(name: str) -> Callable[[int, int], None]:
    return lambda done, total: None


def convert(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    without_settings: bool = False,
    jobs: int | None = None,
    follow_links: bool = False,
    step: Step = _silent,
) -> Converted:
    """Make a plain store of a directory that reput reads and does not write.

    Args:
        path: the directory. No process may have it open for writing.
        target: a new or an empty directory, or one in which an earlier conversion has not ended.
        without_settings: leave out settings in RocksDB.
        jobs: processes that make plugins' files; None for one per processor.
        follow_links: as for `reput.open`.
        step: called with the name of each step; returns a callable for its progress.

    Raises:
        StoreNotFoundError: the source is not a store.
        StoreLockedError: a process has it open for writing.
        NotEmptyError: ``target`` has other files in it.
        NotConvertibleError: it is a plain store, or has files that state physical offsets.
        UnsupportedFilesError: it has files of a broker that a plain store cannot have.
        RocksDBError: settings in RocksDB cannot be read.
        ModuleNotFoundError: there are such settings, and ``rocksdict`` is not installed.
        NoSpaceError: there is too little space.
        UnsafePathError: a link below the directory.
    """
    root = os.path.abspath(os.fspath(target))
    with lock_store(path, writes=False, follow_links=follow_links) as closed:
        found = _convertible(closed)
        shown = {each.problem for each in found}
        mark = Mark(source=closed.root, target=root, command="convert")
        check_empty(mark)
        problems: list[str] = []
        settings = {}
        if not without_settings:
            settings = settings_files(closed.root, closed.disk, problems.append)
        with reput.open(closed.root, "r", plugins=(), follow_links=follow_links) as reader:
            making = _Making(closed, reader, plugins_of(closed, {}), jobs, step)
            making.check_space(root)
            disk, staging = begin(mark)
            converted = making.make(staging, disk, settings)
        end(mark, disk)
        kinds = tuple(each.row.kind for each in found)
        if "rocksdb-queues" in kinds and any(each.plugin == _QUEUES for each in converted.rebuilt):
            problems += other_queues(closed.root, root, follow_links=follow_links)
        return attrs.evolve(
            converted,
            target=root,
            ids=os.path.join(root, MOVED_IDS),
            found=kinds,
            problems=(*problems, *(each for each in converted.problems if each not in shown)),
        )


def _convertible(closed: ClosedStore) -> list[FoundFiles]:
    """Return the files of a broker that are converted."""
    found = find_broker_files(closed.root, closed.disk, closed.disk.list_names(closed.root))
    others = [each for each in found if each.row.harm and each.row.kind not in _CONVERTED]
    if others:
        raise _refused(closed.root, others)
    converted = [each for each in found if each.row.kind in _CONVERTED]
    if not converted:
        reason = "it is a plain store, or has batch queues, which reput and brokers write as it is"
        raise NotConvertibleError(closed.root, reason)
    return converted


def _refused(root: str, others: list[FoundFiles]) -> UnsupportedFilesError:
    what = "; ".join(f"{each.path}: {each.row.what}" for each in others)
    reason = "a plain store cannot have what they hold"
    return UnsupportedFilesError(root, what, reason, others[0].row.step)


@attrs.frozen(eq=False)
class _Making:
    """Makes the new store; the old one's lock is held."""

    closed: ClosedStore
    reader: reput.Store
    plugins: StorePlugins
    wanted_jobs: int | None
    step: Step

    def check_space(self, target: str) -> None:
        """Check that the disk has room for the new store, before anything is made."""
        log, disk = self.reader.log, self.closed.disk
        size = log.max_physical_offset - log.min_physical_offset
        names = [entry.name for entry in disk.list(self.closed.root)]
        others = (os.path.join(self.closed.root, each) for each in names if not self._is_log(each))
        derived = sum(tree_size(disk, each) for each in others)
        require_space(os.path.dirname(target), 2 * size + 2 * derived + _SPARE)

    def make(self, root: str, disk: Disk, settings: dict[str, bytes]) -> Converted:
        """Make the store in ``root``, an empty directory."""
        converted, copied = self._copy_log(root, disk)
        closed, plugins = self.closed, self.plugins.plugins
        if plugins and self.plugins.manifest is not None:
            self.plugins.manifest.save(StateFile.of(root, disk))
        log = self.reader.log
        close_log(
            root,
            disk,
            file_size=log.file_size,
            start=copied.start_offset,
            end=LogEnd(copied.end_offset, copied.last_record_offset, copied.last_store_timestamp),
        )
        if self.plugins.manifest is None:
            # The options of an opening; RocketMQ's files have the size that the source's have.
            sections: dict[str, Any] = {LOG_SECTION: {"file_size": log.file_size}}
        else:
            sections = {}
        self._copy_settings(root, disk, settings)  # they say which kind of queues topics have
        left = {each for each in closed.disk.list_names(closed.root) if self._is_log(each)}
        rebuilt: list[Rebuilt] = []
        derived = derived_plugins(plugins)
        if derived and converted.message_count:
            copy_samples(closed.disk, closed.root, disk, root, plugins, left)
            size = copied.end_offset - copied.start_offset
            jobs = self.wanted_jobs or (1 if size < _SMALL else None)
            progress = self.step("rebuilding")
            rebuilt = rebuild(root, derived, jobs=jobs, progress=progress, config=sections)
        left |= {*OWN, *_LEFT, *derived_names(plugins)}
        left |= _EPOCHS if converted.moved_count else frozenset()
        notices = copy_others(closed.disk, closed.root, disk, root, left)
        disk.flush_directory(root)
        if converted.message_count:
            notices += open_once(root, sections or None, self.step)
        return attrs.evolve(converted, rebuilt=tuple(rebuilt), notices=tuple(notices))

    def _is_log(self, name: str) -> bool:
        return name == "commitlog" or name.startswith("dledger-")

    def _copy_log(self, root: str, disk: Disk) -> tuple[Converted, LogCopy]:
        log, told = self.reader.log, self.step("copying")
        first, last = log.min_physical_offset, log.max_physical_offset
        count, lost, timers_move = 0, [], False
        copied = LogCopy(os.path.join(root, "commitlog"), disk, log.file_size, first)
        with MovedIds(root, disk) as ids, copied:
            for batch in log.scan(check_crc=True):
                if (batch.sys_flag & INNER_BATCH).any():
                    reason = "its log has inner batches, which a plain store cannot have"
                    raise NotConvertibleError(self.closed.root, reason)
                moved = copied.add(batch)
                ids.add(batch, moved)
                count += len(batch)
                if batch.finding is not None:
                    lost.append(str(batch.finding))
                if not timers_move and _TIMER_TOPIC in batch.topics:
                    rows = batch.topic_code == batch.topics.index(_TIMER_TOPIC)
                    timers_move = bool((moved[rows] != batch.physical_offset[rows]).any())
                told(batch.end_offset - first, last - first)
        self._check_moved(ids.count, timers_move=timers_move)
        converted = Converted(
            source=self.closed.root,
            target=root,
            found=(),
            message_count=count,
            moved_count=ids.count,
            ids="",
            start_offset=copied.start_offset,
            end_offset=copied.end_offset,
            lost=tuple(lost),
            notices=(),
            problems=tuple(self.reader.problems),
            rebuilt=(),
        )
        return converted, copied

    def _check_moved(self, moved_count: int, *, timers_move: bool) -> None:
        """Refuse to move messages of which a file states the physical offset."""
        if not moved_count:
            return
        disk, root = self.closed.disk, self.closed.root
        has_own = disk.exists(os.path.join(root, OWN_DIRECTORY))
        if disk.exists(os.path.join(root, "timerlog")) and (timers_move or has_own):
            reason = "timerlog states physical offsets of timed messages, which would change"
            raise NotConvertibleError(
                root,
                f"{reason}; wait until they are delivered, with the "
                "broker, and move timerlog and timerwheel away",
            )
        compacted = disk.list_names(os.path.join(root, "compaction"))
        if any(each.removesuffix(".bak") != _COMPACTED for each in compacted):
            reason = "compaction/ holds messages of compacted topics with their physical offsets"
            raise NotConvertibleError(root, f"{reason}, which would change")

    def _copy_settings(self, root: str, disk: Disk, settings: dict[str, bytes]) -> None:
        source, directory = self.closed.disk, os.path.join(self.closed.root, "config")
        databases = {*settings_in(self.closed.root, source)}
        target = os.path.join(root, "config")
        disk.make_directory(target)
        for entry in source.list(directory):
            name = entry.name
            if name not in databases and name.removesuffix(".bak") not in settings:
                copy_tree(source, entry.path, disk, os.path.join(target, name))
        for name, data in settings.items():
            disk.replace(os.path.join(target, name), data)
        disk.flush_directory(target)
