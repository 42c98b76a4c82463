"""Plugins that are a SQL table: the example's counter, from a log that already exists."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from benchmarks.case import BODIES, Case, body_name
from benchmarks.stores import QUEUES, example_plugin, open_large
from benchmarks.tables import COUNTS
from benchmarks.trial import Trial


def cases() -> Iterator[Case]:
    """Count the messages of the large log by topic, tag and minute."""
    for body in BODIES:
        yield Case(
            name=f"table.counter.{body_name(body)}",
            table=COUNTS,
            run=count,
            body_size=body,
            needs=("reput", "reput_table", "reput_consumequeue"),
            big_log=True,
        )


def count(trial: Trial) -> None:
    """Delete the table, open, wait until all is counted, flush."""
    assert trial.big_log is not None
    trial.warm_up()
    shutil.rmtree(trial.big_log / "counter", ignore_errors=True)
    counter = example_plugin("reput-counter/src/reput_counter/plugin.py", "CounterPlugin")
    with trial.timed("reput, table of counts", count=0, baseline=True) as measured:
        store = open_large(trial.big_log, (*QUEUES, counter))
        done = store.wait_dispatched()
        store.flush()
    with store:
        measured.size = store.log.max_physical_offset - store.log.min_physical_offset
        measured.count = sum(queue.message_count for queue in store.queues())
        ((counted,),) = store.plugin("counter").query("SELECT sum(messages) FROM counter")
        trial.require(done and counted == measured.count > 0, "not everything was counted")
    shutil.rmtree(trial.big_log / "counter")  # other cases use the store without the example
