"""Plan the batches of a stream, and read them.

A log never changes, so that the same two offsets (`StreamOffset`) give the same rows each
time; a log that did change holds another record where the stream has read its last one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput.errors import CorruptFileError
from reput_arrow.logs.logplace import LogPlace
from reput_arrow.logs.openlog import OpenLog
from reput_arrow.reader.readtasks import Task, batches_of, bounds_of, rows_of
from reput_spark.errors import SparkReputError, reading_with_code
from reput_spark.reader.stream.growinglog import (
    beginning_of,
    end_behind,
    find_stream_logs,
    limited_end,
)
from reput_spark.reader.stream.offsets import Last, Places, StreamOffset, is_same_log, last_record
from reput_spark.reader.stream.options import StreamOptions
from reput_tools.offline import Split, plan_splits

if TYPE_CHECKING:
    import pyarrow as pa

    from reput.record import DispatchBatch
    from reput_arrow.reader.queuebounds import QueueOffsets


@attrs.define(eq=False)
class LogStream:
    """One stream: where it began, and how far it was planned. Lives as long as the query."""

    options: StreamOptions
    _beginning: StreamOffset | None = attrs.field(default=None, init=False)
    _planned: StreamOffset | None = attrs.field(default=None, init=False)
    _seen: Places = attrs.field(factory=dict, init=False)
    """How far each log went when it was looked at."""

    def initial(self) -> dict[str, Any]:
        """Return where a new query begins; the same each time."""
        return self._initial().as_json()

    def latest(
        self,
        start: Mapping[str, Any] | None = None,
        *,
        max_bytes: int | None = None,
        max_records: int | None = None,
        target: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return how far the next batch goes.

        Args:
            start: where it begins; where the last planned one ended, when left out.
            max_bytes: most bytes of the logs; None for any number.
            max_records: most records of the logs; None for any number.
            target: what not to go beyond: an offset that was found before.

        Raises:
            SparkReputError: no log at a path any more, or one that was cut.
        """
        known = self._planned if start is None else StreamOffset.parse(start)
        if known is None:
            known = self._initial()
        begin = known.places
        most = None if target is None else StreamOffset.parse(target).places
        ends = dict(begin)
        found = {}
        for key, place in self._places(begin).items():
            if most is not None and key not in most:
                continue  # it came to be after the target was found
            with _opened(place) as log:
                self._refuse_another(log, key, known)
                first = max(begin.get(key, 0), log.min_physical_offset)
                if most is not None and most[key] >= begin.get(key, 0):
                    ends[key] = max(most[key], first)
                else:  # also a log that had been cut when the target was found: this refuses it
                    ends[key] = self._end(key, log, first)
            if ends[key] > first:
                found[key] = place, first, ends[key]
        if max_bytes is not None or max_records is not None:
            ends |= _limited(found, max_bytes, max_records)
        last = dict(known.last)
        for key, (place, first, _) in found.items():
            if ends[key] > first:
                last |= _last_of(place, key, ends[key])
        return StreamOffset(ends, last, known.starts).as_json()

    def now(self) -> dict[str, Any]:
        """Return how far the logs go, whatever of them was streamed."""
        return self.latest(StreamOffset().as_json())

    def plan(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Task]:
        """Plan the tasks of a batch, in the order of the logs and of their bytes.

        Raises:
            SparkReputError: the logs no longer have what comes next, and that is to be an error.
        """
        first, last = StreamOffset.parse(start), StreamOffset.parse(end)
        begin, ends = first.places, last.places
        self._planned = last
        wanted = {key: place for key, place in ends.items() if place > begin.get(key, 0)}
        if not wanted:
            return []
        places = find_stream_logs(self.options.read.paths)
        tasks: list[Task] = []
        for key, stop in wanted.items():
            if key not in places:
                lost(self.options, key, begin.get(key, 0), None)
                continue
            with _opened(places[key]) as log:
                for each in (first, last):
                    self._refuse_another(log, key, each)
            # A log that came to be while the query ran is read from its first byte on.
            tasks += [
                attrs.evolve(each, bounds=first.bounds(key))
                for each in self._tasks(places[key], begin.get(key), stop)
            ]
        return tasks

    def _refuse_another(self, log: OpenLog, key: str, read: StreamOffset) -> None:
        """Refuse a log that holds another record where the stream has read its last one.

        Raises:
            SparkReputError: it does, and that is to be an error.
        """
        last = read.last.get(key)
        if last is None or not self.options.fail_on_data_loss or is_same_log(log, last):
            return
        raise SparkReputError(
            "DATA_LOSS",
            f"{log.files.directory} was cut or recreated, and has grown since: the stream has "
            f"read up to {read.places.get(key)}, and its last record, at {last[0]}, is another one "
            "now. Which rows are missing is not known. Begin a new query, with a checkpoint of "
            "its own (option starting says where); fail_on_data_loss=false goes on at the same "
            "place of the log that is there",
        )

    def _initial(self) -> StreamOffset:
        if self._beginning is None:
            places = find_stream_logs(self.options.read.paths)
            if isinstance(self.options.starting, int) and len(places) > 1:
                raise SparkReputError(
                    "OPTION",
                    f"option 'starting' is a physical offset, and there are {len(places)} logs; "
                    "stream one of them, or begin at a time",
                )
            begin = {}
            for key, place in places.items():
                with _opened(place) as log:
                    begin[key] = beginning_of(log, self.options)
            last = [_last_of(place, key, begin[key]) for key, place in places.items()]
            self._beginning = StreamOffset(
                begin,
                {key: found for each in last for key, found in each.items()},
                self._starts(places),
            )
        return self._beginning

    def _starts(self, places: Mapping[str, LogPlace]) -> dict[str, QueueOffsets]:
        """Return where the user, or the progress of a group, lets queues begin; nothing for all."""
        with reading_with_code():
            found = {key: bounds_of(self.options.read, place) for key, place in places.items()}
        return {key: bounds.starts for key, bounds in found.items() if bounds is not None}

    def _places(self, begin: Places) -> dict[str, LogPlace]:
        """Return the existing logs; the logs of ``begin`` must be among them.

        Raises:
            SparkReputError: a log of ``begin`` is gone, and an unknown one is there.
        """
        places = find_stream_logs(self.options.read.paths)
        gone = [key for key, place in begin.items() if place and key not in places]
        unknown = [key for key in places if key not in begin]
        if gone and unknown and self.options.fail_on_data_loss:
            raise SparkReputError(
                "DATA_LOSS",
                f"the checkpoint knows {', '.join(gone)}, not there any more, and not "
                f"{', '.join(unknown)}, which would be read from its first byte. Where that is the "
                "same log, moved: move it back, or begin a new query with a checkpoint of its own; "
                "where it is another one: fail_on_data_loss=false, until it was read once",
            )
        return places

    def _end(self, key: str, log: OpenLog, first: int) -> int:
        """Return how far a log goes; what an earlier batch looked at is not looked at again."""
        found = self._seen[key] = end_behind(log, max(first, self._seen.get(key, 0)))
        return found

    def _tasks(self, place: LogPlace, start: int | None, stop: int) -> list[Task]:
        options = self.options.read
        with _opened(place, stop) as log:
            first = log.min_physical_offset
            if start is not None and start < first:
                lost(self.options, place.directory, start, first)
            begin = max(start or 0, first)
            if options.split_size is None or options.corrupt != "fail":
                # A read past damage cannot detect a wrong cut: only files begin for certain.
                borders = [base for base in log.files.bases if begin < base < stop]
                pairs = itertools.pairwise([begin, *borders, stop]) if begin < stop else ()
                splits = [Split(number, *pair) for number, pair in enumerate(pairs)]
            else:
                splits = plan_splits(log, options.split_size, begin, stop)
        return [Task(place, split, stop) for split in splits]


