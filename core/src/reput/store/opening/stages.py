"""The first stages of opening a store, its lock and its settings; they change nothing but the lock.

`reput.store.opening.openstore` has the order of all stages. Those of the log follow in
`reput.store.opening.logstages`, and a writer's changes are in `reput.store.opening.writeropening`.

Each stage gets the results of earlier stages, does not change them, and returns its own result; how
to undo it is added to the request's `Rollback`.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput.dispatch.config import DispatchConfig
from reput.dispatch.manifest import Manifest
from reput.dispatch.runtime.hookcalls import HookCalls, texts_of
from reput.dispatch.storedpluginstates import StoredPluginStates
from reput.errors import (
    EXPECTED,
    StoreNotFoundError,
    expected_at,
)
from reput.log.config import LOG_SECTION, CommitLogConfig
from reput.log.losses import Loss
from reput.log.progress import Progress
from reput.log.reader.ledgerfiles import ledger_in
from reput.log.recovery.logstate import CheckedNote, LogHead, LogStateFile
from reput.plugin.base import Plugin, build_config, without_removed
from reput.plugin.discovery import InstalledPlugin, how_to_install, installed
from reput.plugin.pluginset import PluginSet
from reput.store.config import (
    DISPATCH_SECTION,
    decide,
    with_small_sizes,
)
from reput.store.directory.directorycheck import (
    UNFINISHED,
    FoundFiles,
    find_broker_files,
    holds_sized_files,
    refuse_broker_files,
    refuse_other_files,
    refuse_unfinished,
)
from reput.store.directory.problems import StoreProblems
from reput.store.directory.storelock import StoreLock

if TYPE_CHECKING:
    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.files.system.disk import Disk

    Sections = Mapping[str, Mapping[str, Any]]

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class Rollback:
    """Undoes the steps of an opening, the last first, if it fails or when the store is closed.

    Unlike `contextlib.ExitStack` it may be run more than once: an exception, such as Ctrl-C, may
    end a closing anywhere, and the next call begins again. So every function in it may be called
    twice, and is added before the step that it undoes.
    """

    in_any_case: list[Callable[[], object]] = attrs.field(factory=list)
    """Called when the opening fails, and when the open store is closed."""
    when_failed: list[Callable[[], object]] = attrs.field(factory=list)
    """Called when the opening fails, before everything of `in_any_case`."""

    def undo_all(self) -> None:
        """Undo everything."""
        with contextlib.ExitStack() as stack:  # calls all, even if one of them fails
            for undo in (self.release, *self.when_failed):
                stack.callback(undo)

    def release(self) -> None:
        """Release what an open store holds."""
        with contextlib.ExitStack() as stack:
            for undo in self.in_any_case:
                stack.callback(undo)


@attrs.frozen(kw_only=True, eq=False)
class OpenRequest:
    """The arguments of `reput.open`."""

    root: str
    """The store's directory."""
    writable: bool
    plugins: list[str | Plugin] | None
    sections: Sections
    forget: frozenset[str]
    clock: Callable[[], int] | None
    """None for the system's clock, which a put reads faster."""
    now: Callable[[], int]
    """The store's clock, ms."""
    progress: Callable[[int, int], None] | None
    threads: bool
    disk: Disk
    """Bound to the store's directory."""
    master: str | None
    """Whose replica the store is to be; None for what the manifest says."""
    sizes: str | None
    """Sizes of the files of a new store; None for those that the other arguments suggest."""
    outer: Disk
    """Only for the directories above the store."""
    undoing: Rollback = attrs.field(factory=Rollback)

    @property
    def is_small(self) -> bool:
        """Whether a new store gets small files, which grow."""
        if self.sizes is not None:
            return self.sizes == "small"
        log = self.sections.get(LOG_SECTION, {})
        has_size = "file_size" in log
        return self.master is None and not has_size

    def path(self, *names: str) -> str:
        """Return a path in the store's directory."""
        return os.path.join(self.root, *names)


