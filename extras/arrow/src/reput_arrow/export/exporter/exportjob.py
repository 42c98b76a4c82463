"""`export`: plan the tasks, have an engine do them, and publish what they wrote in one step.

    target/topic=orders/day=2026-01-31/00000000000000000000-5f0c….parquet

Everything is written in a directory beside the target. In the end the files of attempts that do
not count are removed, and the directory gets the target's name: a reader of the target sees nothing
of an export, or all of it.
"""

from __future__ import annotations

import functools
import os
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
from pyarrow import fs

from reput.files import Disk
from reput_arrow import COLUMNS, schema_of
from reput_arrow.codederrors import CodedError, reading_with_code
from reput_arrow.export.exporter.exportrequest import (
    COMPRESSIONS,
    FORMS,
    PARTS,
    Exported,
    ExportRequest,
)
from reput_arrow.export.exporter.incremental import (
    STATE,
    State,
    locked,
    name_of,
    plan_increment,
    read_state,
)
from reput_arrow.export.exporter.taskfiles import (
    Written,
    beside,
    file_columns,
    place_of,
    write_task,
)
from reput_arrow.reader.selection import Selection
from reput_arrow.reader.wholelogs import plan_selection
from reput_arrow.scanner.scanrequest import compiled, milliseconds, one_or_many, paths_of
from reput_tools.offline import SPLIT_SIZE, LocalEngine

if TYPE_CHECKING:
    from reput_arrow.reader.readtasks import Task
    from reput_arrow.scanner.scanrequest import Moment, Paths
    from reput_tools.offline import Engine

__all__ = ["Exported", "export"]

_WORTH_PROCESSES: Final = 32 << 20
"""Bytes of the log for which further processes are begun: that takes a second."""
_WITHOUT_RENAME: Final = ("s3", "gcs", "abfs")


def export(
    paths: Paths,
    target: str | os.PathLike[str],
    engine: Engine,
    *,
    columns: Iterable[str] | None = None,
    split_size: int = SPLIT_SIZE,
    corrupt: str = "fail",
    compression: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    form: str = "parquet",
    partition_by: Sequence[str] = ("topic", "day"),
    topic: str | Iterable[str] | None = None,
    queue: int | Iterable[int] | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    where: str | None = None,
    raw: bool = False,
    incremental: bool = False,
    allow_loss: bool = False,
) -> Exported:
    """Write messages of logs as files, in directories by topic and UTC day stored.

    Args:
        paths: a store or several, as for `reput_arrow.scan`.
        target: a directory that is not there yet, or a URI that `pyarrow.fs` knows; the same place
            for all processes that run tasks.
        engine: `reput_tools.offline.LocalEngine`, or `reput_spark.jobs.sparkengine.SparkEngine`.
        columns: of `reput_arrow.COLUMNS`; all when left out. Columns that directories are made by
            are in names of directories.
        split_size: bytes of the log in a task, about.
        corrupt: ``"fail"``, or ``"skip"`` to leave out what is damaged. A body that does not match
            its checksum is damaged, if bodies are exported.
        compression: ``"zstd"``, ``"none"`` and others of `COMPRESSIONS`; zstd for Parquet and none
            for text when left out.
        progress: called with bytes done and bytes in all.
        form: ``"parquet"``, ``"jsonl"`` or ``"csv"``.
        partition_by: directories, outer ones first: ``"topic"``, ``"queue"``, ``"day"``,
            ``"hour"``.
        topic: only these topics.
        queue: only these queues.
        since: store time of the oldest message wanted.
        until: store time after that of the newest message wanted.
        where: a condition on properties in SQL92; needs reput-filter.
        raw: leave bodies that a producer compressed as stored.
        incremental: the target grows: only what is new since the last such export is written, as a
            directory of its own that appears in one step. It must be asked for the same each time.
        allow_loss: with ``incremental``, go on where files were removed before they were exported.

    Raises:
        CodedError: no log at a path, something at the target, damage, an option that cannot be, or
            a task that failed. Nothing of this export is left at the target.
    """
    target = os.fspath(target)
    target = target if "://" in target else os.path.abspath(target)  # tasks may run elsewhere
    names = tuple(each.name for each in COLUMNS) if columns is None else tuple(columns)
    with reading_with_code():
        selection = Selection(
            paths=paths_of(paths),
            topics=one_or_many("topic", topic, str),
            queue_ids=one_or_many("queue", queue, int),
            start_timestamp=milliseconds("since", since),
            end_timestamp=milliseconds("until", until),
            filter=compiled(where),
            corrupt=corrupt,
            check_crc="body" in names,
            split_size=split_size,
            raw=raw,
        )
    staging = f"_{os.path.basename(target.rstrip('/'))}-{uuid.uuid4().hex}.staging"
    order = ExportRequest(
        target,
        staging,
        selection,
        names,
        form,
        tuple(partition_by),
        compression or COMPRESSIONS.get(form, ("",))[0],
    )
    _check(order)
    told = progress or (lambda done, total: None)
    if incremental:
        return _export_new(order, where, engine, told, split_size, allow_loss=allow_loss)
    system, directory = place_of(target)
    if system.type_name in _WITHOUT_RENAME:
        raise CodedError(
            "OPTION",
            f"{target}: {system.type_name} cannot rename a directory, so that half an export could "
            "be seen; export elsewhere and copy it, or write the DataFrame of a read with Spark",
        )
    if system.get_file_info(directory).type != fs.FileType.NotFound:
        raise CodedError(
            "OPTION",
            f"{target}: this file or directory exists already; name one that does not exist",
        )
    with reading_with_code():
        tasks = plan_selection(selection, engine.parallelism)
    return _run(
        order,
        tasks,
        engine,
        told,
        lambda aside: _publish(system, aside, directory),
        functools.partial(_refuse_nothing, selection),
    )


