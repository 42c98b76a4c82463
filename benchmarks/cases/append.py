"""Appending to reput, acknowledged in the page cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import open_store
from benchmarks.tables import APPEND_MANY, APPEND_ONE
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import BATCH, Workload

if TYPE_CHECKING:
    from typing import TypeAlias

    import reput

    Batch: TypeAlias = list[reput.Message] | reput.Columns

_ONE_COUNT = {100: 400_000, 1024: 200_000}
_MANY_COUNT = {100: 2_000_000, 1024: 500_000}
_WARM_UP = 2_000
_BATCHES_MADE = 16  # made beforehand and put in turn


def cases() -> Iterator[Case]:
    """One at a time and in batches; made beforehand and in the loop; with and without plugins."""
    for body in BODIES:
        name = body_name(body)
        for suffix, run in (
            ("", put_one),
            (".in-loop", put_one_in_loop),
            (".log-alone", partial(put_one, plugins=())),
        ):
            yield Case(name=f"put.{name}{suffix}", table=APPEND_ONE, run=run, body_size=body)
        for form in ("list", "columns"):
            for suffix, run in (
                ("", partial(put_many, form=form)),
                (".in-loop", partial(put_many, form=form, in_loop=True)),
                (".log-alone", partial(put_many, form=form, plugins=())),
            ):
                yield Case(
                    name=f"put-many.{name}.{form}{suffix}",
                    table=APPEND_MANY,
                    run=run,
                    body_size=body,
                )


def put_one(trial: Trial, plugins: Sequence[str] | None = None) -> None:
    """``put`` of messages made beforehand, with the reput loop running if there are plugins."""
    count = trial.count(_ONE_COUNT[trial.body_size])
    work = Workload(trial.body_size)
    with _opened(trial, work, count, plugins) as store:
        put, ring = store.put, work.ring(count)
        label = "reput" if plugins is None else "reput, log alone"
        readable = f"{label}, until readable" if plugins is None else ""
        _measure(
            trial, store, label, count, partial(_put_each, put, ring), readable, plugins is None
        )
        # Not in the first pass, which a clock around every call would slow down.
        times = _time_each(put, work.ring(trial.count(100_000, least=5_000)))
    _tell_latencies(trial, label, Latencies.of("put", times))


def put_one_in_loop(trial: Trial) -> None:
    """``put`` of messages that the same loop makes."""
    count = trial.count(_ONE_COUNT[trial.body_size])
    work = Workload(trial.body_size)
    with _opened(trial, work, count, None) as store:
        run = partial(_put_each, store.put, work.messages(count))
        _measure(trial, store, "reput, made in the loop", count, run)


def put_many(
    trial: Trial, *, form: str, in_loop: bool = False, plugins: Sequence[str] | None = None
) -> None:
    """``put_many`` of lists of messages or of columns."""
    batches = trial.count(_MANY_COUNT[trial.body_size] // BATCH)
    work = Workload(trial.body_size)

    def make(number: int) -> Batch:
        first = number * BATCH
        if form == "list":
            return list(work.messages(BATCH, first))
        return work.columns(first, BATCH)

    label = f"reput, {form}"
    label += ", made in the loop" if in_loop else ", log alone" if plugins is not None else ""
    plain = not in_loop and plugins is None
    with _opened(trial, work, batches * BATCH, plugins) as store:
        source: Iterator[Batch] = map(make, range(batches))
        if not in_loop:
            made = list(islice(source, _BATCHES_MADE))
            source = islice(cycle(made), batches)
        trial.settle()
        times: list[int] = []
        run = partial(_put_batches, store.put_many, source, times)
        readable = f"{label}, until readable" if plain else ""
        _measure(trial, store, label, batches * BATCH, run, readable, plain and form == "list")
    _tell_latencies(trial, label, Latencies.of(f"put_many of {BATCH}", times))


def _opened(trial: Trial, work: Workload, count: int, plugins: Sequence[str] | None) -> reput.Store:
    """Return a new store that has been warmed up, and will be given ``count`` messages."""
    store = open_store(trial.directory / "store", plugins=plugins)
    for message in work.messages(_WARM_UP):
        store.put(message)
    store.wait_dispatched()
    trial.settle(trial.size_of(count))
    return store


def _measure(
    trial: Trial,
    store: reput.Store,
    label: str,
    count: int,
    run: Callable[[], None],
    readable: str = "",
    baseline: bool = False,
) -> None:
    """Time ``run`` until its last put returned and, as row ``readable``, until all can be read."""
    size = count * trial.body_size
    before = store.log.max_physical_offset
    if not readable:
        with trial.timed(label, count, size):
            run()
    else:
        with trial.timed(readable, count, size):
            with trial.timed(label, count, size, baseline=baseline):
                run()
            store.wait_dispatched()
    trial.require(store.log.max_physical_offset - before > size, "the log grew by too little")


def _put_each(put: Callable[[reput.Message], object], messages: Iterator[reput.Message]) -> None:
    for message in messages:
        put(message)


def _put_batches(
    put: Callable[[Batch], object], batches: Iterator[Batch], times: list[int]
) -> None:
    clock = time.perf_counter_ns
    for messages in batches:
        began = clock()
        put(messages)
        times.append(clock() - began)


def _time_each(
    put: Callable[[reput.Message], object], messages: Iterator[reput.Message]
) -> list[int]:
    clock, times = time.perf_counter_ns, []
    for message in messages:
        began = clock()
        put(message)
        times.append(clock() - began)
    return times


def _tell_latencies(trial: Trial, label: str, latencies: Latencies) -> None:
    for measured in trial.measurements:
        if measured.label == label:
            measured.latencies = latencies
