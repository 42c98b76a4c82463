"""Messages that wait for their time, by delay level and by due time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from reput.files import system_clock

if TYPE_CHECKING:
    from reput_web.readmodel.openedstore import OpenedStore


@attrs.frozen(kw_only=True)
class DelayedLevel:
    """Messages that wait at one delay level."""

    level: int
    delay_ms: int
    message_count: int
    next_queue_offset: int
    """Of the message that is delivered next, in the queue of the level."""
    next_timestamp: int | None
    """When it is due, ms."""
    last_timestamp: int | None


@attrs.frozen(kw_only=True)
class DueBar:
    """Messages that are due in a time; None is not a bound."""

    start: int | None
    end: int | None
    message_count: int


@attrs.frozen(kw_only=True)
class Delayed:
    """All that waits."""

    message_count: int
    next_timestamp: int | None
    is_ours: bool
    """Whether reput delivers the messages, and not a broker."""
    levels: tuple[DelayedLevel, ...]
    timed_count: int
    """Messages on the timer wheel."""
    uncounted_size: int
    """Bytes of the log whose messages of delay levels are not counted."""
    bars: tuple[DueBar, ...]

    @property
    def overdue_count(self) -> int:
        """Messages whose time is over."""
        return sum(each.message_count for each in self.bars if each.start is None)


def delayed_of(opened: OpenedStore) -> Delayed | None:
    """Return what waits, as ``reput schedule`` shows it; None without the plugin ``schedule``."""
    try:
        from reput_schedule.command.histogram import histogram
        from reput_schedule.plugin import SchedulePlugin
    except ModuleNotFoundError:
        return None
    import reput

    plugins = ["consumequeue", "schedule"]
    with reput.open(
        opened.root, mode="r", plugins=plugins, follow_links=opened.follow_links
    ) as store:
        plugin = store.plugin(SchedulePlugin)
        found = plugin.scheduled()
        bars = histogram(store, found, system_clock())
        return Delayed(
            message_count=found.message_count,
            next_timestamp=found.next_timestamp,
            is_ours=plugin.is_ours,
            levels=tuple(
                DelayedLevel(
                    level=each.level,
                    delay_ms=each.delay_ms,
                    message_count=each.message_count,
                    next_queue_offset=each.next_queue_offset,
                    next_timestamp=each.next_timestamp,
                    last_timestamp=each.last_timestamp,
                )
                for each in found.levels
            ),
            timed_count=int(found.counts.sum()),
            uncounted_size=found.uncounted_size,
            bars=tuple(
                DueBar(start=each.start, end=each.end, message_count=each.message_count)
                for each in bars
            ),
        )


def document_of(found: Delayed | None) -> dict[str, Any]:
    """Return plain values."""
    return {"delayed": None if found is None else attrs.asdict(found)}
