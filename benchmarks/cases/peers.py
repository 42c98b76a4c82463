"""The same work done by other stores."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from benchmarks.case import BODIES, Case, body_name
from benchmarks.peers import PEERS, PeerKind
from benchmarks.tables import (
    APPEND_MANY,
    APPEND_MANY_DURABLE,
    APPEND_ONE,
    APPEND_ONE_DURABLE,
    READ,
)
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import BATCH, Workload

_DURABLE_COUNT = 2_000
_DURABLE_BATCHES = 100


def cases() -> Iterator[Case]:
    """What each peer can do: append one, append many, each flushed or not, read all."""
    for body in BODIES:
        for kind in PEERS:
            yield from _cases_of(kind, body)


def _cases_of(kind: PeerKind, body: int) -> Iterator[Case]:
    name = body_name(body)

    def case(suffix: str, **rest: object) -> Case:
        return Case(
            name=f"{kind.name}.{suffix}.{name}",
            body_size=body,
            needs=(kind.module,),
            **rest,  # type: ignore[arg-type]
        )

    if kind.fast is not None:
        yield case("append", table=APPEND_ONE, run=partial(append, kind=kind, durable=False))
        if kind.batches:
            run = partial(append_many, kind=kind, durable=False)
            yield case("append-many", table=APPEND_MANY, run=run)
    if kind.durable is not None:
        run = partial(append, kind=kind, durable=True)
        yield case("append-durable", table=APPEND_ONE_DURABLE, run=run)
        if kind.batches:
            run = partial(append_many, kind=kind, durable=True)
            yield case("append-many-durable", table=APPEND_MANY_DURABLE, run=run)
    yield case("read-all", table=READ, run=partial(read_all, kind=kind))


def append(trial: Trial, *, kind: PeerKind, durable: bool) -> None:
    """Append rows made beforehand, one at a time."""
    full = min(kind.full_count, _DURABLE_COUNT) if durable else kind.full_count
    count = trial.count(full, least=200)
    work = Workload(trial.body_size)
    peer = kind.make(trial.directory, durable=durable)
    rows = work.row_ring(count)
    again = list(work.row_ring(trial.count(min(full, 20_000), least=200)))
    trial.settle(trial.size_of(count))
    clock, times = time.perf_counter_ns, []
    with trial.timed(_label(kind, durable), count, count * trial.body_size) as measured:
        for row in rows:
            peer.append(row)
    for row in again:
        began = clock()
        peer.append(row)
        times.append(clock() - began)
    peer.close()
    measured.latencies = Latencies.of("append", times)


def append_many(trial: Trial, *, kind: PeerKind, durable: bool) -> None:
    """Append rows made beforehand, many in one transaction."""
    full = min(kind.full_count * 2 // BATCH, _DURABLE_BATCHES if durable else 1 << 30)
    batches = trial.count(full, least=5)
    work = Workload(trial.body_size)
    made = [[work.row(first + row) for row in range(BATCH)] for first in range(0, 8 * BATCH, BATCH)]
    peer = kind.make(trial.directory, durable=durable)
    count = batches * BATCH
    trial.settle(trial.size_of(count))
    clock, times = time.perf_counter_ns, []
    with trial.timed(_label(kind, durable), count, count * trial.body_size) as measured:
        for number in range(batches):
            began = clock()
            peer.append_many(made[number % len(made)])
            times.append(clock() - began)
    peer.close()
    measured.latencies = Latencies.of(f"append of {BATCH}", times)


def read_all(trial: Trial, *, kind: PeerKind) -> None:
    """Read all bodies in the order of appending, by the store's own means."""
    durable = kind.fast is None
    full = min(kind.full_count, _DURABLE_COUNT) if durable else kind.full_count
    count = max(trial.count(full, least=1_000) // BATCH, 1) * BATCH
    work = Workload(trial.body_size)
    peer = kind.make(trial.directory, durable=durable)
    for first in range(0, count, BATCH):
        rows = [work.row(first + row) for row in range(BATCH)]
        if kind.batches:
            peer.append_many(rows)
        else:
            for row in rows:
                peer.append(row)
    peer.close()
    trial.settle()
    size, read_size = count * trial.body_size, 0
    peer = kind.make(trial.directory, durable=durable)
    with trial.timed(f"{_label(kind, durable).split(',')[0]}, in order", count, size):
        for body in peer.bodies():
            read_size += len(body)
    peer.close()
    trial.require(read_size == size, f"{read_size} of {size} bytes were read")


def _label(kind: PeerKind, durable: bool) -> str:
    return (kind.durable if durable else kind.fast) or kind.name
