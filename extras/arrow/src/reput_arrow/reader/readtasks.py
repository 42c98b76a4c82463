"""Plan the tasks of a read, and make Arrow batches of each task, perhaps in another process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from reput.errors import CodecNotFoundError, CorruptFileError, UnpackError
from reput.record import unwrapped_batch
from reput_arrow.logs.discovery import find_logs
from reput_arrow.logs.logopening import open_log
from reput_arrow.logs.logplace import LogPlace
from reput_arrow.logs.openlog import OpenLog
from reput_arrow.reader.pruning.planner import prune
from reput_arrow.reader.pruning.recordreader import Left, PartReader
from reput_arrow.reader.queuebounds import QueueBounds
from reput_arrow.reader.rowfilter import Condition, wanted_rows
from reput_arrow.reader.selection import BROKER_COLUMN, DAMAGE_COLUMN, STORE_COLUMN
from reput_arrow.reader.timefiles import first_file_after, last_file_before
from reput_arrow.reader.timesearch import end_after, start_before
from reput_arrow.reader.unknowntopics import warn_of_unknown
from reput_arrow.recordbatches import to_arrow
from reput_tools.offline import Split, plan_splits, read_split

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from reput.record import Corruption, DispatchBatch
    from reput_arrow.reader.pruning.prunedread import KeyPlaces, QueueRanges
    from reput_arrow.reader.selection import Selection


@attrs.frozen
class Task:
    """One split of one log, which one task reads; plain values."""

    place: LogPlace
    split: Split
    log_end: int
    rows_from: int = 0
    """Physical offset of the first row; records before it are passed over."""
    part: QueueRanges | KeyPlaces | None = None
    """What is read by its places, where not all of the split is."""
    bounds: QueueBounds | None = None
    """Queue offsets wanted in this log, by queue."""

    @property
    def size(self) -> int:
        """Bytes of the log in it."""
        return self.split.size

    def __str__(self) -> str:
        split = self.split
        where = f"[{split.start_offset}, {split.end_offset}) of {self.place.directory}"
        return f"split {split.number} {where}"


def plan_tasks(options: Selection) -> list[Task]:
    """Plan the tasks of a read, in the order of the logs and of their bytes.

    Args:
        options: of the read; parts of a log that they rule out get no task.

    Raises:
        StoreNotFoundError: no log at a path.
        CorruptFileError: a log that cannot be read.
    """
    low, high = options.min_offset, options.max_offset
    tasks: list[Task] = []
    places = find_logs(options.paths)
    if options.topics is not None:
        warn_of_unknown(places, options.topics)
    for place in places:
        bounds = bounds_of(options, place)
        wanted = options
        if bounds is not None:  # which the caller may not know: of a group, each store has others
            topics = options.topics
            topics = bounds.topics if topics is None else topics & bounds.topics
            wanted = attrs.evolve(options, topics=topics)
        with _looked_at(place, options) as log:
            found = _tasks(log, place, wanted, low, high)
            tasks += [attrs.evolve(each, bounds=bounds) for each in found]
    return tasks


def bounds_of(options: Selection, place: LogPlace) -> QueueBounds | None:
    """Return the queue offsets that are wanted of a log, by queue; None for all.

    Raises:
        ConfigError: the store has no offsets of the group that is asked for.
    """
    return options.bounds if options.group is None else QueueBounds.of_group(options.group, place)


@contextlib.contextmanager
def _looked_at(place: LogPlace, options: Selection) -> Iterator[OpenLog]:
    """Open a log whose end is known, or is not looked for as it is later than what is wanted."""
    with open_log(place, 0) as log:
        after = None
        if options.end_timestamp is not None:
            after = first_file_after(log, options.end_timestamp)
        if after is None:
            log.find_end(quickly=not _by_file(options))
        else:
            log.set_end(after)
        yield log


def _tasks(
    log: OpenLog, place: LogPlace, options: Selection, low: int | None, high: int | None
) -> list[Task]:
    """Return the tasks of one log that may hold a record at ``[low, high)``."""
    start, end = log.min_physical_offset, log.max_physical_offset
    rows_from = 0
    within = not _by_file(options)
    if options.start_timestamp is not None:
        start = max(start, last_file_before(log, options.start_timestamp))
    if options.end_timestamp is not None and within:
        end = end_after(log, start, end, options.end_timestamp)
    if options.start_timestamp is not None and within:
        window = start_before(log, start, end, options.start_timestamp)
        start, rows_from = window.start, window.rows_from
    # Files begin at a border; where else one is, only looking tells.
    if low is not None:
        start = max(start, _file_border(log, low))
    if high is not None:
        end = min(end, _file_border(log, high + log.file_size - 1))
    pruned = prune(log, place, options, start, end)
    found: list[tuple[int, Split | QueueRanges | KeyPlaces]]
    found = [(part.begin, part) for part in pruned.parts]
    size = place.file_size if _by_file(options) else options.split_size
    assert size is not None
    for begin, stop in pruned.ranges:
        for split in plan_splits(log, size, begin, stop):
            is_below = high is None or split.start_offset < high
            if (low is None or split.end_offset > low) and is_below:
                found.append((split.start_offset, split))
    tasks = []
    for number, (_, each) in enumerate(sorted(found, key=lambda pair: pair[0])):
        if isinstance(each, Split):
            split, part = attrs.evolve(each, number=number), None
        else:
            split, part = Split(number, each.begin, each.begin), each
        tasks.append(Task(place, split, log.max_physical_offset, rows_from, part))
    return tasks


def _by_file(options: Selection) -> bool:
    """Whether splits begin where files do, and nowhere else.

    A cut may fall for a body that holds a record. A read that fails at damage notices when it lands
    after the cut; a read that skips damage would take the body's content for records, and so begins
    at whole files.
    """
    return options.split_size is None or options.corrupt != "fail"


def _file_border(log: OpenLog, offset: int) -> int:
    """Return where the file begins that holds ``offset``, also where there is no such file yet."""
    first = log.min_physical_offset
    return first + (offset - first) // log.file_size * log.file_size


def read_task(task: Task, options: Selection, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of one task.

    Args:
        task: what to read.
        options: of the read.
        schema: of the batches: columns of `reput_arrow.COLUMNS`, `STORE_COLUMN`, `BROKER_COLUMN`,
            `DAMAGE_COLUMN`.

    Raises:
        CorruptFileError: damage, and ``corrupt`` is ``"fail"``.
    """
    conditions = (Condition("physical_offset", ">=", task.rows_from),) if task.rows_from else ()
    with open_log(task.place, task.log_end) as log:
        if task.part is None:
            log.fit_window(task.split.start_offset)
            batches = batches_of(log, task.split, options)
            yield from rows_of(batches, task, options, schema, conditions)
            return
        reader = PartReader(log, task.place, task.part, options.check_crc)
        yield from rows_of(reader.batches(), task, options, schema)
        if reader.left is not None:
            # What leads to the records is wrong: all of the log tells.
            split = Split(task.split.number, log.min_physical_offset, task.log_end)
            batches = batches_of(log, split, options)
            yield from rows_of(batches, task, options, schema, (reader.left,))