def read_stream_task(
    task: Task, options: StreamOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Read the rows of one task of a batch.

    Raises:
        SparkReputError: damage, or files that were removed since the batch was planned, and that
            is to be an error.
    """
    with reading_with_code(), _opened(task.place, task.log_end) as log:
        yield from rows_of(_kept(log, task, options), task, options.read, schema)


def _kept(log: OpenLog, task: Task, options: StreamOptions) -> Iterator[DispatchBatch]:
    """Read the batches of a split whose files may be removed at any moment."""
    number, position, stop = task.split.number, task.split.start_offset, task.split.end_offset
    while position < stop:
        first = log.files.min_offset
        if not log.files.bases or position < first:
            lost(options, task.place.directory, position, first if log.files.bases else None)
            if not log.files.bases or first >= stop:
                return
            position = first
        try:
            for batch in batches_of(log, Split(number, position, stop), options.read):
                if batch.finding is not None and _is_gone(log, batch.finding.physical_offset):
                    break
                yield batch
                position = batch.end_offset
            else:
                return
        except CorruptFileError:
            if not _is_gone(log, position):
                raise


def _is_gone(log: OpenLog, position: int) -> bool:
    """List the files again, and return whether the one that held ``position`` was removed."""
    log.files.refresh()
    return position < log.files.min_offset or not log.files.bases


def lost(options: StreamOptions, name: str, start: int, first: int | None) -> None:
    """Raise for what a log no longer has, unless the options say to go on.

    Raises:
        SparkReputError: always, but with ``fail_on_data_loss=false``.
    """
    if not options.fail_on_data_loss:
        return
    now = "is not there any more" if first is None else f"begins at {first} now"
    raise SparkReputError(
        "DATA_LOSS",
        f"{name} {now}, and the stream comes from {start}: files were removed before they were "
        "read. fail_on_data_loss=false continues at the first byte of the log; keep files longer, "
        "or run the query more often, so that it does not happen again",
    )


def _limited(
    found: Mapping[str, tuple[LogPlace, int, int]], max_bytes: int | None, max_records: int | None
) -> Places:
    """Return the ends of one batch; what a short log leaves of its share goes to longer ones."""
    ends, left, records = {}, max_bytes, max_records
    ordered = sorted(found.items(), key=lambda each: each[1][2] - each[1][1])
    for done, (key, (place, first, end)) in enumerate(ordered):
        sharing = len(ordered) - done
        share = None if left is None else max(left // sharing, 1)
        count = None if records is None else max(records // sharing, 1)
        with _opened(place, end) as log:
            ends[key] = limited_end(log, first, end, share, count)
        left = None if left is None else max(left - (ends[key] - first), 0)
        records = None if records is None or count is None else max(records - count, 0)
    return ends


def _opened(place: LogPlace, end: int = 0) -> OpenLog:
    try:
        log = OpenLog(place)
    except CorruptFileError as error:
        raise SparkReputError("DAMAGED", str(error)) from error
    log.set_end(end)
    return log


def _last_of(place: LogPlace, key: str, end: int) -> dict[str, Last]:
    """Return the last record before ``end`` by the log's key; nothing for an empty log."""
    with _opened(place) as log:
        found = last_record(log, end)
    return {} if found is None else {key: found}
