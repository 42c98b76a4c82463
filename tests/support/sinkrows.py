"""Rows for streams into a store, and what a store has of them."""

from __future__ import annotations

import pyarrow as pa

import reput
from reput.files import Disk
from reput.record.layout import FILLER_TOPIC
from reput_spark.writer.options import SinkOptions
from reput_spark.writer.putter import Opening
from reput_spark.writer.segments import TaskFacts, write_segment
from reput_spark.writer.storesink import StoreSink

QUERY = "2f6b7c0e-0000-4000-8000-000000000001"
FILE_SIZE = 4_096
_SCHEMA = pa.schema(
    {"topic": pa.string(), "body": pa.binary(), "queue_id": pa.int32(), "keys": pa.string()}
)


def rows_of(batch_id, partition, count, *, twins=False):
    """Rows of one task; each says which it is, but for twins, which are all the same."""
    numbers = [f"{batch_id}/{partition}/{'twin' if twins else row}" for row in range(count)]
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["orders" if row % 3 else "payments" for row in range(count)],
            "body": [number.encode() for number in numbers],
            "queue_id": [row % 2 for row in range(count)],
            "keys": numbers,
        },
        _SCHEMA,
    )


def options_of(root, **options):
    """Options of a sink with small files, and without plugins unless some are named."""
    given = {"path": str(root), "file_size": str(FILE_SIZE), "plugins": "", **options}
    return SinkOptions.parse(given)


def segments_of(root, batch_id, counts=(5, 3), *, disk=None, attempt=0, query=QUERY, **options):
    """What the tasks of one batch write; one task for each of ``counts``."""
    return [
        write_segment(
            [rows_of(batch_id, partition, count)] if count else [],
            options_of(root, **options),
            TaskFacts(query, batch_id, partition, attempt + partition),
            disk or Disk(),
        )
        for partition, count in enumerate(counts)
    ]


def sink_of(root, *, disk=None, now=lambda: 1_700_000_000_000, **options):
    """A sink that does everything on the caller's thread."""
    given = options_of(root, **options)
    return StoreSink(given, Opening(given, disk or Disk(), threads=False, now=now))


def bodies_of(root, disk=None, *, of_others=False):
    """Bodies in the log's order, of the rows or of what others have put."""
    with reput.open(root, "r", plugins=(), disk=disk) as store:
        found = [batch.message(row) for batch in store.scan() for row in range(len(batch))]
    return [
        each.body.decode()
        for each in found
        if not FILLER_TOPIC.startswith(each.topic)  # where a power cut left a hole; may be cut
        and (each.properties.get("by") == "other") == of_others
    ]


def expected(*batches, counts=(5, 3)):
    """Bodies of batches in the order in which they are put."""
    return [
        body.as_py().decode()
        for batch_id in batches
        for partition, count in enumerate(counts)
        for body in rows_of(batch_id, partition, count).column("body")
    ]
