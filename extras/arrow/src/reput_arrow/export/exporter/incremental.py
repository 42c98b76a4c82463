"""Exports that go on where the last one ended: each message once, whatever is killed on the way.

    target/export=0000000001/topic=orders/day=2026-01-31/….parquet
    target/export=0000000001/_state.json

What one run has written and how far it came are one directory, which gets its name in one step. So
the next run finds both, or neither. A lock keeps a second run away meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.log import LedgerFiles
from reput_arrow.codederrors import CodedError
from reput_arrow.logs.discovery import find_logs
from reput_arrow.logs.growinglog import LogCutError, end_behind
from reput_arrow.logs.logopening import open_log
from reput_arrow.reader.readtasks import Task
from reput_arrow.reader.timefiles import last_file_before
from reput_tools.offline import Split, plan_splits

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_arrow.logs.logplace import LogPlace
    from reput_arrow.logs.openlog import OpenLog
    from reput_arrow.reader.selection import Selection

STATE: Final = "_state.json"
_FORMAT: Final = 1
_LOCK: Final = "_lock"
_NAME: Final = re.compile(r"export=(\d{10})")
_TAIL_SIZE: Final = 64
_SPLIT_MIN: Final = 1 << 20
_TASKS_PER_PROCESS: Final = 3
_STATE_MAX: Final = 16 << 20


@attrs.frozen
class Reached:
    """How far a log was exported."""

    offset: int
    """Physical offset after the last record."""
    tail: str
    """Digest of the bytes before it, which a log that was made again does not have."""


@attrs.frozen
class State:
    """What the last increment has left for the next one."""

    number: int = 0
    """Of the increment; 0 before the first one."""
    asked: Mapping[str, Any] = attrs.field(factory=dict)
    """What was exported; the next increment must be asked for the same."""
    logs: Mapping[str, Reached] = attrs.field(factory=dict)
    """By the directory of each log."""

    def text(self) -> bytes:
        """Return what the file `STATE` holds."""
        document = {"format": _FORMAT, **attrs.asdict(self)}
        return json.dumps(document, indent=1).encode()


def name_of(number: int) -> str:
    """Return the name of an increment's directory."""
    return f"export={number:010d}"


@contextlib.contextmanager
def locked(target: str, disk: Disk) -> Iterator[None]:
    """Keep other exports away from a target.

    Raises:
        CodedError: one is running.
    """
    descriptor = disk.open(os.path.join(target, _LOCK), write=True, create=True)
    try:
        if not disk.lock(descriptor):
            raise CodedError(
                "LOCKED", f"{target}: another export is writing here; let it end first"
            )
        yield
    finally:
        disk.close(descriptor)


def read_state(target: str, disk: Disk) -> State:
    """Return the state of the newest increment.

    Raises:
        CodedError: there is something else than increments, or a state that cannot be read.
    """
    numbers = []
    for entry in disk.list(target):
        found = _NAME.fullmatch(entry.name)
        if found is not None:
            numbers.append(int(found[1]))
        elif not entry.name.startswith(("_", ".")):
            raise CodedError(
                "OPTION",
                f"{target}: holds {entry.name}, which is not an increment of an export; name "
                "another directory",
            )
    if not numbers:
        return State()
    path = os.path.join(target, name_of(max(numbers)), STATE)
    try:
        document = json.loads(disk.read_file(path, _STATE_MAX))
        if document["format"] != _FORMAT:
            raise ValueError(f"format {document['format']}, where {_FORMAT} is known")
        logs = {
            key: Reached(_offset(each["offset"]), str(each["tail"]))
            for key, each in document["logs"].items()
        }
        return State(max(numbers), dict(document["asked"]), logs)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CodedError(
            "DAMAGED",
            f"{path}: {type(error).__name__}: {error}; without it nothing says what was exported: "
            "restore it, or export everything into another directory",
        ) from error


def _offset(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"offset {value!r}")
    return value


# ------------------------------------------------------------------------- planning


def plan_increment(
    selection: Selection,
    state: State,
    parallelism: int,
    split_size: int,
    *,
    allow_loss: bool = False,
) -> tuple[list[Task], dict[str, Reached]]:
    """Plan the tasks of what came after a state.

    Args:
        selection: the exported messages.
        state: of the increment before.
        parallelism: tasks that run at once.
        split_size: most bytes of a split, about.
        allow_loss: go on where files were removed before they were exported.

    Returns:
        The tasks, and how far they go in each log.

    Raises:
        CodedError: a log has lost what comes next, or does not say what is committed.
    """
    ranges: list[tuple[LogPlace, int, int]] = []
    reached = dict(state.logs)
    for place in find_logs(selection.paths):
        key = os.path.realpath(place.directory) if "://" not in place.directory else place.directory
        with open_log(place, 0) as log:
            if isinstance(log.files, LedgerFiles) and log.files.committed_index is None:
                raise CodedError(
                    "OPTION",
                    f"{place.directory}: DLedger's file checkpoint does not name the last "
                    "committed entry, where an increment ends; put it back, or export without "
                    "--incremental",
                )
            begin, end = _range(log, place, selection, state.logs.get(key), allow_loss=allow_loss)
            if end > begin or key not in reached:
                reached[key] = Reached(end, _tail(log, end))
        if end > begin:
            ranges.append((place, begin, end))
    total = sum(end - begin for _, begin, end in ranges)
    size = min(split_size, max(total // (parallelism * _TASKS_PER_PROCESS), _SPLIT_MIN))
    tasks = [task for each in ranges for task in _tasks(*each, size, selection.corrupt)]
    return tasks, reached


def _range(
    log: OpenLog,
    place: LogPlace,
    selection: Selection,
    before: Reached | None,
    *,
    allow_loss: bool,
) -> tuple[int, int]:
    first = log.min_physical_offset
    begin = first
    if before is not None:
        begin = before.offset
        if begin < first:
            if not allow_loss:
                raise CodedError(
                    "DATA_LOSS",
                    f"{place.directory} begins at {first} now, and was exported up to {begin}: "
                    "files were removed before they were exported. Allow the loss to go on with "
                    "what is there (--allow-loss), keep files longer, or export more often",
                )
            begin = first
        elif begin > first and _tail(log, begin) != before.tail:
            raise _made_again(LogCutError(place.directory, begin))
    elif selection.start_timestamp is not None:
        begin = last_file_before(log, selection.start_timestamp)
    try:
        return begin, end_behind(log, begin)
    except LogCutError as error:
        raise _made_again(error) from error


def _made_again(error: LogCutError) -> CodedError:
    return CodedError(
        "DATA_LOSS", f"{error}. What it holds now is another log: export it to another directory"
    )


def _tail(log: OpenLog, offset: int) -> str:
    """Return a digest of the bytes before ``offset``, as far as they are in the same file."""
    base = log.files.base_of(offset - 1) if offset else None
    if base is None:
        return ""
    size = min(_TAIL_SIZE, offset - base)
    return hashlib.sha256(log.files.read(offset - size, size)).hexdigest()[:32]


def _tasks(place: LogPlace, begin: int, end: int, size: int, corrupt: str) -> list[Task]:
    with open_log(place, end) as log:
        if corrupt != "fail":
            # A read past damage cannot tell a wrong cut: only files begin for certain.
            borders = [base for base in log.files.bases if begin < base < end]
            pairs = itertools.pairwise([begin, *borders, end])
            splits = [Split(number, *pair) for number, pair in enumerate(pairs)]
        else:
            splits = plan_splits(log, size, begin, end)
    return [Task(place, split, end) for split in splits]
