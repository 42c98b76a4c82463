"""What grows with a store: processor time and private memory at sizes ten times apart.

A row counts items or calls. If the time of each is the same at all sizes, nothing grows but the
work itself. ``python docs/site/figures`` draws the kept result.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from benchmarks.case import Case
from benchmarks.cases import growthserved
from benchmarks.runner import private_memory
from benchmarks.sparselog import PER_FILE, write_sparse_log
from benchmarks.stores import open_store
from benchmarks.tables import GROWTH

if TYPE_CHECKING:
    from benchmarks.trial import Measurement, Trial

_STEP = 10_000  # messages of one put
_CALLS = 1_000
_HOUR_MS = 3_600_000


@attrs.frozen
class _Subject:
    """What grows, and how it is measured at one size."""

    name: str
    run: Callable[..., None]
    """Takes a `Trial` and the ``size``."""
    sizes: tuple[int, ...]
    on_request: tuple[int, ...] = ()
    """Sizes that run only if the case's whole name is given."""
    needs: tuple[str, ...] = ()


def cases() -> Iterator[Case]:
    """A case for each size of each subject, as each has a process of its own."""
    for subject in _subjects():
        for size in subject.sizes + subject.on_request:
            yield Case(
                name=f"growth.{subject.name}.{size}",
                table=GROWTH,
                run=partial(subject.run, size=size),
                needs=("reput", "reput_consumequeue", *subject.needs),
                repeats=False,
                on_request=size in subject.on_request,
            )


def _subjects() -> Iterator[_Subject]:
    thousands = 1_000, 10_000, 100_000
    yield _Subject("log-gigabytes", log, (1, 10, 100))
    yield _Subject("queues", queues, (100, 1_000, 10_000), (100_000,))
    yield _Subject("keys", keys, (*thousands, 1_000_000), (10_000_000,), ("reput_index",))
    one = partial(keys, distinct=False)
    yield _Subject("messages-of-a-key", one, (*thousands, 1_000_000), (), ("reput_index",))
    yield _Subject("groups", groups, (10, 100, *thousands), (), ("reput_consumer",))
    yield _Subject("members", members, (1, 10, 100, 1_000), (), ("reput_consumer",))
    yield _Subject("timers", timers, (*thousands, 1_000_000), (10_000_000,), ("reput_schedule",))
    yield _Subject(
        "transactions", transactions, (10, *thousands), (1_000_000,), ("reput_transaction",)
    )
    yield _Subject(
        "compacted-keys", compacted, (*thousands, 1_000_000), (10_000_000,), ("reput_compaction",)
    )
    yield _Subject("plugins", plugins, (1, 3, 10, 30))
    served = "reput_server", "psutil"
    yield _Subject(
        "connections", growthserved.connections, (10, 100, 1_000, 9_000), (19_000,), served
    )
    yield _Subject("followers", growthserved.followers, (1, 5, 30, 50), (), served)


@contextlib.contextmanager
def _grown(
    trial: Trial, work: str, size: int, count: int, unit: str = "items"
) -> Iterator[Measurement]:
    """Measure the block, and the private memory that is there after it and was not before.

    Args:
        trial: the run.
        work: what the block does.
        size: of what grows.
        count: items or calls of the block.
        unit: ``"items"`` or ``"calls"``.
    """
    gc.collect()
    before = private_memory(os.getpid())
    with trial.timed(f"{work}, {size:,}", count, unit=unit) as measured:
        yield measured
    gc.collect()
    measured.facts["size"] = size
    measured.facts["private"] = max(private_memory(os.getpid()) - before, 0)


def _steps(count: int) -> Iterator[range]:
    """Yield the numbers of ``count`` messages in parts that are put at once."""
    for first in range(0, count, _STEP):
        yield range(first, min(first + _STEP, count))


# --------------------------------------------------------------------------- log, queues, keys


def log(trial: Trial, size: int) -> None:
    """Open a log, most of whose bytes are holes; read at its head and at its tail in turns."""
    root, count = trial.directory / "store", trial.count(20, least=2)
    trial.warm_up()
    write_sparse_log(root, size)
    open_store(root).close()  # makes the queues
    with _grown(trial, "log of GB: open and close", size, count, "calls"):
        for _ in range(count):
            open_store(root).close()
    reads = trial.count(_CALLS, least=10)
    with open_store(root) as store:
        last = size * PER_FILE - 32
        with _grown(trial, "log of GB: read 32 at the head and at the tail", size, reads, "calls"):
            for number in range(reads):
                head = store.read("grown", 0, number % (PER_FILE - 32), 32)
                tail = store.read("grown", 0, last, 32)
                trial.require(len(head) == len(tail) == 32, "32 messages were read")


