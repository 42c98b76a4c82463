"""The first page: what the store is, how much it holds, what needs a look."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput.files import system_clock
from reput_web.readmodel.compacted import kept_counts
from reput_web.readmodel.delayed import delayed_of
from reput_web.readmodel.topics import TopicRow, activity_of, topic_rows
from reput_web.readmodel.transactions import transactions_of

if TYPE_CHECKING:
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.readmodel.topics import Activity
    from reput_web.readmodel.workbudget import WorkBudget

_CHART_SHARE: Final = 0.1
_TRANSACTIONS_SHARE: Final = 0.1
_HOUR_MS: Final = 3_600_000


@attrs.frozen
class Notice:
    """Something that somebody should look at."""

    severity: str
    """``loss``, ``damage``, ``warning`` or ``notice``."""
    text: str
    advice: str = ""


@attrs.frozen(kw_only=True)
class PluginRow:
    """State of one plugin."""

    plugin: str
    state: str
    lag_size: int
    """Bytes of the log that it has not seen."""
    last_error: str | None


@attrs.frozen(kw_only=True)
class Overview:
    """What the first page shows."""

    path: str
    written_by: str | None
    writer_pid: int | None
    is_open: bool
    """Whether a process has the store open to write."""
    was_closed: bool
    log_start: int
    log_end: int
    file_count: int
    file_size: int
    message_count: int
    """Messages in queues."""
    topic_count: int
    queue_count: int
    last_timestamp: int | None
    topics: tuple[TopicRow, ...]
    """Those with most messages."""
    plugins: tuple[PluginRow, ...]
    notices: tuple[Notice, ...]
    activity: Activity | None
    loss_count: int


def overview_of(
    opened: OpenedStore,
    budget: WorkBudget,
    *,
    since: int | None = None,
    until: int | None = None,
    counts_all: bool = False,
) -> Overview:
    """Return the overview; reads small files, and queue units at about sixty times.

    Where the store has half messages, it also reads their part of the log for a short time.

    Args:
        opened: the store.
        budget: ends the counting of messages over time.
        since: begin of the time that is counted, ms.
        until: its end.
        counts_all: whether the counting may take all of the time of the request. Otherwise it takes
            a small part of it, so that the first page of a large store is soon there.
    """
    store, traces = opened.store, opened.traces()
    queues = opened.queues()
    rows = topic_rows(queues, kept_counts(opened))
    plugins = tuple(
        PluginRow(
            plugin=each.name, state=each.state, lag_size=each.lag_size, last_error=each.last_error
        )
        for each in store.plugins()
    )
    losses = store.losses()
    notices = [
        *_notices(opened, plugins, len(losses), rows),
        *_waiting(opened, rows, budget, is_open=traces.is_open),
    ]
    times = [each.last_timestamp for each in rows if each.last_timestamp is not None]
    return Overview(
        path=store.root,
        written_by=traces.written_by,
        writer_pid=traces.writer_pid,
        is_open=traces.is_open,
        was_closed=traces.was_closed,
        log_start=store.log.min_physical_offset,
        log_end=store.log.max_physical_offset,
        file_count=len(store.log.file_offsets),
        file_size=store.log.file_size,
        message_count=sum(each.message_count for each in rows if each.kind != "light queue"),
        topic_count=len(rows),
        queue_count=len(queues),
        last_timestamp=max(times, default=None),
        topics=tuple(sorted(rows, key=lambda each: -each.message_count)[:8]),
        plugins=plugins,
        notices=tuple(notices),
        activity=activity_of(
            opened,
            queues,
            budget if counts_all else budget.part(_CHART_SHARE),
            since=since,
            until=until,
        ),
        loss_count=len(losses),
    )


def _notices(
    opened: OpenedStore, plugins: tuple[PluginRow, ...], loss_count: int, rows: list[TopicRow]
) -> list[Notice]:
    from reput_tools.cli.kit import format_count

    found = [Notice("warning", text) for text in opened.store.problems]
    if loss_count:
        text = f"The log has lost messages in {format_count(loss_count, 'place')}."
        found.append(Notice("loss", text, "The page Doctor checks every record."))
    for each in plugins:
        if each.state in ("suspended", "failed", "halted", "skipping") or each.last_error:
            text = f"The plugin {each.plugin} is {each.state}."
            found.append(Notice("warning", text, each.last_error or ""))
    dead = [each for each in rows if each.kind == "dead letter" and each.message_count]
    if dead:
        count = sum(each.message_count for each in dead)
        text = f"Consumer groups have given up {format_count(count, 'message')}."
        found.append(Notice("notice", text, "The page Groups lists them."))
    return found


def _waiting(
    opened: OpenedStore, rows: list[TopicRow], budget: WorkBudget, *, is_open: bool
) -> Iterator[Notice]:
    """Yield what waits for too long, as ``reput report`` and ``reput schedule`` count it."""
    from reput_tools.cli.kit import format_count
    from reput_tools.doctor.storereport.concerns import format_age

    kinds = {each.kind for each in rows if each.message_count}
    found = delayed = None
    # The notices above are shown also where a plugin's files cannot be read.
    with contextlib.suppress(ReputError, OSError):
        if "transaction" in kinds:
            found = transactions_of(opened, 0, None, 1, budget.part(_TRANSACTIONS_SHARE))
    if found is not None and found.open_count and found.oldest_timestamp is not None:
        age = max(system_clock() - found.oldest_timestamp, 0)
        count = format_count(found.open_count, "transaction")
        verb = "is" if found.open_count == 1 else "are"
        text = f"{count} {verb} neither committed nor rolled back, the oldest for "
        text += format_age(age / 1000)
        advice = "The page Transactions lists them."
        if found.left_size:
            advice = "The log was read in part; the page Transactions reads on."
        yield Notice("warning" if age >= _HOUR_MS else "notice", f"{text}.", advice)
    with contextlib.suppress(ReputError, OSError):
        if "delay" in kinds and not is_open:  # a process that has it open delivers them
            delayed = delayed_of(opened)
    overdue = delayed.overdue_count if delayed is not None else 0
    if overdue:
        verb = "is" if overdue == 1 else "are"
        text = f"{format_count(overdue, 'delayed message')} {verb} overdue."
        yield Notice("notice", text, "The page Delayed lists what waits.")


def document_of(overview: Overview) -> dict[str, Any]:
    """Return plain values."""
    return attrs.asdict(overview)
