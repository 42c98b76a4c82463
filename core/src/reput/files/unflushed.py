"""`Unflushed`: what was written and is not on disk yet, and a failed flush that stays failed."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from reput.locks import new_lock

if TYPE_CHECKING:
    from reput.files.disk import Disk

__all__ = ["Unflushed"]

Item = TypeVar("Item", bound=Hashable)
Noted = TypeVar("Noted", bound=Hashable)


class Unflushed(Generic[Item]):
    """Files with bytes, and directories with names, that are not on disk. Thread-safe.

    Note a file after it was written, not before: a flush that comes in between would take the note
    for one of bytes that it has brought to disk.

    Args:
        disk: of the directories.
        flush_file: brings a file to disk; a `FileNotFoundError` says that it was removed meanwhile.
    """

    def __init__(self, disk: Disk, flush_file: Callable[[Item], object]) -> None:
        self._disk = disk
        self._flush_file = flush_file
        # Both reentrant: a signal handler that closes the store may come at any time.
        self._lock = new_lock()
        # Who flushes while another thread does must wait for it: what that one has under way is
        # not on disk, and not noted any more.
        self._flushing = new_lock()
        self._files: _Notes[Item] = _Notes()
        self._directories: _Notes[str] = _Notes()
        self._failure: BaseException | None = None

    def written(self, file: Item) -> None:
        """Note that a file has bytes which are not on disk."""
        if file not in self._files.noted:
            with self._lock:
                self._files.noted[file] = None

    def named(self, *directories: str) -> None:
        """Note that names were made, changed or removed in directories."""
        with self._lock:
            self._directories.noted.update(dict.fromkeys(directories))

    def forget(self, file: Item) -> None:
        """Forget about a file that is going to be removed."""
        with self._lock:
            self._files.noted.pop(file, None)

    @property
    def has_failed(self) -> bool:
        """Whether a flush has failed: what the files hold is not known until they are opened."""
        return self._failure is not None

    def fail(self, error: BaseException) -> None:
        """Have every later flush fail, because of ``error``."""
        self._failure = self._failure or error

    def require_sound(self) -> None:
        """Make sure that no flush has failed.

        Raises:
            OSError: one has. The system may have dropped the pages that it could not write, so that
                trying again would report success without them.
        """
        error = self._failure
        if error is not None:
            reason = f"a flush failed before, what the files hold is not known: {error}"
            raise OSError(getattr(error, "errno", None) or errno.EIO, reason)

    def flush(self, then: Callable[[], object] = lambda: None) -> None:
        """Bring to disk what was noted before this call; others may go on writing meanwhile.

        The note of a file goes when its own flush begins, and comes back unless that ends. So what
        is done is done: a flush that Ctrl-C cuts short has the next one go on with the rest.

        Args:
            then: part of the flush that rests on the files: called when they are on disk.

        Raises:
            OSError: this or an earlier flush failed; see `require_sound`.
        """
        with self._flushing:
            self.require_sound()
            with self._lock:
                files, directories = self._files.all(), self._directories.all()
            try:
                self._flush_each(files, self._files, self._flush_file)
                # The names after the bytes: a file without its bytes is mended, bytes without
                # their file are not missed.
                self._flush_each(directories, self._directories, self._disk.flush_directory)
                then()
            except OSError as error:
                self.fail(error)
                raise

    def _flush_each(
        self, items: list[Noted], notes: _Notes[Noted], flush: Callable[[Noted], object]
    ) -> None:
        def flush_one(item: Noted) -> None:
            with self._lock:
                # Before the flush: what is written from here on may not be part of it.
                notes.noted.pop(item, None)
                notes.under_way[item] = None
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                flush(item)
            with self._lock:
                notes.under_way.pop(item, None)

        try:
            self._disk.side_by_side(flush_one, items)
        finally:
            with self._lock:
                notes.noted.update(notes.under_way)
                notes.under_way.clear()


class _Notes(Generic[Noted]):
    """What is to be flushed, in the order in which it was noted, and what is being flushed."""

    def __init__(self) -> None:
        self.noted: dict[Noted, None] = {}
        self.under_way: dict[Noted, None] = {}

    def all(self) -> list[Noted]:
        # What is under way belongs to a flush into which a signal handler came, on this thread.
        return [*dict.fromkeys((*self.under_way, *self.noted))]
