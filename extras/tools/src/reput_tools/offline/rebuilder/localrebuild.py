"""Rebuilds on the cores of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reput_tools.offline.logsplits import SPLIT_SIZE
from reput_tools.offline.rebuilder.rebuilddriver import Rebuilt, run_rebuild
from reput_tools.offline.taskengine.engine import LocalEngine

if TYPE_CHECKING:
    from reput.files import Disk

__all__ = ["Rebuilt", "rebuild"]


def rebuild(
    path: str | os.PathLike[str],
    plugins: Sequence[str] = (),
    *,
    jobs: int | None = None,
    split_size: int = SPLIT_SIZE,
    progress: Callable[[int, int], None] | None = None,
    check: bool = False,
    disk: Disk | None = None,
    follow_links: bool = False,
    config: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Rebuilt]:
    """Rebuild the files of plugins from the log, and replace the old files.

    The store must not be open for writing anywhere. The old files stay unchanged until the end;
    after a crash in the last moment plugins derive their files again at the next opening.

    Args:
        path: the store's directory.
        plugins: names of plugins to rebuild, which the store must use; by default all whose files
            follow from the log alone.
        jobs: number of processes; by default one per processor; 1 uses this process only.
        split_size: bytes of the log that a process reads at a time, roughly.
        progress: called with bytes of the log done and bytes in all; a further walk along the log,
            or over what was found in it, counts again.
        check: compare what is built with the store's files, and change nothing.
        disk: file operations of this process; other processes use the system's.
        follow_links: as for `reput.open`.
        config: options of plugins, by section, for a store that was never opened for writing and so
            has none recorded: for example RocketMQ's ``messageDelayLevel``.

    Raises:
        StoreNotFoundError: there is no store.
        StoreLockedError: a process has it open for writing.
        PluginError: the store does not use a plugin, or the plugin cannot be rebuilt.
        CorruptFileError: damage that is not recorded yet.
        UnsafePathError: a link below the store's directory.
        TaskFailedError: another error in one of the processes; the text names the split.
    """
    with LocalEngine(jobs) as engine:
        return run_rebuild(
            path,
            plugins,
            engine,
            split_size=split_size,
            progress=progress,
            check=check,
            disk=disk,
            follow_links=follow_links,
            config=config,
        )
