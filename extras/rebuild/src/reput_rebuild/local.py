"""Rebuilds on the cores of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reput.log import SPLIT_SIZE
from reput_rebuild.driver import Rebuilt, run_rebuild
from reput_rebuild.engine import LocalEngine

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
    """Build the files of plugins anew from the log, and put them in the place of the old ones.

    The store must not be open for writing anywhere. Until the end the old files stay as they are;
    a crash in the last moment leaves plugins that derive their files anew at the next opening.

    Args:
        path: the store's directory.
        plugins: names of those to rebuild, which the store uses; all that derive files and keep
            nothing else when left out.
        jobs: processes; as many as there are processors when left out, and none for 1.
        split_size: bytes of the log that a process reads at a time, about.
        progress: called with bytes of the log done and bytes in all; what needs one more pass over
            the log, or over what was found in it, counts once more.
        check: compare what is built with the files that are there, and change nothing.
        disk: file operations of this process; others use the system's.
        follow_links: as for `reput.open`.
        config: options of plugins, by section, for a store that does not remember them as it was
            never opened for writing: what RocketMQ's ``messageDelayLevel`` says, for one.

    Raises:
        StoreNotFoundError: no store there.
        StoreLockedError: somebody has it open for writing.
        PluginError: the store does not use a plugin, or nothing can be rebuilt of it.
        CorruptFileError: damage that nobody has noted yet.
        UnsafePathError: a link below the store's directory.
        TaskFailedError: something else, in one of the processes; the text says in which split.
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
