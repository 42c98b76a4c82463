"""Opens a store for a command, and turns what prevents the opening into a `Failure`."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import click

from reput_tools.cli.kit.failures import warn
from reput_tools.cli.kit.logoutput import show_log_lines, was_logged
from reput_tools.cli.kit.progressbar import ProgressBar

if TYPE_CHECKING:
    from reput import Store
    from reput_tools.offline import Traces


@contextlib.contextmanager
def open_to_read(path: str, *, plugins: Iterable[str] | None = None) -> Iterator[Store]:
    """Open the store at ``path`` without changing anything in it; another process may write it.

    Args:
        path: the store's directory.
        plugins: as for `reput.open`; reading only the log needs none.
    """
    import reput

    show_log_lines()
    with _opening() as progress:
        store = reput.open(
            path,
            mode="r",
            plugins=plugins,
            progress=progress.update,
            follow_links=follows_links(),
        )
    with store:
        for problem in store.problems:
            if not was_logged(problem):
                warn(problem)
        with ProgressBar("looking for queues in the log", None, "bytes") as progress:
            _show_derivation(store, progress)
            yield store


def _show_derivation(store: Store, bar: ProgressBar) -> None:
    """Show a bar while queues are derived from the log, as in a directory with RocksDB's queues."""
    derived: Any = getattr(store.plugin_objects.get("consumequeue"), "derived", None)

    def show(done: int, total: int) -> None:
        if done == 0:
            bar.hide()  # patient again
        bar.update(done, total)
        if done >= total:
            bar.hide()

    if derived is not None:
        derived.progress = show


@contextlib.contextmanager
def open_to_write(
    path: str,
    *,
    create: bool = False,
    plugins: Iterable[str] | None = None,
    config: Mapping[str, Any] | str | None = None,
    sizes: Literal["small", "rocketmq"] | None = None,
    waits: bool = True,
) -> Iterator[Store]:
    """Open the store at ``path`` as its one writer.

    Args:
        path: the store's directory.
        create: create the store if it does not exist, as `reput.open` does.
        plugins: as for `reput.open`.
        config: as for `reput.open`.
        sizes: as for `reput.open`.
        waits: whether to wait for all plugins at the end, with a progress bar.
    """
    import reput
    from reput.errors import StoreNotFoundError, expected_at

    show_log_lines()
    if not create and not holds_a_store(path):
        raise StoreNotFoundError(path, f"{expected_at(path)}{_how_to_make_one(path)}")
    with _opening() as progress:
        store = reput.open(
            path,
            mode="w",
            plugins=plugins,
            config=config,
            sizes=sizes,
            progress=progress.update,
            follow_links=follows_links(),
        )
    with store:
        yield store
        if not waits:
            return
        # Closing waits as well, but shows nothing meanwhile.
        with ProgressBar("dispatching", None, "bytes") as progress:
            store.wait_dispatched(progress=progress.update)


def holds_a_store(path: str) -> bool:
    """Whether something was stored under ``path``.

    Raises:
        OSError: not known, for lack of permission or because the disk fails.
    """
    try:
        if stat.S_ISDIR(os.stat(os.path.join(path, "commitlog")).st_mode):
            return True
    except (FileNotFoundError, NotADirectoryError):
        pass
    from glob import escape, glob

    return bool(glob(os.path.join(escape(path), "dledger-*", "data")))


def _how_to_make_one(path: str) -> str:
    context = click.get_current_context(silent=True)
    known = {each.name for each in context.command.params} if context is not None else set()
    if "create" not in known:
        return ""
    if os.path.isdir(path):
        return "; --create creates a store in an empty directory"
    return "; --create creates it"


def follows_links() -> bool:
    """Whether the command was given ``--follow-links``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool((context.obj or {}).get("follow_links"))


def look_at(root: str) -> Traces:
    """Return what the small files of the store at ``root`` tell, without opening the store."""
    from reput_tools.offline import inspect_store

    return inspect_store(root, follow_links=follows_links())


def is_written(root: str) -> bool:
    """Whether another process has the store at ``root`` open for writing."""
    return look_at(root).is_open


def _opening() -> ProgressBar:
    # Finds the end of the log; for a writer, plugins also catch up before the first put.
    return ProgressBar("opening", None, "bytes")
