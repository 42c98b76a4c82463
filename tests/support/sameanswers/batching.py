"""The script's last part: batches."""

from __future__ import annotations

from sameanswers.reading import pull
from sameanswers.run import Run
from sameanswers.sending import batch, long, short

BODIES = tuple(b"b%d" % at for at in range(1, 10))
ADDED = ("CLUSTER", "MSG_REGION", "TRACE_ON", "UNIQ_KEY", "WAIT")
"""Properties of a batch that a broker before 5.4 gives each of its messages."""


def send_batches(run: Run) -> None:
    """Batches come last: their records have other sizes in 5.3.3, and so others other offsets."""
    run.ask("batch", 320, short("batches", 0, batch=True), batch(b"b1", b"b2", b"b3"))
    run.ask("batch of one", 320, short("batches", 0, batch=True), batch(b"b4"))
    unnamed = short("batches", 0, {"UNIQ_KEY": None}, batch=True)
    run.ask("batch without an id", 320, unnamed, batch(b"b8", b"b9"))
    tagged = batch(b"b5", b"b6", properties={"TAGS": "t", "KEYS": "bk"})
    run.ask("batch in words", 10, long("batches", 1, batch=True), tagged)
    run.ask("batch to any queue", 320, short("narrow", -1, batch=True), batch(b"b7"))
    dead = short("%DLQ%billing", 0, batch=True)
    run.ask("batch to dead letters", 320, dead, batch(b"b1", b"b2"))
    run.settle("batches", 0, 6)
    run.settle("batches", 1, 42)
    run.ask("pull batch", 11, pull("batches", 0))
    run.ask("pull batch in words", 11, pull("batches", 1, 40))
