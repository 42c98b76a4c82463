"""DataFrames put into stores as Spark puts them, but without Spark: plan, tasks, commit."""

from __future__ import annotations

import os

import attrs
import pyarrow as pa

import reput
from reput.files import Disk
from reput.record.layout import FILLER_TOPIC
from reput_arrow.logwriter.writeoptions import WriteOptions
from reput_arrow.logwriter.writeplan import plan_write
from reput_spark.writer.dataframesink import DataFrameSink, settle_before
from reput_spark.writer.putter import Opening
from reput_spark.writer.segments import stage_segment

FILE_SIZE = 4_096
NOW = 1_700_000_000_000  # ms
CONFIG = {"commitlog": {"file_size": FILE_SIZE}}


def rows_of(partition, count, **columns):
    """A batch that says of each row where it comes from."""
    numbers = range(count)
    given = {
        "topic": [f"T{number % 3}" for number in numbers],
        "queue_id": [number // 3 % 2 for number in numbers],
        "body": [b"%d-%d" % (partition, number) for number in numbers],
        "keys": [f"k{partition}-{number}" for number in numbers],
    }
    return pa.RecordBatch.from_pydict(given | columns)


def bodies_in(*batches):
    """Bodies of batches."""
    return [body for each in batches for body in each.column("body").to_pylist()]


def made(root, disk=None, plugins=(), rows=None):
    """A closed store, with rows in it."""
    with reput.open(root, plugins=plugins, config=CONFIG, disk=disk, threads=False) as store:
        for body in [] if rows is None else bodies_in(rows):
            store.put(reput.Message("T0", body))
    return str(root)


@attrs.define
class Writing:
    """One write: planned, its tasks over, not committed."""

    plan: object
    segments: list
    sink: DataFrameSink
    earlier: object

    def commit(self):
        """Put what the tasks have kept."""
        return self.earlier.told_in(self.sink.commit(self.segments))


def options_of(root, **options):
    """Options of a write."""
    given = {name: str(value) for name, value in options.items()}
    return WriteOptions.parse({"path": str(root), **given})


def staged(root, partitions, *, disk=None, overwrite=False, **options):
    """All of a write but its commit."""
    parsed = options_of(root, **options)
    disk = disk or Disk()
    opening = Opening(parsed, disk, threads=False, now=lambda: NOW)
    earlier = settle_before(opening)
    plan = plan_write(parsed, overwrite=overwrite, disk=disk, clock=lambda: NOW)
    segments = [
        stage_segment(batches if not plan.is_done else [], plan, number, number, disk)
        for number, batches in enumerate(partitions)
    ]
    return Writing(plan, segments, DataFrameSink(plan, opening), earlier)


def put(root, partitions, **options):
    """All of a write; what became of it."""
    return staged(root, partitions, **options).commit()


def bodies_of(root, disk=None):
    """Bodies of a log, in its order."""
    with reput.open(root, "r", plugins=(), disk=disk) as store:
        found = [m for batch in store.scan() for m in map(batch.message, range(len(batch)))]
    # Of a small hole's filler, the topic is cut short.
    return [each.body for each in found if not FILLER_TOPIC.startswith(each.topic)]


def directory_in(disk):
    """The directory of the store on a simulated disk."""
    return os.path.join(disk.directory, "store")
