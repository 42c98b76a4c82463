"""`DirtyFiles`: which files and names are not on disk yet, and whether a flush has failed."""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from reput.files.system.flushing import FlushFailedError, is_disk_full, run_parallel
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from reput.files.system.disk import Disk

Item = TypeVar("Item", bound=Hashable)
Noted = TypeVar("Noted", bound=Hashable)


class DirtyFiles(Generic[Item]):
    """Files and directories that were changed and are not on disk yet. Thread-safe.

    Note a file after it was written, not before: a flush in between would drop the note without
    the bytes.

    Args:
        disk: flushes directories.
        flush_file: flushes one file; raises `FileNotFoundError` if it was removed meanwhile. It may
            write before: if the disk is full then, it is called again by the next flush.
    """

    def __init__(self, disk: Disk, flush_file: Callable[[Item], object]) -> None:
        self._disk = disk
        self._flush_file = flush_file
        self._lock = new_lock()  # reentrant, like the other: for signal handlers
        # One flush at a time: files that another flush has under way are not noted any more.
        self._flushing = new_lock()
        self._files: _Notes[Item] = _Notes()
        self._directories: _Notes[str] = _Notes()
        self._failure: BaseException | None = None

    def written(self, file: Item) -> None:
        """Note that a file has bytes that are not on disk."""
        if file not in self._files.pending:
            with self._lock:
                self._files.pending[file] = None

    def named(self, *directories: str) -> None:
        """Note directories in which names were made, changed or removed."""
        with self._lock:
            self._directories.pending.update(dict.fromkeys(directories))

    def forget(self, file: Item) -> None:
        """Drop the note of a file that is going to be removed."""
        with self._lock:
            self._files.pending.pop(file, None)

    @property
    def has_failed(self) -> bool:
        """Whether a flush has failed, so that the files' bytes are unknown until a reopening."""
        return self._failure is not None

    def fail(self, error: BaseException) -> None:
        """Have every later flush fail, because of ``error``."""
        self._failure = self._failure or error

    def require_no_failure(self) -> None:
        """Check that no flush has failed.

        Raises:
            FlushFailedError: a flush has failed. The system may have dropped pages that it could
                not write, and would report success for another flush.
        """
        error = self._failure
        if error is not None:
            reason = f"a flush failed before, so the content of the files is not known: {error}"
            raise FlushFailedError(getattr(error, "errno", None) or errno.EIO, reason)

    def flush(self, then: Callable[[], object] = lambda: None) -> None:
        """Bring to disk what was noted before this call, while other threads may go on writing.

        A file's note is dropped when its flush begins, and restored if that flush does not end.

        Args:
            then: a last step of the flush, called when the files are on disk.

        Raises:
            OSError: this or an earlier flush failed; see `require_no_failure`. If `is_disk_full`
                says so, nothing is lost: the next flush covers the same files.
        """
        with self._flushing:
            if self._failure is not None:
                self.require_no_failure()
            with self._lock:
                # Items are under way here only if a signal handler interrupted a flush on this
                # thread.
                files, directories = [
                    [*dict.fromkeys((*notes.under_way, *notes.pending))]
                    for notes in (self._files, self._directories)
                ]
            try:
                self._flush_each(files, self._files, self._flush_file)
                # Names after bytes: recovery repairs a file without its bytes, but does not notice
                # that a name was lost.
                self._flush_each(directories, self._directories, self._disk.flush_directory)
                then()
            except OSError as error:
                if not is_disk_full(error):
                    self.fail(error)
                    raise
                self.require_no_failure()  # of another file, on another thread
                raise

    def _flush_each(
        self, items: list[Noted], notes: _Notes[Noted], flush: Callable[[Noted], object]
    ) -> None:
        def flush_some(items: Iterator[Noted]) -> None:
            for item in items:
                with self._lock:
                    # Before the flush, as it may not cover what is written from here on.
                    notes.pending.pop(item, None)
                    notes.under_way[item] = None
                try:
                    flush(item)
                except FileNotFoundError:  # removed meanwhile
                    pass
                except FlushFailedError as error:
                    self.fail(error)
                    raise
                with self._lock:
                    notes.under_way.pop(item, None)

        if not items:
            return
        try:
            run_parallel(flush_some, items, self._disk.flushes_at_once)
        finally:
            with self._lock:
                notes.pending.update(notes.under_way)
                notes.under_way.clear()


@attrs.define(eq=False)
class _Notes(Generic[Noted]):
    """Items to be flushed, in the order in which they were noted, and items being flushed."""

    pending: dict[Noted, None] = attrs.field(factory=dict)
    under_way: dict[Noted, None] = attrs.field(factory=dict)
