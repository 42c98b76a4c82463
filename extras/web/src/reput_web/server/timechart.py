"""Messages over time as a chart, in which a reader selects a time.

The selection is a form of two lists, which works by keyboard and without scripts; a script lets a
pointer draw it in the chart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from reput_web.server.rendering import url

if TYPE_CHECKING:
    from reput_web.readmodel.topics import Activity

_MINUTE_MS: Final = 60_000


@attrs.frozen(kw_only=True)
class TimeChart:
    """What the template of a chart shows."""

    svg: str
    starts: tuple[tuple[str, str], ...]
    """Value and label for the beginning of each column."""
    ends: tuple[tuple[str, str], ...]
    counts: tuple[int, ...]
    left: float
    """Where the first column begins, in units of the drawing."""
    width: float
    """Of a column."""
    earlier: str
    """Address of the same page for the time before."""
    later: str
    whole: str | None
    """Address of the same page for all of the time; None if it shows that."""


def time_chart(
    activity: Activity | None,
    page: str,
    topic: str | None = None,
    *,
    is_part: bool = False,
) -> TimeChart | None:
    """Draw columns over time, each of which leads to the messages of its time.

    Args:
        activity: the counts to draw.
        page: path of the page that shows it.
        topic: the topic that the page is about.
        is_part: whether a time was selected.
    """
    if activity is None:
        return None
    from reput_tools.cli.kit import format_timestamp
    from reput_tools.doctor.html import column_places, columns

    count, step = len(activity.counts), activity.step
    starts = [activity.start + at * step for at in range(count)]
    digits = 16 if step >= _MINUTE_MS else 23
    edges = [*starts, activity.start + count * step]
    labels = [format_timestamp(each)[:digits] for each in edges]
    svg = columns(
        activity.counts,
        [(f"queue {name}" if topic else name, counts) for name, counts in activity.series],
        labels=labels[:-1],
        title="messages over time",
        links=[
            url("/messages", topic=topic, since=f"@{start}", until=f"@{start + step - 1}")
            for start in starts
        ],
    )
    if not (svg or is_part or activity.is_partial):
        return None
    left, width = column_places(count)
    span = count * step

    def moved(by: int) -> str:
        since = max(activity.start + by, 0)
        return url(page, name=topic, since=f"@{since}", until=f"@{since + span - 1}")

    return TimeChart(
        svg=svg,
        starts=tuple((f"@{start}", label) for start, label in zip(starts, labels, strict=False)),
        ends=tuple(
            (f"@{start + step - 1}", label) for start, label in zip(starts, labels[1:], strict=True)
        ),
        counts=activity.counts,
        left=left,
        width=width,
        earlier=moved(-span),
        later=moved(span),
        whole=url(page, name=topic) if is_part else None,
    )
