"""Hold a closed store, and know where its log ends and the next offset of every queue.

The store itself finds both: it is opened as any writer opens it, with its plugins, and closed
again. Between that and the lock taken here another process may have opened it; then all is done
again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import attrs

import reput
from reput.errors import ReputError, StoreLockedError, StoreNotFoundError, UnsafePathError
from reput.files import OWN_DIRECTORY
from reput.log import LOG_SECTION
from reput_arrow.codederrors import CodedError
from reput_arrow.logwriter.publication.journal import Intent
from reput_arrow.logwriter.publication.refusals import (
    refuse_damaged,
    refuse_foreign,
    refuse_open,
)
from reput_arrow.logwriter.stagingdirectories import is_vacant
from reput_tools.offline import lock_store

if TYPE_CHECKING:
    from reput.files import Disk, Entry
    from reput_tools.offline import ClosedStore

_TRIES: Final = 5


@attrs.frozen(eq=False)
class PublicationTarget:
    """A log whose store is closed, and whose lock is held."""

    closed: ClosedStore
    end_offset: int
    """After its last record."""
    next_offsets: Mapping[tuple[str, int], int]
    """Next queue offset of every (topic, queue id)."""
    is_new: bool = False
    """Whether it was made for this."""
    grows: bool = False
    """Whether its last file may be short."""


def log_directory(root: str) -> str:
    """Return the directory of a store's log files."""
    return os.path.join(root, "commitlog")


@contextlib.contextmanager
def standing(
    root: str, file_size: int, disk: Disk, outer: Disk, *, small: bool = False
) -> Iterator[PublicationTarget]:
    """Look at a store, or at the place where one is to be, and hold its lock.

    Args:
        root: the store's directory.
        file_size: bytes of a log file.
        disk: file operations, bound to the store.
        outer: the same, bound to nothing: a new store changes the directory above it, too.
        small: whether the files of a new store grow.

    Raises:
        CodedError: it is open for writing or damaged, or its files have another size.
        UnsafePathError: a link below the store's directory, where none is followed.
    """
    for _ in range(_TRIES):
        end, offsets, is_new, grows = _brought_to_end(root, file_size, disk, outer, small)
        with contextlib.ExitStack() as held:
            try:
                closed = held.enter_context(lock_store(root, disk=disk))
            except StoreLockedError as error:
                raise CodedError("LOCKED", str(error)) from error
            except StoreNotFoundError:
                continue  # it was removed meanwhile
            if closed.closed_at == end:  # else another writer was quicker
                if is_new:
                    held.enter_context(_removed_if_it_fails(root, disk))
                yield PublicationTarget(closed, end, offsets, is_new, grows)
                return
    raise CodedError(
        "LOCKED", f"{root}: others open the store again and again; write when they do not"
    )


def _brought_to_end(
    root: str, file_size: int, disk: Disk, outer: Disk, small: bool
) -> tuple[int, dict[tuple[str, int], int], bool, bool]:
    """Open a store as a writer does, and close it again; make an empty one where nothing is.

    Returns:
        Where the log ends, the next offset of every queue, and whether the store was made here: a
        store that another process has made is not removed when the write fails. Then whether its
        files grow.
    """
    is_new = is_vacant(root, disk)
    given = {LOG_SECTION: {"file_size": file_size}} if is_new else {}
    if not is_new:
        refuse_foreign(root, disk)
        refuse_open(root, disk)
    try:
        if not is_new:
            with reput.open(root, "r", plugins=(), disk=disk) as store:
                refuse_damaged(store)
        follow_links = disk.follows_links
        with reput.open(
            root,
            "w",
            config=given,
            sizes="small" if small else None,
            disk=outer,
            follow_links=follow_links,
        ) as store:
            found, grows = store.config.file_size, store.config.grows
            end, offsets = store.log.max_physical_offset, dict(store.log.queue_offsets or {})
    except (CodedError, UnsafePathError):
        raise
    except StoreLockedError as error:
        raise CodedError("LOCKED", str(error)) from error
    except (ReputError, OSError) as error:
        raise CodedError("DAMAGED", f"{root}: {error}") from error
    if found != file_size:
        raise CodedError(
            "OPTION",
            f"{root}: its files have {found} bytes, and {file_size} were written; somebody has "
            "made the store since the write began",
        )
    return end, offsets, is_new, grows


@contextlib.contextmanager
def _removed_if_it_fails(root: str, disk: Disk) -> Iterator[None]:
    """Remove a store that was made here, where what it was made for fails before its log begins."""
    try:
        yield
    except BaseException:
        if not disk.list(log_directory(root)):
            Intent.remove(root, disk)  # ours, and of no use: nothing of it is in the log
            own = os.path.join(root, OWN_DIRECTORY)
            made = [each for each in disk.list(root) if each.name != OWN_DIRECTORY]
            made += [each for each in disk.list(own) if each.name != "spark"]
            # As long as its log's directory is there it is a store, an empty one.
            # A link is not a directory: it is removed itself, and not what it leads to.
            made.sort(key=lambda entry: (_is_directory(entry), entry.path == log_directory(root)))
            for entry in made:
                if _is_directory(entry):
                    with contextlib.suppress(OSError):
                        disk.remove_tree(entry.path)
                else:
                    disk.remove(entry.path)
        raise


def _is_directory(entry: Entry) -> bool:
    return entry.is_dir(follow_symlinks=False)
