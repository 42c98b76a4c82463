"""``reput schedule``: what waits in a store, when it is due, and whether it is delivered here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from reput_tools.cli.kit import (
    STORE_KEYS,
    Column,
    format_count,
    format_duration,
    format_size,
    format_timestamp,
    json_option,
    open_to_read,
    path_argument,
    print_facts,
    print_heading,
    print_json,
    print_table,
    with_debug,
)

if TYPE_CHECKING:
    from reput_schedule.api.scheduledmessages import Scheduled
    from reput_schedule.command.histogram import Bar

_PLUGINS: Final = ("consumequeue", "schedule")
_BAR_WIDTH: Final = 40
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"

_EXAMPLES = """\b
Examples:
  reput schedule STORE
  reput schedule STORE --json
"""
_JSON = {
    "message_count": "messages that wait",
    "next_timestamp": "when the next one is due, or null",
    "delivered_by": "`reput` or `rocketmq`",
    "levels[].level": "a delay level",
    "levels[].delay_ms": "its delay",
    "levels[].message_count": "messages that wait in it",
    "levels[].next_timestamp": "when the next one is due",
    "levels[].last_timestamp": "when the last one is due",
    "levels[].next_queue_offset": "the next one in the queue of the level",
    "timed.message_count": "messages with a delivery time of their own",
    "timed.next_timestamp": "when the next one is due, or null",
    "timed.last_timestamp": "when the last one is due, or null",
    "uncounted_size": "bytes of the log whose messages of delay levels are not counted, because "
    "their queues are being rebuilt; 0 if all are counted",
    "now": "the time of the call",
    "histogram[].start_timestamp": "where a stretch of time begins; null for overdue messages",
    "histogram[].end_timestamp": "where it ends; null for the last stretch",
    "histogram[].message_count": "messages that are due in it",
    "problems[]": STORE_KEYS["problems[]"],
}


@click.command(
    short_help="Show which delayed messages wait, and when they are due.", epilog=_EXAMPLES
)
@path_argument
@json_option("one document", _JSON)
@with_debug
def schedule(path: str, as_json: bool) -> None:
    """Show the messages in the store at PATH that wait for delivery, by level and time.

    The command changes nothing in the store, and another process may write it meanwhile. The output
    may lack that process's deliveries of the last second. If a RocketMQ broker has written the
    store, reput delivers the messages only with the option `deliver = "always"`.
    """
    from reput.files import system_clock
    from reput_schedule.command.histogram import histogram
    from reput_schedule.plugin import SchedulePlugin

    with open_to_read(path, plugins=_PLUGINS) as store:
        plugin = store.plugin(SchedulePlugin)
        waiting = plugin.scheduled()
        now = system_clock()
        bars = histogram(store, waiting, now)
        is_ours = plugin.is_ours
        problems = list(store.problems)
    if as_json:
        print_json(_document(waiting, bars, now, is_ours) | {"problems": problems})
    else:
        _print(waiting, bars, now, is_ours)


def _document(waiting: Scheduled, bars: list[Bar], now: int, is_ours: bool) -> dict[str, Any]:
    return {
        "message_count": waiting.message_count,
        "next_timestamp": waiting.next_timestamp,
        "delivered_by": "reput" if is_ours else "rocketmq",
        "levels": [
            {
                "level": each.level,
                "delay_ms": each.delay_ms,
                "message_count": each.message_count,
                "next_timestamp": each.next_timestamp,
                "last_timestamp": each.last_timestamp,
                "next_queue_offset": each.next_queue_offset,
            }
            for each in waiting.levels
        ],
        "timed": {
            "message_count": int(waiting.counts.sum()),
            "next_timestamp": int(waiting.times[0]) if len(waiting.times) else None,
            "last_timestamp": int(waiting.times[-1]) if len(waiting.times) else None,
        },
        "uncounted_size": waiting.uncounted_size,
        "now": now,
        "histogram": [
            {
                "start_timestamp": bar.start,
                "end_timestamp": bar.end,
                "message_count": bar.message_count,
            }
            for bar in bars
        ],
    }


def _print(waiting: Scheduled, bars: list[Bar], now: int, is_ours: bool) -> None:
    next_due = waiting.next_timestamp
    facts = [("waiting", format_count(waiting.message_count, "message"))]
    if next_due is not None:
        facts.append(("next due", f"{format_timestamp(next_due)} ({_distance(next_due - now)})"))
    if waiting.uncounted_size:
        size = format_size(waiting.uncounted_size)
        facts.append(("not counted", f"messages of delay levels in the last {size} of the log"))
        facts.append(("", "their queues are being rebuilt: open the store for writing, and wait"))
    if not is_ours and waiting.message_count:
        facts.append(
            ("delivered by", "a RocketMQ broker; by reput only with the option deliver='always'")
        )
    print_facts(facts, indent=0)
    if waiting.message_count == 0:
        return
    print_heading("By level and time")
    columns = [
        Column("LEVEL"),
        Column("DELAY", right=True),
        Column("MESSAGES", right=True),
        Column("NEXT DUE (UTC)"),
        Column("LAST DUE (UTC)"),
    ]
    print_table(columns, _rows(waiting))
    print_heading("By time left")
    highest = max(bar.message_count for bar in bars)
    columns = [Column("DUE IN", right=True), Column("MESSAGES", right=True), Column("")]
    print_table(
        columns,
        [
            (_stretch(bar, now), format_count(bar.message_count), _bar(bar.message_count, highest))
            for bar in bars
        ],
    )


def _rows(waiting: Scheduled) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            str(each.level),
            _delay(each.delay_ms),
            format_count(each.message_count),
            format_timestamp(each.next_timestamp),
            format_timestamp(each.last_timestamp),
        )
        for each in waiting.levels
    ]
    if len(waiting.times):
        first, last = int(waiting.times[0]), int(waiting.times[-1])
        count = format_count(int(waiting.counts.sum()))
        rows.append(("timed", "-", count, format_timestamp(first), format_timestamp(last)))
    return rows


def _delay(duration_ms: int) -> str:
    """Return a delay in the form of the option ``delay_levels``: ``10s``, ``2h``."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        if duration_ms and duration_ms % size == 0:
            return f"{duration_ms // size}{unit}"
    return f"{duration_ms // 1_000}s"


def _distance(duration_ms: int) -> str:
    if duration_ms < 0:
        return f"overdue by {format_duration(-duration_ms / 1_000)}"
    return f"in {format_duration(duration_ms / 1_000)}"


def _stretch(bar: Bar, now: int) -> str:
    if bar.start is None:
        return "overdue"
    if bar.end is None:
        return f"more than {_delay(bar.start - now)}"
    return f"{_delay(bar.start - now)} to {_delay(bar.end - now)}"


def _bar(count: int, highest: int) -> str:
    """Return a bar as long as ``count`` is of ``highest``, to the eighth of a letter."""
    eighths = -(-count * _BAR_WIDTH * 8 // highest)
    return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
