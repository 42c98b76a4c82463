"""Opens a store: finds the log's end, brings the plugins in line with it, starts the threads.

The order of steps of a writer, with the reasons:

1. the names in the directory are looked at, and files of brokers that reput does not write are
   refused; then the lock is taken before anything else is read: a store has one writer
   (`stages.lock_store`);
2. plugins and options are built before anything is changed: a wrong option costs nothing
   (`stages.configure`, `logstages.find_files`);
3. ``abort`` is written before any other change: the next opening notices a crash from here on
   (`writeropening.begin_changes`);
4. the log's valid end is found, and everything after it cut (`logstages.examine`,
   `writeropening.repair_log`);
5. plugins load, cut what they have beyond that end, and say from where they need messages;
6. plugins that keep queue offsets catch up, as a put needs the next queue offsets;
7. threads are started, and puts accepted (5 to 7:
   `writeropening.start_writing`).

A reader's opening is the same without the changes.

Source: RocketMQ ``DefaultMessageStore#load`` and ``#start``.
"""

from __future__ import annotations

import errno
import functools
import logging
import mmap
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from reput.errors import ResourceLimitError
from reput.files.system.disk import Disk, system_clock
from reput.plugin.base import Plugin
from reput.record.messages.message import shown
from reput.store.config import read_sections
from reput.store.directory.problems import StoreProblems
from reput.store.opening.assembly import close_plugins, open_to_read
from reput.store.opening.logstages import find_files
from reput.store.opening.stages import OpenRequest, configure, lock_store
from reput.store.operations.arguments import (
    flag_argument,
    function_argument,
    listed,
    names_argument,
    path_argument,
    text_argument,
)

if TYPE_CHECKING:
    from reput.store.store import Store

logger = logging.getLogger(__name__)

