"""reput's side of the comparison with RocketMQ's store; `Work.java` does the same with Java's.

Only what `reput.Store` offers to everybody is called. The label of each measurement is the word by
which Java's side names its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.dying import write_and_die
from benchmarks.stores import QUEUES, open_large, open_store
from benchmarks.trial import Trial
from benchmarks.workload import BATCH, Workload

if TYPE_CHECKING:
    from pathlib import Path

    import reput

DEFAULTS = ("consumequeue", "index", "retention", "schedule")
"""The plugins that every new store has unless it names others."""
RING = 100_000
"""Messages made beforehand, and put again and again."""
_WARM_UP = 2_000
_READ_SIZE = 8 << 20  # bytes: no read ends before it has as many messages as were asked for


def put_one(trial: Trial, *, full: int) -> None:
    """``put`` of messages made beforehand: until the last returned, and until all is readable."""
    count = trial.count(full)
    work = Workload(trial.body_size)
    made = list(work.messages(min(count, RING)))
    with _opened(trial, work, count) as store:
        put = store.put

        def run() -> None:
            for message in itertools.islice(itertools.cycle(made), count):
                put(message)

        _measure(trial, store, "put", count, run)


def put_many(trial: Trial, *, full: int, form: str) -> None:
    """``put_many`` of lists of messages, columns or Arrow batches, made beforehand.

    Each batch is for one queue, as RocketMQ takes no other.
    """
    batches = trial.count(full // BATCH)
    work = Workload(trial.body_size, run=BATCH)
    make = _MAKERS[form]
    made = [make(work, first) for first in range(0, min(batches * BATCH, RING), BATCH)]
    with _opened(trial, work, batches * BATCH) as store:
        put_many = store.put_many
        if form == "arrow":
            from reput_arrow import columns_of

            def put(batch: Any) -> None:
                put_many(columns_of(batch))
        else:

            def put(batch: Any) -> None:
                put_many(batch)

        put(made[0])  # the first call of a process imports what it needs
        trial.settle()

        def run() -> None:
            for batch in itertools.islice(itertools.cycle(made), batches):
                put(batch)

        _measure(trial, store, "put-many", batches * BATCH, run)


def put_sync(trial: Trial, *, full: int, threads: int) -> None:
    """Threads that each put one message at a time, on disk before the call returns."""
    each = trial.count(full // threads, least=10)
    count = threads * each
    work = Workload(trial.body_size)
    shares = [list(work.messages(each, first=thread * each)) for thread in range(threads)]
    start = threading.Barrier(threads + 1)
    done: list[int] = []
    with _opened(trial, work, count, {"commitlog": {"flush": "sync"}}, warm_up=10) as store:

        def produce(share: list[reput.Message]) -> None:
            put = store.put
            start.wait()
            for message in share:
                put(message)
            done.append(len(share))

        producers = [threading.Thread(target=produce, args=(share,)) for share in shares]
        for producer in producers:
            producer.start()
        trial.settle()
        with trial.timed("put-sync", count, count * trial.body_size):
            start.wait()
            for producer in producers:
                producer.join()
        trial.require(sum(done) == count, f"{sum(done)} of {count} puts came back")


def put_awaited(trial: Trial, *, full: int, tasks: int) -> None:
    """Coroutines of one event loop in the place of the threads of `put_sync`."""
    each = trial.count(full // tasks, least=10)
    count = tasks * each
    work = Workload(trial.body_size)
    shares = [list(work.messages(each, first=task * each)) for task in range(tasks)]
    done: list[int] = []
    with _opened(trial, work, count, {"commitlog": {"flush": "sync"}}, warm_up=10) as store:

        async def produce(put: Callable[..., Awaitable[object]], share: list[Any]) -> None:
            for message in share:
                await put(message)
            done.append(len(share))

        async def main() -> None:
            import reput

            wrapped = reput.aio.wrap(store)
            trial.settle()
            with trial.timed("put-sync", count, count * trial.body_size):
                await asyncio.gather(*(produce(wrapped.put, share) for share in shares))
            await wrapped.close()

        asyncio.run(main())
        trial.require(sum(done) == count, f"{sum(done)} of {count} puts came back")


def derive(trial: Trial, *, plugins: Sequence[str]) -> None:
    """Delete what was derived, open, wait until it is complete again."""
    assert trial.big_log is not None
    trial.warm_up()
    for directory in ("consumequeue", "index"):
        shutil.rmtree(trial.big_log / directory, ignore_errors=True)
    trial.settle(sum(path.stat().st_size for path in (trial.big_log / "commitlog").iterdir()) // 3)
    with trial.timed("derive", count=0) as measured:
        store = open_large(trial.big_log, plugins)
        done = store.wait_dispatched()
    with store:
        measured.size = store.log.max_physical_offset - store.log.min_physical_offset
        measured.count = sum(queue.message_count for queue in store.queues())
        trial.require(done and measured.count > 0, "not everything was dispatched")
        if "index" in plugins:
            items = store.plugin_objects["index"].reput_report()["item_count"]
            trial.require(items == 2 * measured.count, f"the index has {items} items")


def read(trial: Trial, *, full: int, steps: Sequence[int]) -> None:
    """Read all queues to their ends, as messages and as columns, each body as bytes."""
    count = max(trial.count(full) // BATCH, 1) * BATCH
    work = Workload(trial.body_size)
    with open_store(trial.directory / "store", plugins=QUEUES) as store:
        for first in range(0, count, BATCH):
            store.put_many(work.columns(first, BATCH))
        store.wait_dispatched()
        _read_all(store, 32)
        for step in steps:
            bodies_size = count * trial.body_size
            for labels, read_all in (
                (("read",), _read_all),
                (("bodies", "unchecked"), _read_columns),  # Java's side does this in both ways
            ):
                trial.settle()
                with contextlib.ExitStack() as timed:
                    for label in labels:
                        timed.enter_context(trial.timed(f"{label}-{step}", count, bodies_size))
                    size = read_all(store, step)
                trial.require(size == bodies_size, f"{size} bytes were read")


def open_killed(trial: Trial, *, full: int) -> None:
    """Open a store whose writer died when all was dispatched, until all can be read."""
    count = trial.count(full // BATCH) * BATCH
    path = trial.directory / "store"
    write_and_die(partial(_write, path, trial.body_size, count))
    trial.warm_up()
    with trial.timed("open", 1, unit="opens"):
        store = open_store(path, plugins=DEFAULTS)
        store.wait_dispatched()
    with store:
        found = sum(queue.message_count for queue in store.queues())
        trial.require(found == count, f"{found} of {count} messages are there")


def idle(trial: Trial, *, full: int, seconds: float) -> None:
    """An open store to which nothing is put."""
    work = Workload(trial.body_size)
    with open_store(trial.directory / "store", plugins=DEFAULTS) as store:
        store.put_many(list(work.messages(full)))
        store.wait_dispatched()
        store.flush()
        time.sleep(0.5)  # what the flush has woken goes to sleep again
        with trial.timed("idle", 1, unit="waits"):
            time.sleep(seconds * min(10 * trial.scale, 1))  # as long in a quick run


# --------------------------------------------------------------------------- parts


def _arrow(work: Workload, first: int) -> Any:
    import pyarrow as pa

    rows = [work.row(number) for number in range(first, first + BATCH)]
    return pa.RecordBatch.from_pydict(
        {
            "topic": [row.topic for row in rows],
            "queue_id": pa.array([row.queue_id for row in rows], pa.int32()),
            "tags": [row.tags for row in rows],
            "keys": pa.array([[row.keys] for row in rows], pa.list_(pa.string())),
            "uniq_key": [row.unique_key for row in rows],
            "properties": pa.array([[("WAIT", "true")]] * BATCH, pa.map_(pa.string(), pa.string())),
            "body": pa.array([row.body for row in rows], pa.binary()),
        }
    )


_MAKERS: dict[str, Callable[[Workload, int], Any]] = {
    "list": lambda work, first: list(work.messages(BATCH, first)),
    "columns": lambda work, first: work.columns(first, BATCH),
    "arrow": _arrow,
}


def _opened(
    trial: Trial,
    work: Workload,
    count: int,
    config: dict[str, Any] | None = None,
    warm_up: int = _WARM_UP,
) -> reput.Store:
    """Return a new store that has been warmed up, and will be given ``count`` messages."""
    store = open_store(trial.directory / "store", plugins=DEFAULTS, config=config)
    for message in work.messages(warm_up):
        store.put(message)
    store.wait_dispatched()
    trial.settle(trial.size_of(count))
    return store


def _measure(
    trial: Trial, store: reput.Store, label: str, count: int, run: Callable[[], None]
) -> None:
    size = count * trial.body_size
    before = store.log.max_physical_offset
    with trial.timed("readable", count, size):
        with trial.timed(label, count, size):
            run()
        store.wait_dispatched()
    trial.require(store.log.max_physical_offset - before > size, "the log grew by too little")


def _read_all(store: reput.Store, step: int) -> int:
    """Return the bytes of all bodies."""
    size, read = 0, store.read
    for queue in store.queues():
        at = 0
        while found := read(queue.topic, queue.queue_id, at, step, _READ_SIZE):
            for message in found:
                size += len(message.body)
            at = found.next_queue_offset
    return size


def _read_columns(store: reput.Store, step: int) -> int:
    """Return the bytes of all bodies."""
    size, read = 0, store.read
    for queue in store.queues():
        at = 0
        while found := read(queue.topic, queue.queue_id, at, step, _READ_SIZE, as_columns=True):
            size += sum(map(len, filter(None, found.batch.body.as_bytes())))
            at = found.next_queue_offset
    return size


def _write(path: Path, body_size: int, count: int) -> None:
    """Put ``count`` messages into a store that stays open."""
    work = Workload(body_size)
    store = open_store(path, plugins=DEFAULTS)
    for first in range(0, count, BATCH):
        store.put_many(work.columns(first, BATCH))
    store.wait_dispatched()
