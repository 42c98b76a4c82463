"""`import_`: a new store of rows that were exported, or written by others."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from reput.files import Disk
from reput_arrow import INPUT_COLUMNS
from reput_arrow.codederrors import CodedError, with_code
from reput_arrow.export.importer.inputfiles import find_sources
from reput_arrow.export.importer.merge import merged
from reput_arrow.localpaths import local_path
from reput_arrow.logwriter.publication.commit import abort_write, intent_of, publish_write
from reput_arrow.logwriter.staging.segments import write_task
from reput_arrow.logwriter.writeoptions import KEPT, WriteOptions
from reput_arrow.logwriter.writeplan import plan_write
from reput_tools.offline import LocalEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reput_arrow.logwriter.publication.publish import Published

_NAMES: Final = frozenset(each.name for each in INPUT_COLUMNS)


def import_(
    source: str | os.PathLike[str],
    store: str | os.PathLike[str],
    *,
    file_size: int | None = None,
    dispatch: bool = True,
    write_id: str | None = None,
    follow_links: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Published:
    """Make a store of exported files: the same messages, each queue in the order that it had.

    The messages stand in the order of the column ``physical_offset``, one exported store after
    another; without that column, in the order of the files and of their rows. Hosts and times are
    kept. Queue offsets begin at 0, and physical offsets are those of the new log.

    Args:
        source: a directory that `reput_arrow.export.exporter.exportjob.export` wrote, increments or
        not, one
            file, or other files of columns that messages have; also a URI that `pyarrow.fs` knows.
        store: directory of the store; nothing may be there yet.
        file_size: bytes of a log file; when left out, the files are small and grow, as those of
            a new store of `reput.open`.
        dispatch: whether queues and indexes are made, too.
        write_id: a name: where an import of that name is in the store, nothing is done.
        follow_links: as for `reput.open`.
        progress: called with bytes of files read and bytes in all.

    Raises:
        CodedError: nothing to import, something at the store's place, or a row that cannot be
            stored; the text says which. Nothing is left of the store.
    """
    sources = find_sources(os.fspath(source))
    total = sum(each.size for each in sources)
    told = progress or (lambda done, size: None)
    batches = _batches(merged(sources, lambda done: told(done, total)))
    first = next(batches, None)
    keep = frozenset() if first is None else frozenset(KEPT) & set(first.schema.names)
    options = WriteOptions(
        path=local_path(os.fspath(store)),
        file_size=file_size,
        keep=keep,
        raw=True,
        write_id=write_id,
        dispatch=dispatch,
        follow_links=follow_links,
        small=True,
    )
    with with_code():
        plan = plan_write(options, overwrite=True)
        try:
            written = write_task(plan, 0, _chained(first, batches), Disk())
            with LocalEngine(1) as engine:
                return publish_write(
                    plan.root, intent_of(plan, [written]), engine, options, overwrite=True
                )
        except BaseException:
            abort_write(plan)
            raise


def _chained(
    first: pa.RecordBatch | None, others: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
        yield from others


def _batches(tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Yield batches of columns that a message has; all with the same ones."""
    names: list[str] | None = None
    for table in tables:
        given = [name for name in table.column_names if name in _NAMES]
        if names is None:
            names = given
        elif set(names) - set(given):
            missing = min(set(names) - set(given))
            raise CodedError(
                "ROW", f"column {missing!r} is in some of the files, and not in others"
            )
        yield from table.select(given).combine_chunks().to_batches()