_THREADS_SIZE: Final = 16 << 20
"""Bytes of address space: the stacks of two threads, of 8 MiB each on Linux."""
_LIMITS: Final = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def open_store(
    path: str | os.PathLike[str],
    mode: Literal["w", "r"] = "w",
    *,
    plugins: Iterable[str | Plugin] | None = None,
    config: Mapping[str, Mapping[str, Any]] | str | os.PathLike[str] | None = None,
    clock: Callable[[], int] | None = None,
    disk: Disk | None = None,
    forget: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
    threads: bool = True,
    follow_links: bool = False,
    master: str | None = None,
    sizes: Literal["small", "rocketmq"] | None = None,
) -> Store:
    """Open a store that reput or RocketMQ has written, or make a new one.

    Args:
        path: the store's directory; made if missing and ``mode`` is ``"w"``. A directory without
            ``commitlog`` that holds other files is refused: a mistyped path must not make a store
            among them. Hidden names, ``lost+found`` and a broker's ``config`` do not count. To
            have a store there all the same, make the directory ``commitlog`` first.
        mode: ``"w"`` to put and read; a store has one writer at a time. ``"r"`` to read only, also
            while a writer has the store; never writes a byte.
        plugins: names of installed plugins, or plugin objects. None: the plugins that the store
            used last, or, for a new store, the installed plugins that are defaults.
        config: options by section (``commitlog``, and one per plugin), or the path of a TOML file
            with such sections. A writer's options are recorded, and apply until they are changed.
        clock: returns now, ms since the epoch; the system's when left out.
        disk: file operations; the system's when left out.
        forget: names of plugins that the store has used and no longer uses.
        progress: called with bytes done and bytes in all, while the log's end is searched, and then
            while plugins catch up that must do so before a put.
        threads: False to run nothing in the background. Messages are dispatched inside of
            `Store.wait_dispatched` and `Store.close`, and files are flushed inside of
            `Store.flush` and `Store.close`, all on the caller's thread and always in the same
            order.
        follow_links: whether symbolic links below the store's directory are followed, wherever they
            lead. Only for links that you made yourself: in a store of unknown origin, a link makes
            a writer change the file that it leads to. ``path`` itself may always be a link.
        master: makes a new or empty store a replica, which takes no puts but the bytes of a
            master's log (`Store.append_raw`); the text names the master in errors, for instance
            ``"broker-a at 10.0.0.7:10911"``. The store stays a replica, also when it is opened
            without this argument, until `Store.promote`. A replica may be given another name.
        sizes: sizes of the files of a new store; an existing store keeps its own. ``"small"``: the
            files are small, and grow with the messages. ``"rocketmq"``: the files have RocketMQ's
            sizes, full from the start, so that a broker can take the directory over at any time.
            When left out, a new store is small, unless it is a replica or ``config`` has the log's
            ``file_size``.

    Raises:
        TypeError: an argument of a wrong type.
        UnsafePathError: a link below the store's directory, a pipe or a device.
        StoreNotFoundError: there is no store, and ``mode`` is ``"r"`` or the directory holds other
            files.
        NotReplicaError: ``master`` is given, and the store has messages of its own.
        UnsupportedFilesError: a broker keeps files in the directory that reput does not write, and
            ``mode`` is ``"w"``.
        StoreLockedError: another writer has the store open.
        ConfigError: an unknown section or option, or a wrong value.
        PluginError: a plugin that is missing, broken, or left out though the store uses it.
        CorruptFileError: files that contradict the format.
        ResourceLimitError: the process may have no more memory, threads or descriptors.
    """
    if mode not in ("w", "r"):
        raise ValueError(f'mode must be "w" or "r", not {mode!r}')
    if disk is not None and not isinstance(disk, Disk):
        raise TypeError(f"disk: a reput.files.Disk expected, found {shown(disk)}")
    if master is not None and (not text_argument("master", master).strip() or mode != "w"):
        raise ValueError('master: a name is expected, and mode="w", as the store records it')
    if sizes not in (None, "small", "rocketmq"):
        raise ValueError(f'sizes must be "small" or "rocketmq", not {shown(sizes)}')
    given = read_sections(config)
    root, outer = os.path.abspath(path_argument("path", path)), disk or Disk()
    request = OpenRequest(
        root=root,
        writable=mode == "w",
        plugins=None if plugins is None else listed("plugins", plugins, "names and objects"),
        sections=given,
        forget=frozenset(names_argument("forget", forget)),
        clock=function_argument("clock", clock),
        now=clock or system_clock,
        progress=function_argument("progress", progress),
        threads=flag_argument("threads", threads),
        disk=outer.at(root, follow_links=flag_argument("follow_links", follow_links)),
        outer=outer,
        master=None if master is None else text_argument("master", master),
        sizes=sizes,
    )
    try:
        try:
            if request.threads:
                _require_memory()
            return _open(request)
        except BaseException:
            request.undoing.undo_all()
            raise
    except (MemoryError, OSError, RuntimeError) as error:
        number = _limit_of(error)
        if number is None:
            raise
        raise ResourceLimitError(root, str(error) or type(error).__name__, number) from error


def _require_memory() -> None:
    """Check that the process may map what the threads of a store need.

    A thread that finds no memory when it begins ends without a word: `threading.Thread.start`, and
    each caller that waits for its work, would wait for ever.

    Raises:
        OSError: it may not.
    """
    mmap.mmap(-1, _THREADS_SIZE).close()


def _limit_of(error: Exception) -> int | None:
    """Return the number of the system's error if the process has reached a limit; else None."""
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, OSError):
        return error.errno if error.errno in _LIMITS else None
    return errno.EAGAIN if "start new thread" in str(error) else None


def _open(request: OpenRequest) -> Store:
    settings, is_missing = None, request.writable and not request.disk.exists(request.root)
    if is_missing:
        # A wrong option must not leave a new directory.
        settings = configure(request, None, StoreProblems(is_refused=True), is_new=True)
    locked = lock_store(request, is_missing=is_missing)
    if settings is None or locked.manifest is not None:
        settings = configure(request, locked.manifest, locked.problems, is_new=locked.is_new)
    request.undoing.when_failed.append(functools.partial(close_plugins, locked, settings.plugins))
    files, settings = find_files(request, locked, settings)
    if request.writable:
        # Only here, as a reader needs none of it.
        from reput.store.opening.writeropening import open_to_write as open_rest
    else:
        open_rest = open_to_read
    store = open_rest(request, locked, settings, files)
    logger.info(
        "opened root=%s writable=%s clean=%s max_physical_offset=%d",
        request.root,
        request.writable,
        locked.clean,
        store.recovery.end_offset,
    )
    return store
