"""Transactions: blocks, single ones, puts beside the plugin, and following what is open."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from benchmarks.case import Case
from benchmarks.tables import TRANSACTION
from benchmarks.trial import Latencies, Trial
from reput.files import Disk
from reput.log import ProgressEntry, StateFile

if TYPE_CHECKING:
    import reput

_BODY_SIZE = 100
_COUNT = 20_000
_PLAIN_COUNT = 400_000
_OPEN_COUNT = 100_000
_MODULES = ("reput", "reput_consumequeue", "reput_transaction")


def cases() -> Iterator[Case]:
    """What a transaction costs its producer, plain puts, and an opening."""
    for name, run in (
        ("single", single),
        ("block", block),
        ("plain-put", plain_put),
        ("follow", follow),
        ("open", dangling),
    ):
        yield Case(
            name=f"transaction.{name}",
            table=TRANSACTION,
            run=run,
            body_size=_BODY_SIZE,
            needs=_MODULES,
        )


def single(trial: Trial) -> None:
    """Prepare and commit, one message at a time."""
    import reput

    count = trial.count(_COUNT)
    with _store(trial) as store:
        times, transactions = [], store.plugin("transaction")
        with trial.timed("prepare and commit one message", count) as measured:
            for _ in range(count):
                begun = time.perf_counter_ns()
                transactions.commit(transactions.prepare(reput.Message("orders", _body())))
                times.append(time.perf_counter_ns() - begun)
        measured.latencies = Latencies.of("prepare and commit", times)
        _require_visible(trial, store, count)


def block(trial: Trial) -> None:
    """Blocks of ten messages; each waits for the disk once."""
    import reput

    count = trial.count(_COUNT // 10) * 10
    with _store(trial) as store:
        transactions = store.plugin("transaction")
        with trial.timed("blocks of 10 messages", count):
            for _ in range(count // 10):
                with transactions.transaction() as tx:
                    tx.put_many([reput.Message("orders", _body()) for _ in range(10)])
        _require_visible(trial, store, count)


def plain_put(trial: Trial) -> None:
    """Plain messages, in a store that has the plugin, and in a store without it."""
    import reput

    count = trial.count(_PLAIN_COUNT // 1_000) * 1_000
    messages = [reput.Message("orders", _body(), tags="t") for _ in range(1_000)]
    for plugins, label in (
        (["consumequeue"], "plain messages, without the plugin"),
        (["consumequeue", "transaction"], "plain messages, beside the plugin"),
    ):
        with _store(trial, plugins) as store, trial.timed(label, count):
            for _ in range(count // 1_000):
                store.put_many(messages)
            store.wait_dispatched()


def follow(trial: Trial) -> None:
    """Dispatch a log of transactions to a plugin that is new to the log."""
    count = trial.count(_COUNT * 2)
    with _store(trial, automatic=False) as store:
        _fill(store, count, commits=True)
        store.wait_dispatched()
        size = store.log.max_physical_offset
        store.remove_plugin("transaction")
    ProgressEntry(StateFile.of(str(trial.directory / "s0"), Disk()), "transaction").reset()
    with _store(trial, ["consumequeue"], number=0) as store:
        with trial.timed("follow: half, commit and marker", 3 * count, size):
            store.add_plugin("transaction", {"automatic": False})
            store.wait_dispatched()
        trial.require(store.plugin("transaction").dangling() == [], "nothing is open")


def dangling(trial: Trial) -> None:
    """Open transactions: memory for each, and listing all."""
    count = trial.count(_OPEN_COUNT)
    with _store(trial, automatic=False) as store:
        store.suspend_plugin("transaction")
        _fill(store, count, commits=False)
        tracemalloc.start()
        store.resume_plugin("transaction")
        store.wait_dispatched()
        bytes_each = tracemalloc.get_traced_memory()[0] / count
        tracemalloc.stop()
        with trial.timed("list what is open", count) as measured:
            found = len(store.plugin("transaction").dangling())
        measured.facts["bytes of memory for each"] = round(bytes_each)
        trial.require(found == count, f"{found} open instead of {count}")


# --------------------------------------------------------------------------- stores


def _body() -> bytes:
    return b"x" * _BODY_SIZE


def _store(
    trial: Trial, plugins: list[str] | None = None, number: int | None = None, **options: Any
) -> reput.Store:
    import reput

    names = plugins or ["consumequeue", "transaction"]
    if number is None:
        number = sum(1 for _ in trial.directory.iterdir())
    config = {"transaction": options} if "transaction" in names else {}
    return reput.open(trial.directory / f"s{number}", plugins=names, config=config)


def _fill(store: reput.Store, count: int, *, commits: bool) -> None:
    """Put half messages as a producer does, and with ``commits`` the records that end them."""
    import reput
    from reput_transaction.messages.halfmessage import HalfMessage
    from reput_transaction.messages.messageforms import final_of
    from reput_transaction.messages.opmessages import op_messages

    for first in range(0, count, 1_000):
        numbers = range(first, min(first + 1_000, count))
        receipt = store.put_many(
            [
                reput.Message(
                    "orders",
                    _body(),
                    properties={"TRAN_MSG": "true", "PGROUP": "g", "UNIQ_KEY": f"{number:032X}"},
                )
                for number in numbers
            ]
        )
        if commits:
            offsets = receipt.physical_offsets.tolist()
            halves = [HalfMessage(store.get(offset)) for offset in offsets]
            store.put_many([final_of(half) for half in halves])
            store.put_many(op_messages(receipt.queue_offsets.tolist(), batched=True))


def _require_visible(trial: Trial, store: reput.Store, count: int) -> None:
    store.wait_dispatched()
    found = sum(each.message_count for each in store.queues() if each.topic == "orders")
    trial.require(found == count, f"{found} messages are visible instead of {count}")
