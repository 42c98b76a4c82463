"""`StoreProblems`: parts of a store that cannot be used: a reader ignores, a writer refuses them.

A reader needs none of the notes that a store keeps apart from its log, so a damaged note must not
prevent reading. A writer would continue from wrong assumptions.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from reput.dispatch.statefiles.manifest import Manifest
from reput.errors import CorruptFileError, UnsafePathError
from reput.files.filenames import OWN_DIRECTORY
from reput.log.recovery.checkpoint import Checkpoint
from reput.log.recovery.logstate import CheckedNote

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.log.lossledger import LossLedger
    from reput.log.progress import StateFile

    Note = tuple[str, Callable[[], bool]]

__all__ = ["StoreProblems"]

_Note = TypeVar("_Note")


class StoreProblems:
    """Collects the problems that one opening of a store finds.

    Args:
        is_refused: whether a problem is an error, as for a writer.

    Attributes:
        reporter: takes a problem as a text; None if a problem is an error.
        pass_over: takes the error of a file that a reader can do without; None likewise.
    """

    def __init__(self, *, is_refused: bool) -> None:
        self._is_refused = is_refused
        self._texts: list[str] = []
        self.reporter: Callable[[str], None] | None = None if is_refused else self.report
        self.pass_over: Callable[[OSError], None] | None = None if is_refused else self._pass_over

    @property
    def all(self) -> tuple[str, ...]:
        """All problems as texts, in the order in which they were found."""
        return tuple(self._texts)

    def report(self, problem: str) -> None:
        """Note a problem, once."""
        if problem not in self._texts:  # some files are read more than once
            self._texts.append(problem)

    def read_or_report(self, load: Callable[[], _Note], instead: _Note) -> _Note:
        """Read a file that a reader can do without.

        Returns:
            The result of ``load``; ``instead`` if it cannot read the file.

        Raises:
            OSError: the file cannot be read, and problems are refused.
        """
        try:
            return load()
        except OSError as error:
            if self._is_refused:
                raise
            if not isinstance(error, FileNotFoundError):  # else a writer has just removed it
                self._pass_over(error)
            return instead

    def manifest(self, root: str, disk: Disk) -> Manifest | None:
        """Read the manifest of the store at ``root``; None if none can be used.

        Raises:
            OSError: the manifest cannot be read, and problems are refused.
            CorruptFileError: the manifest is damaged, and problems are refused.
            UnsafePathError: the manifest is a link.
        """
        try:
            if not self._is_refused:
                # Raises for a directory without permission, in which the file would seem missing.
                disk.list(os.path.join(root, OWN_DIRECTORY))
            return Manifest.load(root, disk)
        except (CorruptFileError, OSError) as error:
            if self._is_refused or isinstance(error, UnsafePathError):
                raise
            self.report(f"the store's plugins and options are not known: {error}")
            return None

    def look_for_damaged_notes(
        self,
        root: str,
        disk: Disk,
        ledger: LossLedger,
        state: StateFile,
    ) -> None:
        """Note damaged small files as problems; a missing file is not a problem.

        Args:
            root: the store's directory.
            disk: the store's disk.
            ledger: the loss ledger, loaded.
            state: the state file.
        """
        for path, is_sound in _notes_of(root, disk, ledger, state):
            is_there = self.read_or_report(functools.partial(disk.exists, path), False)
            if is_there and not self.read_or_report(is_sound, True) and not self._is_reported(path):
                self.report(f"{path}: damaged, and its content is ignored")

    def _pass_over(self, error: OSError) -> None:
        if isinstance(error, UnsafePathError):
            raise error  # not damage: the user decides whether links are followed
        self.report(f"{error.filename}: cannot be read, and is ignored: {error.strerror}")

    def _is_reported(self, path: str) -> bool:
        return any(path in problem for problem in self._texts)


def _notes_of(root: str, disk: Disk, ledger: LossLedger, state: StateFile) -> list[Note]:
    """Return each note's path, with a function that returns whether the existing file is valid.

    Args:
        root: the store's directory.
        disk: the store's disk.
        ledger: the loss ledger, loaded.
        state: the state file.
    """
    checkpoint = os.path.join(root, "checkpoint")
    checked = CheckedNote(root, disk)
    return [
        (checkpoint, lambda: len(disk.read_file(checkpoint)) >= Checkpoint.SIZE_MIN),
        (ledger.path, lambda: not ledger.damaged_count),
        (state.path, lambda: bool(state.load())),
        (checked.path, lambda: checked.recorded is not None),
    ]
