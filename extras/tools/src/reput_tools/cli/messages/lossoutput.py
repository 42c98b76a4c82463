"""Losses and damage of a log: as text, as a table and as JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from reput_tools.cli.kit.escape import escape_text
from reput_tools.cli.kit.output import Column, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.log import Damage, LogReader, Loss


def lost_size(losses: Sequence[Loss]) -> int:
    """Return the bytes of all losses; the lost end, which several queues name, counts once."""
    from reput.log import GONE

    size, end = sum(loss.size for loss in losses if loss.reason != GONE), 0
    gone = ((loss.start_offset, loss.end_offset) for loss in losses if loss.reason == GONE)
    for start, stop in sorted(gone):
        size += max(stop - max(start, end), 0)
        end = max(end, stop)
    return size


def lost_queue(loss: Loss) -> str:
    """Return ``orders/0@12`` for the first record lost, as far as known; else a dash."""
    text = _first_lost(loss.topic, loss.queue_id, loss.queue_offset)
    # Half-open, as all offsets are: the number after the dots is the first that is not lost.
    return text if loss.queue_end_offset is None else f"{text}..{loss.queue_end_offset}"


def _first_lost(topic: str | None, queue_id: int | None, queue_offset: int | None) -> str:
    """Return ``orders/0@12``, as far as known; else a dash."""
    if topic is None:
        return "-"
    queue = "?" if queue_id is None else str(queue_id)
    offset = "" if queue_offset is None else f"@{queue_offset}"
    return f"{topic}/{queue}{offset}"


def loss_document(root: str, loss: Loss) -> dict[str, Any]:
    """Return one loss for ``--json``."""
    return {
        "start_offset": loss.start_offset,
        "end_offset": loss.end_offset,
        "size": loss.size,
        "reason": loss.reason,
        "detail": loss.detail,
        "topic": loss.topic,
        "queue_id": loss.queue_id,
        "queue_offset": loss.queue_offset,
        "queue_end_offset": loss.queue_end_offset,
        "keys": loss.keys.split(),
        "action": loss.action,
        "kept": os.path.join(kept_in(root), loss.kept) if loss.kept else None,
        "timestamp": loss.timestamp,
    }


def kept_in(root: str) -> str:
    """Return where the store at ``root`` keeps the bytes cut out of its log."""
    from reput.files import OWN_DIRECTORY

    return os.path.join(root, OWN_DIRECTORY, "lost+found")


def damage_document(log: LogReader, damage: Damage) -> dict[str, Any]:
    """Return one damage of ``log`` for ``--json``."""
    path, position = log.path_of(damage.start_offset)
    return {
        "file": path,
        "position": position,
        "physical_offset": damage.start_offset,
        "end_offset": damage.end_offset,
        "size": damage.size,
        "reason": damage.reason,
        "detail": damage.detail,
        "topic": damage.topic,
        "queue_id": damage.queue_id,
        "queue_offset": damage.queue_offset,
    }


def print_damages(log: LogReader, damages: Sequence[Damage]) -> None:
    """Print a table of damages of ``log``, in its order; each names what was found and expected."""
    columns = [
        Column("FILE"),
        Column("POSITION", right=True),
        Column("SIZE", right=True),
        Column("REASON"),
        Column("MESSAGE", shrink=True),
        Column("FOUND", shrink=True),
    ]
    places = [log.path_of(damage.start_offset) for damage in damages]
    rows = [
        (
            path.rpartition("/")[2],
            str(position),
            str(damage.size),
            damage.reason,
            _first_lost(damage.topic, damage.queue_id, damage.queue_offset),
            escape_text(damage.detail),
        )
        for damage, (path, position) in zip(damages, places, strict=True)
    ]
    print_table(columns, rows)
