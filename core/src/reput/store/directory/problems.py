"""`StoreProblems`: parts of a store that cannot be used: a reader ignores, a writer refuses them.

A reader needs none of the notes that a store keeps apart from its log, so a damaged note must not
prevent reading. A writer would continue from wrong assumptions.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from reput.dispatch.manifest import Manifest
from reput.errors import CorruptFileError, UnsafePathError
from reput.log.recovery.checkpoint import Checkpoint

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.log.statefile import StateFile

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

    def manifest(self, state: StateFile) -> Manifest | None:
        """Return the manifest in a store's state file; None if none can be used.

        Raises:
            OSError: the file cannot be read, and problems are refused.
            CorruptFileError: it is damaged, and problems are refused.
            UnsafePathError: it is a link.
        """
        try:
            if not self._is_refused:
                # Raises for a directory without permission, in which the file would seem missing.
                state.disk.list(os.path.dirname(state.path))
            return Manifest.of(state)
        except (CorruptFileError, OSError) as error:
            if self._is_refused or isinstance(error, UnsafePathError):
                raise
            self.report(f"the store's plugins and options are not known: {error}")
            return None

    def look_for_damage(self, root: str, disk: Disk, state: StateFile) -> None:
        """Note a damaged checkpoint or state file as a problem; a missing file is not a problem."""
        path = os.path.join(root, "checkpoint")
        data = self.read_or_report(lambda: disk.read_if_exists(path), None)
        if data is not None and len(data) < Checkpoint.SIZE_MIN:
            self.report(f"{path}: damaged, and its content is ignored")
        if state.damage and not self._is_reported(state.path):
            self.report(
                f"{state.path}: damaged, and what cannot be read is ignored: {state.damage}"
            )

    def _pass_over(self, error: OSError) -> None:
        if isinstance(error, UnsafePathError):
            raise error  # not damage: the user decides whether links are followed
        self.report(f"{error.filename}: cannot be read, and is ignored: {error.strerror or error}")

    def _is_reported(self, path: str) -> bool:
        return any(path in problem for problem in self._texts)
