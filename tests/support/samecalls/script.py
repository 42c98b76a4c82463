"""All parts of the script, in their order."""

from __future__ import annotations

from samecalls import asking, consuming, producing, settling
from samecalls.run import CallRun

PARTS = (
    settling.settle,
    settling.beat,
    consuming.begin_again,
    consuming.send_later,
    producing.end,
    settling.headers,
    consuming.come_again,
    consuming.receive_later,
    asking.routes,
    settling.settle_badly,
    producing.send,
    producing.send_typed,
    producing.recall,
    consuming.show,
    consuming.settle,
    consuming.give_up,
    consuming.order,
    settling.beat_on,
    asking.names,
    consuming.select,
    consuming.ask_oddly,
    settling.leave,
)


def play(run: CallRun) -> None:
    """Make all calls."""
    for part in PARTS:
        part(run)
