"""The same messages in a plain log and in one that DLedger keeps, in turns in one process."""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import open_store
from benchmarks.tables import LEDGER
from benchmarks.trial import Measurement, Trial
from benchmarks.workload import BATCH, Workload

if TYPE_CHECKING:
    import reput
    from reput.plugin import QueueInfo

_COUNT = {100: 400_000, 1024: 150_000}
_FILE_SIZE = 256 << 20
_TURNS = 5
_HEAD = struct.Struct(">iiqqqiiii")
_PHYSICAL_OFFSET = 28  # bytes, in a record


def cases() -> Iterator[Case]:
    """Dispatch, a scan and reads by queue, of both kinds of logs."""
    for body in BODIES:
        name = f"ledger.{body_name(body)}"
        yield Case(name=name, table=LEDGER, run=take_turns, body_size=body)


def take_turns(trial: Trial) -> None:
    """Each kind of work on one log and then the other, several times: the same load slows both."""
    count = max(trial.count(_COUNT[trial.body_size]) // BATCH, 1) * BATCH
    roots = {kind: trial.directory / kind for kind in ("plain", "DLedger")}
    _begin_ledger(roots["DLedger"])
    for root in roots.values():
        _fill(root, count, trial.body_size)
    trial.settle()
    works: dict[str, Callable[[Path], int]] = {
        "dispatched": _dispatch,
        "scanned": _scan,
        "read by queue, 32 a read": lambda root: _read(root, 32),
        "read by queue, 1024 a read": lambda root: _read(root, 1024),
    }
    for work, run in works.items():
        times: dict[str, list[float]] = {kind: [] for kind in roots}
        for turn in range(_TURNS):
            for kind in reversed(roots) if turn % 2 else roots:
                began = time.process_time()
                found = run(roots[kind])
                times[kind].append(time.process_time() - began)
                trial.require(found == count, f"{kind}, {work}: {found} of {count} messages")
        plain = min(times["plain"])
        for kind in roots:
            seconds = min(times[kind])
            measured = Measurement(
                label=f"{kind} log, {work}",
                count=count,
                size=count * trial.body_size,
                baseline=kind == "plain",
                seconds=seconds,
                cpu_seconds=seconds,
            )
            if kind != "plain":
                measured.facts["of the plain log's rate"] = f"{plain / seconds:.2f}"
            trial.measurements.append(measured)


def _begin_ledger(root: Path) -> None:
    """Write what a one-node group has with its first message."""
    from reput.record import Message

    with open_store(root.with_name("first")) as store:
        store.put(Message("first", b"first"))
        record = next(iter(store.scan())).record(0)
    start = struct.pack(">q", _HEAD.size)
    record = record[:_PHYSICAL_OFFSET] + start + record[_PHYSICAL_OFFSET + len(start) :]
    head = _HEAD.pack(1, _HEAD.size + len(record), 0, 0, 0, 0, 0, 0, len(record))
    data = root / "dledger-n0" / "data"
    data.mkdir(parents=True)
    with (data / f"{0:020d}").open("wb") as file:
        file.write(head + record)
        file.truncate(_FILE_SIZE)
    (data.parent / "currterm").write_text("voteLeader=n0\ncurrTerm=0\n")


def _fill(root: Path, count: int, body_size: int) -> None:
    work = Workload(body_size)
    with open_store(root, config={"commitlog": {"file_size": _FILE_SIZE}}) as store:
        for first in range(0, count, BATCH):
            store.put_many(work.columns(first, BATCH))
        store.wait_dispatched()


def _dispatch(root: Path) -> int:
    shutil.rmtree(root / "consumequeue")
    with open_store(root) as store:
        store.wait_dispatched()
        return sum(queue.message_count for queue in _queues(store))


def _scan(root: Path) -> int:
    with open_store(root, mode="r") as store:
        return sum(sum(batch.topic_code >= 0) for batch in store.scan()) - _firsts(store)


def _read(root: Path, step: int) -> int:
    count = 0
    with open_store(root, mode="r") as store:
        for queue in _queues(store):
            at = 0
            while found := store.read(queue.topic, queue.queue_id, at, step, 8 << 20):
                for message in found:
                    count += len(message.body) > 0
                at = found.next_queue_offset
    return count


def _queues(store: reput.Store) -> list[QueueInfo]:
    return [queue for queue in store.queues() if queue.topic != "first"]


def _firsts(store: reput.Store) -> int:
    return sum(queue.message_count for queue in store.queues() if queue.topic == "first")
