"""Damage of a log, as a table and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput_cli.escape import escape_text
from reput_cli.losses import first_lost
from reput_cli.output import Column, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.log import Damage

__all__ = ["damage_document", "print_damages"]


def damage_document(damage: Damage) -> dict[str, Any]:
    """One damage for ``--json``."""
    return {
        "file": damage.path,
        "position": damage.position,
        "physical_offset": damage.start_offset,
        "end_offset": damage.end_offset,
        "size": damage.size,
        "reason": damage.reason,
        "detail": damage.detail,
        "topic": damage.topic,
        "queue_id": damage.queue_id,
        "queue_offset": damage.queue_offset,
    }


def print_damages(damages: Sequence[Damage]) -> None:
    """A table of damages, in the order of the log; each names what was found and expected."""
    columns = [
        Column("FILE"),
        Column("POSITION", right=True),
        Column("SIZE", right=True),
        Column("REASON"),
        Column("MESSAGE", shrink=True),
        Column("FOUND", shrink=True),
    ]
    rows = [
        (
            damage.path.rpartition("/")[2],
            str(damage.position),
            str(damage.size),
            damage.reason,
            first_lost(damage.topic, damage.queue_id, damage.queue_offset),
            escape_text(damage.detail),
        )
        for damage in damages
    ]
    print_table(columns, rows)
