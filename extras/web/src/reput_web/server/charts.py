"""Charts of a few columns: what becomes due, and how far a group is behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from reput_web.server.rendering import url

if TYPE_CHECKING:
    from reput_web.readmodel.delayed import DueBar
    from reput_web.readmodel.groups import GroupQueue

_QUEUES_MAX: Final = 120


def due_chart(bars: Sequence[DueBar]) -> str:
    """Draw what becomes due, in stretches of time that grow; nothing without messages."""
    from reput_tools.cli.kit import format_timestamp
    from reput_tools.doctor.html import columns

    def label(bar: DueBar) -> str:
        if bar.start is None:
            return "overdue"
        until = "" if bar.end is None else f" – {format_timestamp(bar.end)[:19]}"
        return f"{format_timestamp(bar.start)[:19]}{until}"

    return columns(
        [each.message_count for each in bars],
        labels=[label(each) for each in bars],
        title="what becomes due",
    )


def lag_chart(queues: Sequence[GroupQueue]) -> str:
    """Draw the lag of queues, each of which leads to the oldest message that is not consumed."""
    from reput_tools.doctor.html import columns

    shown = [each for each in queues if each.lag][:_QUEUES_MAX]
    if len(shown) < 2:  # the table says as much
        return ""
    return columns(
        [each.lag for each in shown],
        labels=[f"{each.topic}/{each.queue_id}" for each in shown],
        title="lag by queue",
        links=[
            url(
                "/messages",
                topic=each.topic,
                queue=each.queue_id,
                order="oldest",
                offset=max(each.offset, each.min_offset),
            )
            for each in shown
        ],
    )