def _check(order: ExportRequest) -> None:
    """Refuse an order that no task could follow."""
    for name, value, known in [
        ("form", order.form, FORMS),
        ("corrupt", order.selection.corrupt, ("fail", "skip")),
        ("compression", order.compression, COMPRESSIONS.get(order.form, ())),
        *(("partition_by", part, PARTS) for part in order.partition_by),
    ]:
        if value not in known:
            raise CodedError("OPTION", f"{name} is {value!r}; {', '.join(known)} expected")
    for name, values in [("partition_by", order.partition_by), ("columns", order.columns)]:
        if len(set(values)) < len(values):
            raise CodedError("OPTION", f"{name} names {', '.join(values)}: one of them twice")
    try:
        schema_of(order.columns)
    except ValueError as error:
        raise CodedError("OPTION", str(error)) from None
    if not file_columns(order):
        raise CodedError("OPTION", "no column is left for the files; name more columns")


def _run(
    order: ExportRequest,
    tasks: list[Task],
    engine: Engine,
    told: Callable[[int, int], None],
    publish: Callable[[str], None],
    refuse_nothing: Callable[[list[Written]], None] = lambda written: None,
) -> Exported:
    """Have the tasks done in a staging directory, and publish it; after an error, remove it."""
    system, directory = place_of(order.target)
    aside = beside(directory, order.staging)
    size = sum(task.size for task in tasks)
    work = functools.partial(write_task, order)
    if isinstance(engine, LocalEngine) and not engine.is_here and size < _WORTH_PROCESSES:
        engine = LocalEngine(1)
    try:
        system.create_dir(aside)
        written: list[Written] = engine.run(work, tasks, lambda done: told(done, size))
        refuse_nothing(written)
        files = {f"{aside}/{name}" for each in written for name in each.files}
        sizes = _drop_others(system, aside, files)
        publish(aside)
    except BaseException:
        if system.get_file_info(aside).type != fs.FileType.NotFound:
            system.delete_dir(aside)
        raise
    return Exported(
        sum(each.message_count for each in written),
        size,
        len(files),
        sizes,
        sum(each.damage_count for each in written),
    )


def _refuse_nothing(selection: Selection, written: list[Written]) -> None:
    """Raise if no message exists, and topics are all that was asked for: their names are wrong.

    Raises:
        CodedError: it is so.
    """
    others = (selection.queue_ids, selection.start_timestamp, selection.end_timestamp)
    if (
        selection.topics is None
        or any(each is not None for each in (*others, selection.filter))
        or any(each.message_count or each.damage_count for each in written)
    ):
        return
    names = " and ".join(map(repr, sorted(selection.topics)))
    word = "topic" if len(selection.topics) == 1 else "topics"
    raise CodedError("NO_TOPIC", f"no message of the {word} {names} in the log; nothing is written")


