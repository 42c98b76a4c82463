"""Count what is in logs: messages and bytes per topic, queue, tag and hour, keys, delays.

Every split is counted by itself, and only the counts are brought together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.log import SPLIT_SIZE
from reput_arrow import to_arrow
from reput_arrow.reading.tasks import Task
from reput_spark.jobs.splits import batches_of, plan

if TYPE_CHECKING:
    from reput.record import Corruption, DispatchBatch
    from reput_rebuild.engine import Engine

__all__ = ["QUESTIONS", "Stats", "stats"]

KEYS_PER_SPLIT: Final = 1_000
_HOUR_MS: Final = 3_600_000
_CUBE: Final = ("topic", "queue_id", "tags", "hour")
_SUMS: Final = ("messages", "bytes", "body_bytes", "delay_ms")
_COLUMNS: Final = ["topic", "queue_id", "tags", "keys", "size"]

QUESTIONS: Final = {
    "topics": "messages, bytes and mean delay of each topic",
    "queues": "messages and bytes of each queue",
    "tags": "messages and bytes of each topic's tags",
    "hours": "messages and bytes stored in each hour",
    "keys": "the keys with most messages",
    "delays": "time between born and stored: messages of each topic, by powers of two",
}
"""Names of the tables, and what each one answers."""


@attrs.frozen(eq=False)
class Stats:
    """What was counted: an Arrow table for each of `QUESTIONS`."""

    message_count: int
    size: int
    """Bytes of the logs."""
    tables: dict[str, pa.Table]
    damage_count: int = 0
    """Places of the logs that were left out, as they are damaged."""

    def frames(self, spark: Any) -> dict[str, Any]:
        """Return a DataFrame for each question."""
        return {name: spark.createDataFrame(table) for name, table in self.tables.items()}


@attrs.frozen(eq=False)
class _Counts:
    """What was counted of one split."""

    cube: pa.Table
    keys: pa.Table
    keys_dropped_at: int
    """Messages of the most frequent key that was dropped, 0 where none was."""
    delays: pa.Table
    damage_count: int = 0


def stats(
    paths: str | Sequence[str],
    engine: Engine,
    *,
    split_size: int = SPLIT_SIZE,
    top: int = 50,
    corrupt: str = "fail",
    progress: Callable[[int, int], None] | None = None,
) -> Stats:
    """Count what is in the logs that paths lead to.

    Of the keys, each split counts all and hands on the 1,000 most frequent ones. So ``messages`` of
    a key may be too low where a split has more; ``messages_at_most`` says by how much at the most.

    Args:
        paths: as for reading.
        engine: `reput_spark.jobs.engine.SparkEngine`, or `reput_rebuild.engine.LocalEngine`.
        split_size: bytes of the log in a task, about.
        top: keys in the table of keys.
        corrupt: ``"fail"``, or ``"skip"`` to leave out what is damaged.
        progress: called with bytes done and bytes in all.

    Raises:
        SparkReputError: no log at a path, damage, or a task that failed.
    """
    tasks = plan(paths, engine.parallelism, split_size, corrupt=corrupt)
    size = sum(task.size for task in tasks)
    told = progress or (lambda done, total: None)
    work = functools.partial(_count, corrupt)
    parts: list[_Counts] = engine.run(work, tasks, lambda done: told(done, size))
    parts = parts or [_counts_of([])]
    cube = _summed([part.cube for part in parts], _CUBE, _SUMS)
    delays = _summed([part.delays for part in parts], ("topic", "bucket"), ("messages",))
    tables = {
        "topics": _topics(cube),
        "queues": _roll_up(cube, ("topic", "queue_id")),
        "tags": _roll_up(cube, ("topic", "tags")),
        "hours": _roll_up(cube, ("hour",)),
        "keys": _keys(parts, top),
        "delays": _delays(delays),
    }
    left_out = sum(part.damage_count for part in parts)
    return Stats(int(pc.sum(cube["messages"]).as_py() or 0), size, tables, left_out)


# ---------------------------------------------------------------------- one split


def _count(corrupt: str, task: Task, report: Callable[[int], None]) -> _Counts:
    damages: list[Corruption] = []
    windows = [_window(batch) for batch in batches_of(task, report, corrupt, damages.append)]
    return attrs.evolve(_counts_of(windows), damage_count=len(damages))


def _window(batch: DispatchBatch) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return the counts of one window: cube, keys, delays."""
    made = to_arrow(batch, _COLUMNS)
    delay = batch.store_timestamp - batch.born_timestamp
    ones = pa.array(np.ones(len(batch), np.int64))
    size = made.column("size").cast(pa.int64())
    cube = pa.table(
        {
            "topic": made.column("topic"),
            "queue_id": made.column("queue_id"),
            "tags": made.column("tags"),
            "hour": pa.array(batch.store_timestamp // _HOUR_MS),
            "messages": ones,
            "bytes": size,
            "body_bytes": pa.array(batch.body.sizes.astype(np.int64)),
            "delay_ms": pa.array(delay),
        }
    )
    lists = made.column("keys")
    rows = pc.list_parent_indices(lists)
    keys = pa.table(
        {
            "topic": made.column("topic").take(rows),
            "key": pc.list_flatten(lists),
            "messages": ones.take(rows),
            "bytes": size.take(rows),
        }
    )
    delays = pa.table({"topic": made.column("topic"), "bucket": _buckets(delay), "messages": ones})
    return (
        _summed([cube], _CUBE, _SUMS),
        _summed([keys], ("topic", "key"), ("messages", "bytes")),
        _summed([delays], ("topic", "bucket"), ("messages",)),
    )


def _buckets(delay: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """Return the bits of each delay in ms; -1 for what was stored before it was born."""
    # The exponent of a double: exact, as delays are far below 2**53; any above is in the highest
    # bucket either way.
    _, bits = np.frexp(np.maximum(delay, 0).astype(np.float64))
    return pa.array(np.where(delay < 0, -1, bits).astype(np.int64))


_EMPTY: Final = (
    pa.schema(
        [("topic", pa.string()), ("queue_id", pa.int32()), ("tags", pa.string())]
        + [(name, pa.int64()) for name in ("hour", *_SUMS)]
    ),
    pa.schema([("topic", pa.string()), ("key", pa.string())])
    .append(pa.field("messages", pa.int64()))
    .append(pa.field("bytes", pa.int64())),
    pa.schema([("topic", pa.string()), ("bucket", pa.int64()), ("messages", pa.int64())]),
)


def _counts_of(windows: Sequence[tuple[pa.Table, pa.Table, pa.Table]]) -> _Counts:
    cubes, keys, delays = (
        [_EMPTY[place].empty_table(), *(each[place] for each in windows)] for place in range(3)
    )
    counted = _summed(keys, ("topic", "key"), ("messages", "bytes"))
    counted = counted.sort_by([("messages", "descending"), ("bytes", "descending")])
    dropped = counted.slice(KEYS_PER_SPLIT, 1)
    return _Counts(
        _summed(cubes, _CUBE, _SUMS),
        counted.slice(0, KEYS_PER_SPLIT).combine_chunks(),
        dropped["messages"][0].as_py() if dropped.num_rows else 0,
        _summed(delays, ("topic", "bucket"), ("messages",)),
    )


# ---------------------------------------------------------------------- all splits


def _summed(tables: Sequence[pa.Table], by: Sequence[str], sums: Sequence[str]) -> pa.Table:
    """Return one row for all that agree in ``by``, with the sums of ``sums``; in this order."""
    whole = pa.concat_tables(tables)
    grouped = whole.group_by(list(by), use_threads=False)
    found = grouped.aggregate([(name, "sum") for name in sums])
    found = found.select([*by, *(f"{name}_sum" for name in sums)])
    return found.rename_columns([*by, *sums])


def _roll_up(cube: pa.Table, by: Sequence[str]) -> pa.Table:
    found = _summed([cube], by, ("messages", "bytes", "body_bytes"))
    if "hour" in by:
        place = found.schema.get_field_index("hour")
        time = pc.multiply(found["hour"], _HOUR_MS).cast(pa.timestamp("ms", "UTC"))
        found = found.set_column(place, "hour", time)
        return found.sort_by([("hour", "ascending")])
    return found.sort_by([("messages", "descending"), *((name, "ascending") for name in by)])


def _topics(cube: pa.Table) -> pa.Table:
    found = _summed([cube], ("topic",), _SUMS)
    mean = pc.divide(found["delay_ms"].cast(pa.float64()), found["messages"].cast(pa.float64()))
    found = found.drop_columns(["delay_ms"]).append_column("mean_delay_ms", mean)
    return found.sort_by([("messages", "descending"), ("topic", "ascending")])


def _keys(parts: Sequence[_Counts], top: int) -> pa.Table:
    found = _summed([part.keys for part in parts], ("topic", "key"), ("messages", "bytes"))
    missed = sum(part.keys_dropped_at for part in parts)
    found = found.append_column("messages_at_most", pc.add(found["messages"], missed))
    order = [("messages", "descending"), ("bytes", "descending"), ("key", "ascending")]
    return found.sort_by(order).slice(0, top)


def _delays(found: pa.Table) -> pa.Table:
    buckets = found["bucket"].to_pylist()
    return pa.table(
        {
            "topic": found["topic"],
            # 0 is a bucket of its own; n bits are 2**(n-1) to 2**n - 1.
            "from_ms": pa.array([_least(each) for each in buckets], pa.int64()),
            "below_ms": pa.array([_least(each + 1) for each in buckets], pa.int64()),
            "messages": found["messages"],
        }
    ).sort_by([("topic", "ascending"), ("below_ms", "ascending")])


def _least(bits: int) -> int | None:
    """Return the least delay of a bucket in ms; None for the bucket below 0."""
    if bits < 0:
        return None
    return 0 if bits == 0 else 1 << min(bits - 1, 62)