def queues(trial: Trial, size: int) -> None:
    """Open and close a store of queues, each with one message."""
    import reput

    root, count = trial.directory / "store", trial.count(size, least=10)
    config = {"consumequeue": {"units_per_file": 2}}
    trial.warm_up()
    with open_store(root, config=config) as store:
        for part in _steps(count):
            topics = [f"topic-{number % 100}" for number in part]
            ids = [number // 100 for number in part]
            store.put_many(reput.Columns(topic=topics, queue_id=ids, body=[b"x"] * len(part)))
            store.wait_dispatched()
    with _grown(trial, "queues: open", count, count):
        store = open_store(root, config=config)
    with store:
        trial.require(len(store.queues()) == count, "all queues are there")
    store = open_store(root, config=config)
    with _grown(trial, "queues: close", count, count):
        store.close()


def keys(trial: Trial, size: int, *, distinct: bool = True) -> None:
    """Index keys, then find the newest messages of some."""
    import reput

    count, of = trial.count(size, least=10), "keys" if distinct else "messages of a key"
    seconds = cpu_seconds = 0.0
    trial.warm_up()
    config = {"commitlog": {"file_size": 1 << 28}}
    with reput.open(
        trial.directory / "store", plugins=["index"], threads=False, config=config
    ) as store:
        with _grown(trial, f"{of}: index", count, count) as measured:
            for part in _steps(count):
                words = [f"key-{number}" if distinct else "key" for number in part]
                store.put_many(reput.Columns(topic="t", keys=words, body=[b"x"] * len(part)))
                began, used = time.perf_counter(), time.process_time()
                store.wait_dispatched()
                seconds += time.perf_counter() - began
                cpu_seconds += time.process_time() - used
        measured.seconds, measured.cpu_seconds = seconds, cpu_seconds  # without the puts
        calls, source = trial.count(_CALLS, least=10), random.Random(1)
        wanted = [f"key-{source.randrange(count)}" if distinct else "key" for _ in range(calls)]
        with _grown(trial, f"{of}: find the newest 32", count, calls, "calls"):
            for word in wanted:
                found = store.query("t", word, limit=32)
                trial.require(len(found) == (1 if distinct else min(32, count)), word)


# --------------------------------------------------------------------------- groups


def groups(trial: Trial, size: int) -> None:
    """Commit and save an offset of each group; change one and save; open."""
    import reput
    from reput_consumer import MessageQueue

    root, count = trial.directory / "store", trial.count(size, least=10)
    names = ("consumequeue", "consumer")
    queue = MessageQueue("orders", "broker-a", 0)
    trial.warm_up()
    with open_store(root, plugins=names) as store:
        store.put_many([reput.Message("orders", b"x", 0)] * _CALLS)
        store.wait_dispatched()
        port = store.plugin("consumer").port
        with _grown(trial, "groups: commit and save all", count, count):
            for number in range(count):
                port.commit(f"group-{number}", {queue: 1})
            trial.require(port.save(), "the offsets were saved")
        calls = trial.count(5, least=1)
        with _grown(trial, "groups: commit and save one", count, calls, "calls"):
            for number in range(calls):
                port.commit("group-0", {queue: number + 2})
                trial.require(port.save(), "the offset was saved")
    with _grown(trial, "groups: open", count, count):
        store = open_store(root, plugins=names)
    store.close()


def members(trial: Trial, size: int) -> None:
    """Members join a group that reads 1,000 queues, and leave it."""
    import reput

    count, queue_count = trial.count(size, least=1), 1_000
    config = {"consumequeue": {"units_per_file": 1_000}}
    plugin_names = ("consumequeue", "consumer")
    trial.warm_up()
    with open_store(trial.directory / "store", plugins=plugin_names, config=config) as store:
        store.put_many([reput.Message("orders", b"x", number) for number in range(queue_count)])
        store.wait_dispatched()
        consumer = store.plugin("consumer").consumer
        with _grown(trial, "members: join", count, count):
            joined = [
                consumer("bench", "orders", start="earliest", name=f"member-{number}")
                for number in range(count)
            ]
            shares = sum(len(each.queues) for each in joined)
        trial.require(shares >= queue_count, f"shares of {shares} queues")
        with _grown(trial, "members: leave", count, count):
            for each in joined:
                each.close()


# --------------------------------------------------------------------------- what waits


def timers(trial: Trial, size: int) -> None:
    """Park messages for random times of an hour, open beside them, deliver them."""
    import reput
    from reput_testing.logs.clock import ManualClock

    root, count, clock = trial.directory / "store", trial.count(size, least=10), ManualClock()
    begin, source, names = clock(), random.Random(1), ["consumequeue", "schedule"]
    opened = partial(reput.open, root, plugins=names, clock=clock, threads=False)
    trial.warm_up()
    with opened() as store, _grown(trial, "timers: put and park", count, count):
        for part in _steps(count):
            due = [begin + source.randrange(60_000, _HOUR_MS) for _ in part]
            times = [{"TIMER_DELIVER_MS": str(each)} for each in due]
            bodies = [b"x"] * len(due)
            store.put_many(reput.Columns(topic="timed", queue_id=0, body=bodies, properties=times))
            store.wait_dispatched()
            _work(store, clock)
    with _grown(trial, "timers: open", count, 1, "calls"):
        store = opened()
    with store:
        with _grown(trial, "timers: deliver", count, count):
            while (due_at := store.work()) is not None and due_at <= begin + 2 * _HOUR_MS:
                clock.advance(max(due_at - clock(), 0))
            store.wait_dispatched()
        found = sum(each.message_count for each in store.queues() if each.topic == "timed")
        trial.require(found == count, f"{found} of {count} messages were delivered")


def _work(store: Any, clock: Callable[[], int]) -> None:
    while (due := store.work()) is not None and due <= clock():
        pass


def transactions(trial: Trial, size: int) -> None:
    """Follow half messages that stay open, open beside them, list them."""
    import reput

    root, count = trial.directory / "store", trial.count(size, least=10)
    config = {"transaction": {"automatic": False}}
    opened = partial(
        reput.open, root, plugins=["consumequeue", "transaction"], config=config, threads=False
    )
    trial.warm_up()
    with opened() as store, _grown(trial, "transactions: prepare", count, count):
        for part in _steps(count):
            store.put_many([_half(number) for number in part])
            store.wait_dispatched()
    with _grown(trial, "transactions: open", count, 1, "calls"):
        store = opened()
    with store, _grown(trial, "transactions: list", count, count):
        found = len(store.plugin("transaction").dangling())
    trial.require(found == count, f"{found} of {count} are open")


def _half(number: int) -> Any:
    import reput

    properties = {"TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": f"{number:032X}"}
    return reput.Message("orders", b"x", properties=properties)


def compacted(trial: Trial, size: int) -> None:
    """Keep two messages of each key, compact, open."""
    import reput

    root, count = trial.directory / "store", trial.count(size, least=10)
    config = {"compaction": {"topics": ["keyed"]}}
    opened = partial(reput.open, root, plugins=["compaction"], config=config, threads=False)
    trial.warm_up()
    with opened() as store:
        with _grown(trial, "compacted keys: put and keep", count, 2 * count):
            for part in (*_steps(count), *_steps(count)):
                words, bodies = [f"key-{number}" for number in part], [b"x"] * len(part)
                store.put_many(reput.Columns(topic="keyed", queue_id=0, body=bodies, keys=words))
                store.wait_dispatched()
        store.flush()
        with _grown(trial, "compacted keys: compact", count, 2 * count):
            (result,) = store.plugin("compaction").compact()
        trial.require(result.messages_after == count, "one message for each key")
    with _grown(trial, "compacted keys: open", count, 1, "calls"):
        store = opened()
    store.close()


# --------------------------------------------------------------------------- plugins


def plugins(trial: Trial, size: int) -> None:
    """Dispatch to plugins that count messages; open and close with them."""
    import reput

    root, count = trial.directory / "store", trial.count(500_000, least=1_000)

    def opened() -> Any:
        counters = [_counter(number) for number in range(size)]
        return reput.open(root, plugins=["consumequeue", *counters], threads=False)

    trial.warm_up()
    with opened() as store:
        bodies = [b"x" * 100] * min(_STEP, count)
        seconds = cpu_seconds = 0.0
        with _grown(trial, "plugins: dispatch a message to all", size, count, "calls") as measured:
            for _ in range(count // len(bodies)):
                store.put_many(reput.Columns(topic="t", body=bodies))
                began, used = time.perf_counter(), time.process_time()
                store.wait_dispatched()
                seconds += time.perf_counter() - began
                cpu_seconds += time.process_time() - used
        measured.seconds, measured.cpu_seconds = seconds, cpu_seconds  # without the puts
        objects = store.plugin_objects
        seen = {objects[f"counter-{number}"].seen for number in range(size)}
        trial.require(seen == {count // len(bodies) * len(bodies)}, "all were counted")
    opens = trial.count(20, least=2)
    with _grown(trial, "plugins: open and close with all", size, opens, "calls"):
        for _ in range(opens):
            opened().close()


def _counter(number: int) -> Any:
    import reput

    class Counter(reput.Plugin):
        """Counts messages, and keeps nothing."""

        name = f"counter-{number}"
        seen = 0

        @reput.hookimpl
        def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
            """Count the messages of one batch."""
            self.seen += len(batch)

    return Counter()
