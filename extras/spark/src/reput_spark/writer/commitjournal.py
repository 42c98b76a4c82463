"""The journal of commits: the batch that is being put, and the last that was put.

Small JSON files, each replaced at once and durably.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from reput.errors import CorruptFileError
from reput_arrow.logwriter.stagingdirectories import INTENT
from reput_spark.writer.segments import Segment

if TYPE_CHECKING:
    from reput.files import Disk

_COMMITTED: Final = "committed.json"
_FORMAT: Final = 1
_T = TypeVar("_T")


@attrs.frozen
class CommitIntent:
    """A batch that is being put."""

    batch_id: int
    log_end: int
    """Physical offset from which on its rows from `done` on come."""
    born_timestamp: int
    """Of rows that do not say when they were born, ms."""
    segments: tuple[Segment, ...]
    done: int = 0
    """How many of its rows, the first ones, are in the log, and on disk."""
    log_start: int = -1
    """Physical offset from which on all rows come; -1: `log_end`, of an older release."""
    stamp: str = ""
    """How the stamps of its rows begin; empty where they have none."""
    name: str = ""
    """Of the write; empty for a batch of a stream."""

    @property
    def start(self) -> int:
        """Physical offset from which on all rows come."""
        return self.log_end if self.log_start < 0 else self.log_start

    @property
    def row_count(self) -> int:
        """Rows in all."""
        return sum(each.row_count for each in self.segments)


@attrs.frozen
class LastCommit:
    """The last batch that was put; all before it were, too."""

    batch_id: int
    row_count: int
    log_start: int
    """Physical offset from which on its rows come."""
    log_end: int
    """Physical offset below which all its rows are."""


@attrs.define(eq=False)
class CommitJournal:
    """The notes in one directory of segments."""

    directory: str
    disk: Disk

    def intent(self) -> CommitIntent | None:
        """Return the batch that is being put."""

        def made(data: dict[str, Any]) -> CommitIntent:
            segments = tuple(Segment(**each) for each in data.pop("segments"))
            return CommitIntent(**data, segments=segments)

        return self._load(INTENT, made)

    def committed(self) -> LastCommit | None:
        """Return the last batch that was put."""
        return self._load(_COMMITTED, lambda data: LastCommit(**data))

    def save(self, value: CommitIntent | LastCommit) -> None:
        """Replace a note."""
        name = INTENT if isinstance(value, CommitIntent) else _COMMITTED
        text = json.dumps({"format": _FORMAT, **attrs.asdict(value)}, indent=1)
        self.disk.replace(os.path.join(self.directory, name), text.encode())

    def remove(self, name: str) -> None:
        """Remove a file of the directory, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.disk.remove(os.path.join(self.directory, name))

    def _load(self, name: str, make: Callable[[dict[str, Any]], _T]) -> _T | None:
        path = os.path.join(self.directory, name)
        if not self.disk.exists(path):
            return None
        try:
            data = json.loads(self.disk.read_file(path))
            if data.pop("format") != _FORMAT:
                raise ValueError(f"another format than {_FORMAT}")
            return make(data)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptFileError(
                path,
                0,
                f"not what a commit has written: {error}. It says which rows are in the store: "
                "put back the right one, or begin a new query with a checkpoint of its own",
            ) from error
