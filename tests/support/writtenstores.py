"""Stores written as Spark writes them, but without Spark: plan, tasks, commit."""

from __future__ import annotations

import pyarrow as pa

import reput
from reput.files import Disk
from reput.record.layout import SIZE_AND_MAGIC
from reput_arrow import to_arrow
from reput_arrow.logwriter.publication.commit import commit_write
from reput_arrow.logwriter.staging.segments import write_task
from reput_arrow.logwriter.writeoptions import WriteOptions
from reput_arrow.logwriter.writeplan import plan_write

FILE_SIZE = 16_384
NOW = 1_800_000_000_000  # ms


def batch(**columns):
    """Columns as one batch; a single value of text or bytes stands in every row of `body`."""
    count = len(columns["body"])
    given = {
        name: column if isinstance(column, list | pa.Array) else [column] * count
        for name, column in columns.items()
    }
    return pa.RecordBatch.from_pydict(given)


def rows_of(partition, count, topics=3, queues=2):
    """A batch that says of each row where it comes from."""
    numbers = range(count)
    return batch(
        topic=[f"T{number % topics}" for number in numbers],
        queue_id=pa.array([number // topics % queues for number in numbers], pa.int32()),
        body=[b"%d-%d" % (partition, number) for number in numbers],
        keys=[f"k{partition}-{number}" for number in numbers],
    )


def planned(root, *, overwrite=False, now=NOW, **options):
    """The plan of a write; small files where it makes a store."""
    given = {name: str(value) for name, value in options.items()}
    if not (root / "commitlog").exists():
        given.setdefault("file_size", str(FILE_SIZE))
    parsed = WriteOptions.parse({"path": str(root), "dispatch": "false", **given})
    return plan_write(parsed, overwrite=overwrite, clock=lambda: now)


def written(plan, partitions):
    """What tasks write of the batches of each partition."""
    return [write_task(plan, number, each, Disk()) for number, each in enumerate(partitions)]


def write(root, partitions, **options):
    """All of a write; the plan it had."""
    plan = planned(root, **options)
    commit_write(plan, written(plan, partitions))
    return plan


def table_of(root, columns=None):
    """The log of a store that must be sound, as Arrow."""
    with reput.open(root, "r", plugins=()) as store:
        assert store.losses() == []
        assert store.recovery.finding is None
        batches = [to_arrow(each, columns) for each in store.scan(check_crc=True)]
        end = store.log.max_physical_offset
    assert _chained(root, end)
    return pa.Table.from_batches(batches) if batches else None


def bodies_of(root):
    """Bodies of the log, in its order."""
    table = table_of(root, ["body"])
    return [] if table is None else table.column("body").to_pylist()


def _chained(root, end):
    """Whether record follows on record, and a blank ends each file but the last."""
    position = 0
    files = sorted((root / "commitlog").iterdir())
    for number, file in enumerate(files):
        assert int(file.name) == number * file.stat().st_size
        data = file.read_bytes()
        position = 0
        while int(file.name) + position < end and position < len(data):
            size, magic = SIZE_AND_MAGIC.unpack_from(data, position)
            if magic == 0xCBD43194:
                assert position + size == len(data)
            position += size
        # A write that was cut short may have closed a file behind which none is yet.
        blank = SIZE_AND_MAGIC.pack(max(len(data) - position, 0), 0xCBD43194)
        assert data[position:].removeprefix(blank).strip(b"\0") == b""
    return True