def rows_of(
    batches: Iterable[DispatchBatch],
    task: Task,
    options: Selection,
    schema: pa.Schema,
    conditions: tuple[Condition | Left, ...] = (),
) -> Iterator[pa.RecordBatch]:
    """Make Arrow batches of the batches that one task has read; see `read_task`.

    The messages of an inner batch are rows of their own.
    """
    added = (STORE_COLUMN, BROKER_COLUMN, DAMAGE_COLUMN)
    columns = [name for name in schema.names if name not in added]
    plain = pa.schema([schema.field(name) for name in columns])
    for stored in batches:
        batch = unwrapped_batch(stored)
        rows = wanted_rows(batch, options, conditions, task.bounds)
        if rows is None or rows.any():
            for first in range(0, len(batch), options.batch_rows):
                part = slice(first, first + options.batch_rows)
                wanted = None if rows is None else rows[part]
                for made in _made(batch[part], wanted, plain, raw=options.raw):
                    yield _completed(made, schema, task)
        if batch.finding is not None and options.is_reporting:
            low, high = options.min_offset, options.max_offset
            at = batch.finding.physical_offset
            if (low is None or at >= low) and (high is None or at < high):
                yield _damage_row(batch.finding, schema, task)


def batches_of(log: OpenLog, split: Split, options: Selection) -> Iterator[DispatchBatch]:
    """Read the batches of one split; each is valid until the next one is taken.

    Raises:
        CorruptFileError: damage, and ``corrupt`` is ``"fail"``.
    """
    if options.corrupt != "fail":
        yield from log.scan(split.start_offset, split.end_offset, check_crc=options.check_crc)
        return
    try:
        yield from read_split(log, split, check_crc=options.check_crc)
    except CorruptFileError as error:
        raise CorruptFileError(
            error.path, error.position, f"{error.reason}. {_advice(options)}"
        ) from error


def _advice(options: Selection) -> str:
    """Return what to try where damage ends a read."""
    shows = "corrupt=skip leaves out what is damaged, and corrupt={} shows it"
    if options.split_size is None:
        return shows.format("report")
    whole = "Option split_size=file reads whole files in one piece; if that fails, too, "
    return whole + shows.format("collect")


def _made(
    batch: DispatchBatch,
    wanted: npt.NDArray[np.bool_] | None,
    plain: pa.Schema,
    *,
    raw: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch that are wanted: in one piece, if its bodies fit when unpacked."""
    if wanted is not None and not wanted.any():
        return
    try:
        made = to_arrow(batch, plain, raw=raw)
    except CodecNotFoundError:
        raise
    except UnpackError:
        if len(batch) <= 1:
            raise
        middle = len(batch) // 2
        for rows in (slice(0, middle), slice(middle, len(batch))):
            yield from _made(batch[rows], None if wanted is None else wanted[rows], plain, raw=raw)
        return
    yield made if wanted is None or wanted.all() else made.filter(pa.array(wanted))


def _completed(made: pa.RecordBatch, schema: pa.Schema, task: Task) -> pa.RecordBatch:
    """Return ``made`` with the columns that are not the log's own."""
    if made.schema.names == schema.names:
        return made
    count = made.num_rows
    arrays = []
    for field in schema:
        if field.name == STORE_COLUMN:
            arrays.append(pa.repeat(pa.scalar(task.place.store), count))
        elif field.name == BROKER_COLUMN:
            arrays.append(pa.repeat(pa.scalar(task.place.broker), count))
        elif field.name == DAMAGE_COLUMN:
            arrays.append(pa.nulls(count, pa.string()))
        else:
            arrays.append(made.column(field.name))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _damage_row(finding: Corruption, schema: pa.Schema, task: Task) -> pa.RecordBatch:
    """Return one row that says where something is damaged, and what."""
    known = {
        "physical_offset": finding.physical_offset,
        STORE_COLUMN: task.place.store,
        BROKER_COLUMN: task.place.broker,
        DAMAGE_COLUMN: f"{finding.reason.value} ({finding.detail})",
    }
    arrays = [pa.array([known.get(field.name)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
