"""Filters: a condition over a million messages, and reads that return one message in a hundred."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.case import Case
from benchmarks.tables import FILTER, FILTERED_READ
from benchmarks.trial import Trial
from benchmarks.workload import BATCH

if TYPE_CHECKING:
    import reput
    from reput.plugin import MessageFilter

_BODY_SIZE = 100
_COUNT = 1_000_000
_ROWS_COUNT = 50_000  # one by one; fewer rows show the same rate
_READ_COUNT = 400_000
_STEP = 1024
_EXPRESSIONS = {
    "number": "amount > 98",
    "text": "region = 'eu' AND amount > 98",
    "search": "region CONTAINS 'pa' OR amount > 98.5",
}
_MODULES = ("reput", "reput_filter")


def cases() -> Iterator[Case]:
    """Conditions by columns and one by one; reads by tags, condition and bit map, and without."""
    for name, expression in _EXPRESSIONS.items():
        for suffix, run in (("columns", by_columns), ("messages", by_messages)):
            yield Case(
                name=f"filter.{name}.{suffix}",
                table=FILTER,
                run=partial(run, expression=expression),
                body_size=_BODY_SIZE,
                needs=_MODULES,
            )
    for name in ("nothing", "tags", "condition", "bit-map"):
        yield Case(
            name=f"filter.read.{name}",
            table=FILTERED_READ,
            run=partial(read_filtered, by=name),
            body_size=_BODY_SIZE,
            needs=(*_MODULES, "reput_consumequeue"),
        )


def by_columns(trial: Trial, *, expression: str) -> None:
    """``matches_batch`` over all batches of a scan; decoding them is not counted."""
    import reput_filter

    count = _whole(trial.count(_COUNT))
    wanted = reput_filter.compile(expression)
    hits = 0
    with _filled(trial, count) as store:
        with trial.timed(f"by columns: {expression}", count) as measured:
            pass  # the parts are added below, without the time between them
        for batch in store.scan():
            with trial.timed("a batch", len(batch)) as part:
                hits += int(wanted.matches_batch(batch).sum())
            trial.measurements.pop()
            measured.seconds += part.seconds
            measured.cpu_seconds += part.cpu_seconds
    measured.facts["selected"] = hits
    trial.require(0 < hits < count, f"{hits} of {count} were selected")


def by_messages(trial: Trial, *, expression: str) -> None:
    """``matches`` of one message after another; taking messages out of the batch is counted."""
    import reput_filter

    count = _whole(trial.count(_ROWS_COUNT))
    wanted = reput_filter.compile(expression)
    hits = 0
    label = f"one by one: {expression}"
    with _filled(trial, count) as store, trial.timed(label, count, baseline=True) as measured:
        for batch in store.scan():
            for row in range(len(batch)):
                hits += wanted.matches(batch.message(row))
    measured.facts["selected"] = hits
    trial.require(0 < hits < count, f"{hits} of {count} were selected")


def read_filtered(trial: Trial, *, by: str) -> None:
    """Read all queues; one message in a hundred is wanted."""
    import reput_filter

    count = _whole(trial.count(_READ_COUNT, least=20_000))
    wanted: MessageFilter | None
    with _filled(trial, count, bit_maps=by == "bit-map") as store:
        if by == "tags":
            wanted = reput_filter.tags("rare")
        elif by == "nothing":
            wanted = None
        else:
            wanted = store.filter("amount = 99", topic="orders")
        trial.settle()
        found = looked_at = 0
        label = {
            "nothing": "everything",
            "tags": "1 % by tags",
            "condition": "1 % by a condition",
            "bit-map": "1 % by a condition that is registered",
        }[by]
        with trial.timed(label, count, baseline=by == "nothing"):
            for queue in store.queues():
                at = 0
                while at < queue.max_queue_offset:
                    result = store.read("orders", queue.queue_id, at, _STEP, 8 << 20, wanted)
                    found += len(result)
                    looked_at += result.next_queue_offset - at
                    at = result.next_queue_offset
    expected = count if by == "nothing" else count // 100
    trial.require(found == expected, f"{found} messages instead of {expected}")
    trial.require(looked_at == count, f"{looked_at} of {count} were looked at")


def _whole(count: int) -> int:
    return max(count // BATCH, 1) * BATCH


def _filled(trial: Trial, count: int, *, bit_maps: bool = False) -> reput.Store:
    """Return a store of four queues; one message in a hundred has the wanted number, text, tag."""
    import reput

    config = {"consumequeue": {"extend": bit_maps}, "filter": {"bit_maps": bit_maps}}
    store = reput.open(trial.directory / "s", plugins=["consumequeue", "filter"], config=config)
    if bit_maps:
        store.plugin_objects["filter"].register("group", "orders", "amount = 99")
        for number in range(20):  # other filters, with bits of their own
            store.plugin_objects["filter"].register(f"other-{number}", "orders", "amount < 50")
    body = b"x" * _BODY_SIZE
    for first in range(0, count, BATCH):
        numbers = range(first, first + BATCH)
        store.put_many(
            reput.Columns(
                topic="orders",
                body=[body] * BATCH,
                queue_id=[number % 4 for number in numbers],
                tags=["rare" if number // 4 % 100 == 99 else "common" for number in numbers],
                keys=[f"order-{number}" for number in numbers],
                properties={
                    "amount": [str(number // 4 % 100) for number in numbers],
                    "region": [("eu", "us", "apac")[number % 3] for number in numbers],
                },
            )
        )
    store.wait_dispatched()
    return store