@attrs.frozen(eq=False)
class LockedStore:
    """A store that is locked if it is to be written, and what its last writer left."""

    lock: StoreLock
    calls: HookCalls
    records: StoredPluginStates
    problems: StoreProblems
    """Collects what opening finds unusable."""
    manifest: Manifest | None
    """Plugins and options of the last writer; None unless that was reput."""
    was_signed: bool
    """Whether reput was the last to write the store before it was locked (`StoreLock.sign`)."""
    note: LogStateFile
    """Of the log's end, with the file ``abort`` and the checkpoint."""
    head: LogHead
    checked: CheckedNote
    closed: Progress | None
    """Where the log ended when the last writer closed it; None if it did not."""
    clean: bool
    """Whether the last writer closed the store."""
    is_new: bool
    """Whether no program has made files of a log or of plugins yet."""
    ledger: str | None
    """Name of the folder in which DLedger keeps the log, or its later part."""
    batch_topics: frozenset[str]
    """Topics that have batch queues."""

    def lost_head(self, files: MappedFileQueue) -> Loss | None:
        """Return what the log has lost at its beginning; None if that is nothing, or not known."""
        if not files.bases or not self.was_signed:
            return None  # a program that leaves no note may have removed files
        return self.head.loss(files.min_offset)


@attrs.frozen(eq=False)
class Settings:
    """Plugins and options of the store."""

    plugins: PluginSet
    sections: Sections
    """As they are in the manifest."""
    log: CommitLogConfig
    dispatch: DispatchConfig
    master: str | None
    """Name of the master of a replica; None for a store that takes puts."""
    installed: Mapping[str, InstalledPlugin]
    """The installed plugins by name, those that the store does not use included."""


def lock_store(request: OpenRequest, *, is_missing: bool) -> LockedStore:
    """Take the lock, for a writer, and read what the last writer left.

    Raises:
        StoreNotFoundError: there is no store, for a reader; or, for a writer, the directory holds
            other files.
        UnsupportedFilesError: for a writer, the directory holds files of a broker beside which
            reput must not write.
        StoreLockedError: another writer has it open.
    """
    root, disk = request.root, request.disk
    names: list[str] = []
    ledger = None
    topics: frozenset[str] = frozenset()
    found: list[FoundFiles] = []
    if request.writable:
        try:
            names = [] if is_missing else disk.list_names(root)
        except NotADirectoryError:
            raise StoreNotFoundError(root, f"{EXPECTED}; this is a file") from None
        if UNFINISHED in names:
            refuse_unfinished(root, disk)
        ledger, topics = refuse_broker_files(root, disk, names, appends=True)
        if "commitlog" not in names and ledger is None:
            refuse_other_files(root, names)
    else:
        refuse_unfinished(root, disk)
    problems = StoreProblems(is_refused=request.writable)
    calls = HookCalls(
        root, threads=request.threads, now=disk.monotonic, keeps_threads=request.writable
    )
    lock = StoreLock(request.path("lock"), root, disk)
    request.undoing.in_any_case.append(disk.release)
    if request.writable:
        if is_missing:
            try:
                request.outer.make_directory(root, durable=True)
            except (FileExistsError, NotADirectoryError) as error:
                raise StoreNotFoundError(root, f"{EXPECTED}; {error.filename} is a file") from None
        request.undoing.in_any_case.append(functools.partial(_give_up, lock, disk, calls))
        lock.acquire()
    else:
        ledger = _look_at_broker_files(root, disk, problems, found)
        topics = found[-1].topics if found else topics  # their row is the last
        if ledger is None and not disk.exists(request.path("commitlog")):
            raise StoreNotFoundError(root, expected_at(root))
    note = LogStateFile.of(root, disk, problems.pass_over)
    closed = problems.read_or_report(note.closed, None)
    clean = closed is not None or not note.abort.present
    manifest = problems.manifest(note.state)
    was_signed = (
        lock.is_signed
        if request.writable
        else problems.read_or_report(lambda: lock.is_signed, False)
    )
    if manifest is None and was_signed and not note.state.is_damaged:
        logger.warning(
            "state file missing, the plugins and options of the last writer are not known file=%s",
            note.state.path,
        )
    records = StoredPluginStates(root, disk, note.state)
    head, checked = LogHead(note.state, request.writable), CheckedNote(note.state)
    return LockedStore(
        lock,
        calls,
        records,
        problems,
        manifest,
        was_signed,
        note,
        head,
        checked,
        closed,
        clean,
        manifest is None
        and request.writable
        and ledger is None
        and not holds_sized_files(root, disk, names),
        ledger,
        topics,
    )


