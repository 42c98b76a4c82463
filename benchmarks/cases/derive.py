"""The reput loop alone: it derives consume queues from a log that already exists."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from benchmarks.case import BODIES, Case, body_name
from benchmarks.peers.sqlite import Sqlite
from benchmarks.stores import open_large
from benchmarks.tables import DERIVE
from benchmarks.trial import Trial
from benchmarks.workload import BATCH, Workload


def cases() -> Iterator[Case]:
    """The large log; for comparison SQLite indexing a table of the same kind of messages."""
    for body in BODIES:
        name = body_name(body)
        yield Case(name=f"reput.{name}", table=DERIVE, run=reput_loop, body_size=body, big_log=True)
        yield Case(
            name=f"sqlite.index.{name}",
            table=DERIVE,
            run=create_index,
            body_size=body,
            needs=("sqlite3",),
        )


def reput_loop(trial: Trial) -> None:
    """Delete the consume queues, open, wait until they are complete again."""
    assert trial.big_log is not None
    trial.warm_up()
    shutil.rmtree(trial.big_log / "consumequeue")
    label = "reput, from before open until dispatched"
    with trial.timed(label, count=0, baseline=True) as measured:
        store = open_large(trial.big_log)
        done = store.wait_dispatched()
    with store:
        measured.size = store.log.max_physical_offset - store.log.min_physical_offset
        measured.count = sum(queue.message_count for queue in store.queues())
        trial.require(done and measured.count > 0, "not everything was dispatched")


def create_index(trial: Trial) -> None:
    """``CREATE INDEX`` by topic, queue and queue offset."""
    batches = trial.count(500_000 // BATCH if trial.body_size < 1000 else 100_000 // BATCH)
    work = Workload(trial.body_size)
    database = Sqlite(trial.directory, durable=False, indexed=False)
    for number in range(batches):
        database.append_many([work.row(number * BATCH + row) for row in range(BATCH)])
    trial.settle()
    count = batches * BATCH
    with trial.timed("SQLite, CREATE INDEX", count, count * trial.body_size) as measured:
        database.make_index()
    measured.facts["bytes"] = "of bodies"
    database.close()
