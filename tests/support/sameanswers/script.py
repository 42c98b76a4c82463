"""All parts of the script, in their order."""

from __future__ import annotations

from sameanswers import (
    administering,
    batching,
    belonging,
    naming,
    oddities,
    operating,
    reading,
    sending,
)
from sameanswers.run import Run

PARTS = (
    administering.make_topics,
    administering.make_groups,
    naming.ask_routes,
    naming.settings_by_name,
    sending.store,
    sending.refuse,
    reading.pull_all,
    reading.wait,
    reading.ask_offsets,
    reading.query,
    belonging.beat,
    belonging.lock,
    belonging.give_back,
    belonging.delay,
    belonging.end,
    belonging.reply,
    naming.register_other_brokers,
    administering.look,
    oddities.codes,
    oddities.frames,
    operating.operate,
    sending.differ,
    batching.send_batches,
)


def play(run: Run) -> None:
    """Send everything."""
    for part in PARTS:
        part(run)
