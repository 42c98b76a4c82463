"""Two small files of a store that writes keep: the current publication, and the finished ones.

``reput/spark/publish.json`` is there from the moment at which a write is to be published until all
of it is. A process that holds the store's lock and finds it has found a write that was cut short.
``reput/spark/writes.json`` lists the writes that are published, by their names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from reput.errors import CorruptFileError
from reput_arrow.codederrors import CodedError
from reput_arrow.logwriter.staging.writetasks import Segment, TaskWritten
from reput_arrow.logwriter.stagingdirectories import is_name, spark_directory

if TYPE_CHECKING:
    from reput.files import Disk

_FORMAT: Final = 1
_KEPT: Final = 1_000
"""Writes that are listed; those without a name of their own go first, then the oldest."""
_SIZE_LIMIT: Final = 64 << 20
"""Bytes of a file, as many as `Disk.read_file` reads."""


@attrs.frozen
class Intent:
    """A write that is to be published."""

    name: str
    """The write's name, or that of its staging directory."""
    staging: str
    file_size: int
    record_crc: bool
    tasks: tuple[TaskWritten, ...]

    @property
    def segments(self) -> list[Segment]:
        """All of its files."""
        return [segment for task in self.tasks for segment in task.segments]

    @staticmethod
    def path(root: str) -> str:
        """Return the path of a store's intent."""
        return os.path.join(spark_directory(root), "publish.json")

    @classmethod
    def load(cls, root: str, disk: Disk) -> Self | None:
        """Read a store's intent; None where no write is under way.

        Raises:
            CorruptFileError: the file is not what a write leaves there.
        """
        path = cls.path(root)
        return cls.load_from(path, disk) if disk.exists(path) else None

    @classmethod
    def load_from(cls, path: str, disk: Disk) -> Self:
        """Read an intent from a file.

        Raises:
            CorruptFileError: the file is not what `save_to` leaves there.
        """
        facts = _read(path, disk)
        try:
            return cls(**{**facts, "tasks": _tasks_of(facts["tasks"])})
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise CorruptFileError(path, 0, f"no intent: {error}") from None

    def save(self, root: str, disk: Disk) -> None:
        """Replace the store's intent, at once and durably.

        Raises:
            CodedError: the file would be larger than what can be read again.
        """
        self.save_to(self.path(root), disk)

    def save_to(self, path: str, disk: Disk) -> None:
        """Replace the file at ``path``; see `save`."""
        _replace(path, attrs.asdict(self), disk)

    @classmethod
    def remove(cls, root: str, disk: Disk) -> None:
        """Remove the store's intent, durably: no write is under way any more."""
        if disk.exists(cls.path(root)):
            disk.remove(cls.path(root))
            disk.flush_directory(spark_directory(root))


@attrs.frozen
class PublishedWrite:
    """A write all of which is in the store."""

    name: str
    record_count: int
    start_offset: int
    """Where its first file begins."""
    end_offset: int
    """After its last record."""
    timestamp: int
    """When it was published, ms."""


def load_writes(root: str, disk: Disk) -> dict[str, PublishedWrite]:
    """Return published writes by name, oldest first.

    Raises:
        CorruptFileError: the file is not what writes leave there.
    """
    path = _writes_path(root)
    if not disk.exists(path):
        return {}
    try:
        found = [PublishedWrite(**each) for each in _read(path, disk)["writes"]]
    except (TypeError, KeyError) as error:
        raise CorruptFileError(path, 0, f"no list of writes: {error}") from None
    return {each.name: each for each in found}


def note_write(root: str, write: PublishedWrite, disk: Disk) -> None:
    """Add a write to the published ones."""
    writes = {**load_writes(root, disk), write.name: write}
    # The sort is stable: of each kind, the oldest first.
    in_turn = sorted(writes, key=lambda name: not is_name(name))
    forgotten = set(in_turn[: max(len(in_turn) - _KEPT, 0)])
    listed = [attrs.asdict(each) for name, each in writes.items() if name not in forgotten]
    _replace(_writes_path(root), {"writes": listed}, disk)


def _tasks_of(facts: Iterable[Mapping[str, Any]]) -> tuple[TaskWritten, ...]:
    """Return what tasks have written, from JSON.

    Raises:
        ValueError: a name that leads out of the staging directory. KeyError: something is missing.
    """
    return tuple(map(_task_of, facts))


def _writes_path(root: str) -> str:
    return os.path.join(spark_directory(root), "writes.json")


def _replace(path: str, facts: Mapping[str, Any], disk: Disk) -> None:
    disk.make_directory(os.path.dirname(path), durable=True)
    data = json.dumps({"format": _FORMAT, **facts}).encode()
    if len(data) > _SIZE_LIMIT:
        raise CodedError(
            "JOB",
            f"{path}: {len(data)} bytes, where {_SIZE_LIMIT} are the most: each task tells its "
            "files and how many messages of each queue it has; give the write fewer tasks, or have "
            "the rows of a queue in few of them (repartitionByRange)",
        )
    disk.replace(path, data)


def _read(path: str, disk: Disk) -> dict[str, Any]:
    try:
        facts = json.loads(disk.read_file(path))
        version = facts.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError(path, 0, f"not what a write leaves there: {error}") from None
    if version != _FORMAT:
        raise CorruptFileError(path, 0, f"format {version}; this release reads {_FORMAT}")
    return dict(facts)


def _task_of(facts: Mapping[str, Any]) -> TaskWritten:
    segments = tuple(Segment(**each) for each in facts["segments"])
    for segment in segments:
        if os.path.basename(segment.name) != segment.name:
            raise ValueError(f"{segment.name!r} is not a name of a file")
    queues = tuple((str(topic), int(queue), int(count)) for topic, queue, count in facts["queues"])
    return TaskWritten(facts["partition"], segments, queues, facts["begun"])
