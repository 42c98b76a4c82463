"""`Problems`: what of a store cannot be used, which a reader passes over and a writer refuses.

A reader needs none of the notes that a store keeps beside its log, so that damage of one must not
keep it from the rest. A writer would go on from what it cannot know.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from reput.dispatch.records.manifest import Manifest
from reput.errors import CorruptFileError, UnsafePathError
from reput.files.names import OWN_DIRECTORY
from reput.store.notes import notes_of

if TYPE_CHECKING:
    from reput.dispatch.records.states import PluginRecords
    from reput.files.disk import Disk
    from reput.log.losses import LossLedger
    from reput.log.progress import ProgressFile

__all__ = ["Problems"]

_Note = TypeVar("_Note")


class Problems:
    """What one opening of a store has found that cannot be used.

    Args:
        is_refused: whether a problem is an error, as for a writer.

    Attributes:
        told: called with a problem in words; None where it is an error instead.
        pass_over: called with the error of a file that a reader can do without; None likewise.
    """

    def __init__(self, *, is_refused: bool) -> None:
        self._is_refused = is_refused
        self._texts: list[str] = []
        self.told: Callable[[str], None] | None = None if is_refused else self.tell
        self.pass_over: Callable[[OSError], None] | None = None if is_refused else self._pass_over

    @property
    def all(self) -> tuple[str, ...]:
        """Every problem, in words, in the order in which they were found."""
        return tuple(self._texts)

    def tell(self, problem: str) -> None:
        """Take note of a problem, once."""
        if problem not in self._texts:  # some files are read more than once
            self._texts.append(problem)

    def noted(self, load: Callable[[], _Note], instead: _Note) -> _Note:
        """Read a file that a reader can do without.

        Returns:
            What ``load`` returns; ``instead`` where it cannot read the file.

        Raises:
            OSError: the file cannot be read, and problems are refused.
        """
        try:
            return load()
        except OSError as error:
            if self._is_refused:
                raise
            if not isinstance(error, FileNotFoundError):  # a writer has taken it away by now
                self._pass_over(error)
            return instead

    def manifest(self, root: str, disk: Disk) -> Manifest | None:
        """Read the manifest of the store at ``root``; None where a reader goes without.

        Raises:
            OSError: it cannot be read, and problems are refused.
            CorruptFileError: it is damaged, and problems are refused.
            UnsafePathError: it is a link.
        """
        try:
            if not self._is_refused:
                # A directory that cannot be looked into shows no file at all.
                disk.list(os.path.join(root, OWN_DIRECTORY))
            return Manifest.load(root, disk)
        except (CorruptFileError, OSError) as error:
            if self._is_refused or isinstance(error, UnsafePathError):
                raise
            self.tell(f"the store's plugins and options are not known: {error}")
            return None

    def look_for_damaged_notes(
        self,
        root: str,
        disk: Disk,
        ledger: LossLedger,
        records: PluginRecords,
        places: Iterable[ProgressFile],
    ) -> None:
        """Tell of files that say nothing any more; a missing one is no problem.

        Args:
            root: the store's directory.
            disk: where.
            ledger: it was loaded.
            records: of plugins.
            places: files with a place in the log.
        """
        none: list[str] = []
        plugins = self.noted(records.names, none)
        for path, is_sound in notes_of(root, disk, ledger, records, plugins, places):
            is_there = self.noted(functools.partial(disk.exists, path), False)
            if is_there and not self.noted(is_sound, True) and not self._is_told(path):
                self.tell(f"{path}: damaged, and what it says is passed over")

    def _pass_over(self, error: OSError) -> None:
        if isinstance(error, UnsafePathError):
            raise error  # not damage: the user says whether it may be followed
        self.tell(f"{error.filename}: cannot be read, and is passed over: {error.strerror}")

    def _is_told(self, path: str) -> bool:
        return any(path in problem for problem in self._texts)
