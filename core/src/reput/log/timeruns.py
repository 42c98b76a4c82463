"""Where the store times of a log go back, as when a clock was set back; a value of ``reput/state``.

    [[0,1700007200000,1700007209000,true],[1180,1700000000000,null,true]]

Searches by time halve, which is right only where times ascend. A *run* is a part of the log in
which they do: it begins at a physical offset and ends where the next one begins. Its lowest and its
highest time are known, but for the highest of the last run. Most logs have one run, and no value.
Where times go back very often, neighbouring runs are joined to one that is not sorted.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final, Self

import attrs
import numpy as np

from reput.errors import UnsafePathError
from reput.log.statefile import StateFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput.files import Disk
    from reput.log.reader.logview import LogView
    from reput.record import DispatchBatch

logger = logging.getLogger(__name__)

TIMES: Final = ".times"
"""Name of the value."""
CLOCK_SLACK_MS: Final = 60_000
"""By how much a clock may have been put back without a message being missed, where that is not
known."""
_RUNS_MAX: Final = 1_024
_OFFSET_MAX: Final = (1 << 63) - 1


@attrs.frozen
class TimeRun:
    """A part of the log."""

    start_offset: int
    """Physical offset of its first record."""
    lowest: int
    """No message of it was stored before, ms."""
    highest: int | None = None
    """None was stored later, ms; None for the last run, which grows."""
    is_sorted: bool = True
    """Whether its store times ascend."""


FIRST: Final = TimeRun(0, 0)
"""The run of a log whose times are not known to go back."""


@attrs.define(eq=False)
class TimeRuns:
    """The runs of one log. One thread changes them; any thread may ask for the `known` ones.

    The value is read when it is needed: by a search, or when a time goes back.
    """

    state: StateFile | None = None
    """The store's state file; None for runs that are not kept in a file."""
    is_writer: bool = False
    """Whether no other process changes the file meanwhile."""
    runs: tuple[TimeRun, ...] = (FIRST,)
    """In the log's order, once the value was read; the tuple is replaced whole."""
    has_begun: bool = False
    """Whether `begin` was called."""
    is_changed: bool = False
    """Whether the value lacks some of `runs`."""
    _is_loaded: bool = False
    _begun_at: int = _OFFSET_MAX
    """Physical offset of `begin`; runs of the value that begin there or later do not count."""
    _noted_to: int = 0
    """Physical offset below which all records were noted."""
    _last: int = 0
    """Store time of the last of them, ms."""
    _saved: tuple[TimeRun, ...] = (FIRST,)

    @classmethod
    def of(cls, root: str, disk: Disk) -> Self:
        """Return those of the store in ``root``, as its state file says now.

        Without a value, times are taken as ascending.
        """
        found = cls(StateFile.of(root, disk))
        found.load()
        return found

    def load(self) -> None:
        """Read the value again."""
        self._saved = self._read()
        self.runs = _until(self._saved, self._begun_at)
        self._is_loaded = True
        self.is_changed = self.runs != self._saved

    def known(self) -> tuple[TimeRun, ...]:
        """Return the runs, in the log's order, on any thread."""
        # Not kept: the thread that notes times may read the file itself at the same time.
        return self.runs if self._is_loaded else _until(self._read(), self._begun_at)

    def _read(self) -> tuple[TimeRun, ...]:
        if self.state is None:
            return (FIRST,)
        try:
            if not self.is_writer:
                self.state.load()
            value = self.state.value(TIMES)
            return _checked(json.loads(value)) if value else (FIRST,)
        except UnsafePathError:
            raise
        except OSError as error:  # messages can be read without it
            logger.warning("file not readable, times taken as ascending error=%s", error)
        except (ValueError, TypeError, RecursionError) as error:
            logger.warning("runs of store times ignored error=%s", error)
        return (FIRST,)

    def first_file_since(self, log: LogView, timestamp: int) -> int:
        """Return the start of a log file before which nothing was stored from a time on.

        Where times are not known to go back, the time of each file's first message is looked at: a
        clock that was set back, and caught up within one file, goes unnoticed.

        Args:
            log: the log.
            timestamp: store time, ms.
        """
        lowest, size = log.min_physical_offset, log.file_size
        if timestamp <= CLOCK_SLACK_MS:
            return lowest  # all
        for run in self.runs[:-1]:
            if run.highest is None or run.highest >= timestamp:
                return max(run.start_offset // size * size, lowest)
        if len(self.runs) > 1:
            lowest = max(lowest, self.runs[-1].start_offset // size * size)
        found = start = max((log.max_physical_offset - 1) // size * size, lowest)
        while start > lowest:
            # The file before may end with messages of that time. All files are looked at, and not
            # only the newest ones up to the first that is early enough.
            first = log.store_timestamp_at(start)
            start -= size
            if not 0 <= first <= timestamp - CLOCK_SLACK_MS:
                found = max(start, lowest)
        return found

    def comes_again(self, physical_offset: int, timestamp: int) -> bool:
        """Whether a later part of the log has messages that were stored until a time."""
        return any(
            run.start_offset >= physical_offset and run.lowest <= timestamp for run in self.runs
        )

    # ------------------------------------------------------------------ noting

    def begin(self, physical_offset: int, timestamp: int) -> None:
        """Go on at a record.

        Args:
            physical_offset: of the next record; runs that begin there or later do not count.
            timestamp: store time of the one before it, ms; -1 if it is not known.
        """
        self.has_begun, self._begun_at, self._noted_to = True, physical_offset, physical_offset
        if self._is_loaded:
            self._change(_until(self.runs, physical_offset))
        if timestamp < 0 and physical_offset > 0:
            timestamp = _OFFSET_MAX  # the next record begins a run, whatever its time is
        self._last = max(timestamp, 0)

    def note(self, batch: DispatchBatch) -> None:
        """Note the store times of a batch, but for records that were noted."""
        times = batch.column("store_timestamp")
        if not len(times):
            return
        if times[0] < self._last or (times[1:] < times[:-1]).any():
            batch = batch.after(self._noted_to)
            times = batch.column("store_timestamp")
            if not len(times):
                return
            steps = np.flatnonzero(times[1:] < times[:-1]) + 1
            goes_back = int(times[0]) < self._last
            if goes_back or len(steps):
                self._add(batch, [*([0] if goes_back else []), *map(int, steps)])
        self._last, self._noted_to = int(times[-1]), max(self._noted_to, batch.end_offset)

    def _add(self, batch: DispatchBatch, rows: list[int]) -> None:
        """Begin runs at rows of a batch, each of which is earlier than the one before it."""
        if not self._is_loaded:
            self.load()
        times, runs = batch.store_timestamp, list(self.runs)
        for row in rows:
            before = int(times[row - 1]) if row else self._last
            if runs[-1].highest is None:
                highest = before if runs[-1].is_sorted else _OFFSET_MAX
                runs[-1] = attrs.evolve(runs[-1], highest=highest)
            runs.append(TimeRun(int(batch.physical_offset[row]), int(times[row])))
            if len(runs) > _RUNS_MAX:
                runs = _joined(runs)
        self._change(tuple(runs))

    def trim(self, min_physical_offset: int) -> None:
        """Forget runs of records that the log has lost."""
        if not self._is_loaded:
            self.load()
        runs = self.runs
        while len(runs) > 1 and runs[1].start_offset <= min_physical_offset:
            runs = runs[1:]
        self._change(runs)

    def _change(self, runs: tuple[TimeRun, ...]) -> None:
        if runs != self.runs:
            self.runs, self.is_changed = runs, True

    def save(self) -> None:
        """Write the value if anything has changed; on disk when this returns.

        Raises:
            OSError: the file cannot be written.
        """
        self.is_changed = False  # before: more may be noted meanwhile
        runs = self.runs
        if runs == self._saved:
            return
        rows = [[each.start_offset, each.lowest, each.highest, each.is_sorted] for each in runs]
        data = json.dumps(rows, separators=(",", ":")).encode()
        try:
            if self.state is not None:
                self.state.note({TIMES: data if runs != (FIRST,) else b""})
        except BaseException:
            self.is_changed = True
            raise
        self._saved = runs


def _until(runs: tuple[TimeRun, ...], physical_offset: int) -> tuple[TimeRun, ...]:
    """Return the runs that begin before an offset; the last one of them grows."""
    kept = tuple(run for run in runs if run.start_offset < max(physical_offset, 1))
    if len(kept) == len(runs):
        return runs
    return (*kept[:-1], attrs.evolve(kept[-1], highest=None)) if kept else (FIRST,)


def _joined(runs: list[TimeRun]) -> list[TimeRun]:
    """Return half as many runs: pairs of neighbours as one, but for the newest ones."""
    count = len(runs) // 4 * 3 // 2 * 2
    pairs = zip(runs[:count:2], runs[1:count:2], strict=True)
    return [*(_union(one, other) for one, other in pairs), *runs[count:]]


def _union(one: TimeRun, other: TimeRun) -> TimeRun:
    highest = [each.highest for each in (one, other) if each.highest is not None]
    lowest = min(one.lowest, other.lowest)
    return TimeRun(one.start_offset, lowest, max(highest), is_sorted=False)


def _checked(rows: Iterable[Any]) -> tuple[TimeRun, ...]:
    runs: list[TimeRun] = []
    for row in rows:
        start, lowest, highest, is_sorted = row
        run = TimeRun(start, lowest, highest, is_sorted)
        numbers = [run.start_offset, run.lowest, *([] if run.highest is None else [run.highest])]
        if not all(type(each) is int and 0 <= each <= _OFFSET_MAX for each in numbers):
            raise ValueError(f"a run of {row!r}")
        if type(run.is_sorted) is not bool:
            raise ValueError(f"a run of {row!r}")
        if runs and (run.start_offset <= runs[-1].start_offset or runs[-1].highest is None):
            raise ValueError("runs that are out of order")
        runs.append(run)
    if not runs:
        raise ValueError("no run")
    return tuple(runs)
