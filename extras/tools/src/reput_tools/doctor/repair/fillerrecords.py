"""Reads what filler records say: which losses they stand for, in their own words.

A store that has lost its ledger still knows its losses by the records that took the place of lost
ones, as their bodies hold the entry.
"""

from __future__ import annotations

import bisect
import json
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from reput.log import FILLED, Loss
from reput_tools.offline.fillers import filler_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput.record import DispatchBatch, MessageView

_LOSSES_MAX: Final = 100_000
_TEXT_MAX: Final = 4_096
_OFFSET_MAX: Final = 1 << 63
_NEAR: Final = 64
"""Entries that are looked at for one loss; queues may name the same part of the log many times."""


@attrs.define(eq=False)
class FilledLosses:
    """The losses that filler records of a log tell, collected batch by batch."""

    found: list[Loss] = attrs.field(factory=list)
    """In the order of the log; the parts of one loss are one."""
    record_count: int = 0
    """Filler records, which are no messages."""

    def add(self, batch: DispatchBatch) -> None:
        """Take the next records of the log."""
        rows = filler_rows(batch)
        if rows is None:
            return
        self.record_count += int(np.count_nonzero(rows))
        for row in np.flatnonzero(rows).tolist():
            if len(self.found) < _LOSSES_MAX:
                self._take(batch.message(row))

    def _take(self, message: MessageView) -> None:
        start, end = message.physical_offset, message.physical_offset + message.size
        if self.found and start < self.found[-1].end_offset:
            return  # a further part of the same loss
        facts = _facts(message.body)
        lost = facts.get("lost")
        if isinstance(lost, list) and len(lost) == 2 and lost[0] == start:
            end = max(end, _number(lost[1]) or 0)
        self.found.append(
            Loss(
                start,
                end,
                _text(facts.get("reason")) or "BAD_MAGIC",
                _text(facts.get("detail")) or "the record that fills it says so",
                _text(facts.get("topic")) or None,
                _number(facts.get("queue_id")),
                _number(facts.get("queue_offset")),
                FILLED,
                timestamp=_number(facts.get("timestamp")) or message.store_timestamp,
            )
        )

    def not_in(self, ledger: Iterable[Loss]) -> list[Loss]:
        """Return the losses that ``ledger`` does not have."""
        # Losses that a later entry covers in part are among them: the first one that ends after
        # the loss begins says whether it is known.
        known = sorted((each.end_offset, each.start_offset) for each in ledger)
        found = []
        for loss in self.found:
            row = bisect.bisect_right(known, (loss.start_offset, _OFFSET_MAX))
            if not any(start <= loss.start_offset for _, start in known[row : row + _NEAR]):
                found.append(loss)
        return found


def _facts(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}  # too small for all of it
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _TEXT_MAX else ""


def _number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 62 else None