def _look_at_broker_files(
    root: str, disk: Disk, problems: StoreProblems, found: list[FoundFiles]
) -> str | None:
    """Add what a reader does not show of brokers' files; return DLedger's folder if any."""
    try:
        names = disk.list_names(root)
        # A directory without permission, or a link, that reading needs not, hides no other.
        passed_over: list[OSError] = []
        found += find_broker_files(root, disk, names, passed_over.append)
        for each in found:
            if each.row.unseen:
                problems.report(each.problem)
        for error in passed_over:
            problems.report(str(error))
        return ledger_in(root, disk, names)
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.report(str(error))
        return None


def _give_up(lock: StoreLock, disk: Disk, calls: HookCalls) -> None:
    """Release the lock as soon as no plugin can write any more."""
    hanging = calls.running()
    if hanging:
        # The disk refuses what a plugin's thread still writes, so that the thread ends soon. But it
        # may write to maps and descriptors of its own while it runs, so the lock stays. `keep`
        # comes before `after_last`, as the thread may end in between.
        lock.keep(texts_of(hanging))
    # Code that continues after this must change nothing, as another writer may have the store: such
    # a thread, or the call on this thread that a signal handler, which closes, has interrupted.
    disk.freeze(f"the store was closed; {texts_of(hanging)}" if hanging else "it was closed")
    hanging = calls.after_last(lock.release)
    if hanging:
        logger.error("lock kept root=%s reason=%s", lock.root, texts_of(hanging))


# --------------------------------------------------------------------------- its options


def configure(
    request: OpenRequest,
    manifest: Manifest | None,
    problems: StoreProblems,
    *,
    is_new: bool = False,
) -> Settings:
    """Build the plugins and the core's options; changes nothing.

    Raises:
        ConfigError: an unknown section or option, or a wrong value.
        PluginError: a plugin that is missing, broken, or left out though the store uses it.
    """
    offered = installed()
    by_name = {found.name: found for found in offered}
    names, sections = decide(
        manifest, request.plugins, request.sections, request.forget, request.writable, offered
    )
    if is_new and request.is_small:
        sections = with_small_sizes(names, sections, by_name)
    if not request.writable and request.plugins is None:
        # A reader writes no files, so it can do without a plugin that is not installed.
        for name in [name for name in names if isinstance(name, str) and name not in by_name]:
            names.remove(name)
            sections = {key: options for key, options in sections.items() if key != name}
            problems.report(
                f"the store's plugin {name!r} is not installed, so what it keeps is not shown "
                f"({how_to_install(name)})"
            )
    plugins = PluginSet(names, sections, offered)
    log = build_config(CommitLogConfig, LOG_SECTION, sections.get(LOG_SECTION, {}))
    dispatch = build_config(DispatchConfig, DISPATCH_SECTION, sections.get(DISPATCH_SECTION, {}))
    kinds: dict[str, type] = {LOG_SECTION: CommitLogConfig, DISPATCH_SECTION: DispatchConfig}
    kinds |= {name: plugin.config_type for name, plugin in plugins.plugins.items()}
    # An option that is ignored is not recorded again, so a writer warns of it once.
    recorded = {name: without_removed(kinds[name], sections[name]) for name in sections}
    master = request.master
    if master is None and manifest is not None:
        master = manifest.master
    return Settings(plugins, recorded, log, dispatch, master, by_name)