def _drop_others(system: Any, aside: str, files: set[str]) -> int:
    """Remove files that are not among ``files``: of attempts that do not count.

    Returns:
        Bytes of ``files``.

    Raises:
        CodedError: a file that was written is not there.
    """
    found = system.get_file_info(fs.FileSelector(aside, recursive=True))
    sizes = {each.path: each.size for each in found if each.type == fs.FileType.File}
    for path in sizes.keys() - files:
        system.delete_file(path)
    missing = files - sizes.keys()
    if missing:
        raise CodedError(
            "JOB",
            f"{min(missing)}: a task has written this file, and it is not there; the target must "
            "be the same place for the driver and for all executors",
        )
    return sum(sizes[path] for path in files)


def _publish(system: Any, aside: str, directory: str) -> None:
    """Give a staging directory the target's name."""
    with system.open_output_stream(f"{aside}/_SUCCESS"):
        pass
    system.move(aside, directory)


# --------------------------------------------------------------------------- increments


def _export_new(
    order: ExportRequest,
    where: str | None,
    engine: Engine,
    told: Callable[[int, int], None],
    split_size: int,
    *,
    allow_loss: bool,
) -> Exported:
    """Write what is new, as the next increment of the target."""
    if "://" in order.target:
        raise CodedError(
            "OPTION",
            f"{order.target}: increments need a directory of this machine, where one rename "
            "publishes each; export there and copy it",
        )
    parent = os.path.dirname(order.target)
    disk = Disk().at(parent)
    disk.make_directory(order.target, durable=True)
    asked = _asked(order, where)
    with locked(order.target, disk):
        _sweep(order.target, disk)
        state = read_state(order.target, disk)
        _refuse_other(state, asked, order.target)
        with reading_with_code():
            tasks, reached = plan_increment(
                order.selection, state, engine.parallelism, split_size, allow_loss=allow_loss
            )
        if not tasks:
            return Exported(0, 0, 0, 0)
        following = State(state.number + 1, asked, reached)

        def publish(aside: str) -> None:
            disk.replace(os.path.join(aside, STATE), following.text())
            _flush(aside, disk)
            disk.rename(aside, os.path.join(order.target, name_of(following.number)))
            disk.flush_directory(order.target)

        done = _run(order, tasks, engine, told, publish)
    return attrs.evolve(done, increment=following.number)


def _asked(order: ExportRequest, where: str | None) -> dict[str, Any]:
    """Return what must stay the same from increment to increment, as JSON has it."""
    chosen = order.selection
    return {
        "form": order.form,
        "columns": list(order.columns),
        "partition_by": list(order.partition_by),
        "topic": None if chosen.topics is None else sorted(chosen.topics),
        "queue": None if chosen.queue_ids is None else sorted(chosen.queue_ids),
        "since": chosen.start_timestamp,
        "until": chosen.end_timestamp,
        "where": where,
        "raw": chosen.raw,
    }


def _refuse_other(state: State, asked: dict[str, Any], target: str) -> None:
    for name, value in asked.items():
        if state.number and state.asked.get(name) != value:
            raise CodedError(
                "OPTION",
                f"{target}: was exported with {name} {state.asked.get(name)!r}, and {value!r} is "
                "asked for now; ask for the same, or name another directory",
            )


def _sweep(target: str, disk: Disk) -> None:
    """Remove what exports that died have left beside a target that is locked."""
    parent, base = os.path.split(target)
    left = re.compile(rf"_{re.escape(base)}-[0-9a-f]{{32}}\.staging")
    for entry in disk.list(parent):
        if left.fullmatch(entry.name) is not None:
            disk.remove_tree(entry.path)


def _flush(directory: str, disk: Disk) -> None:
    """Bring all files below a directory to the disk, and the directories that name them."""
    for entry in disk.list(directory):
        if entry.is_dir():
            _flush(entry.path, disk)
        else:
            descriptor = disk.open(entry.path)
            try:
                disk.flush(descriptor)
            finally:
                disk.close(descriptor)
    disk.flush_directory(directory)
