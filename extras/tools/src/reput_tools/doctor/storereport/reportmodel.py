"""What a report says: plain values, the same for a terminal, for JSON and for the page."""

from __future__ import annotations

from typing import Any

import attrs

from reput_tools.doctor.findings import Severity


@attrs.frozen
class Concern:
    """Something that somebody should look at."""

    severity: Severity
    text: str
    advice: str
    """What to do next; names a command where there is one."""


@attrs.frozen(kw_only=True)
class LogExtent:
    """The log, and which part of it was read."""

    start_offset: int
    """Physical offset of the first byte."""
    end_offset: int
    """Where the log ended when reading began; what a writer appended later is not in the report."""
    file_count: int
    file_size: int
    read_from: int
    """Physical offset where reading began; later than the start where only recent messages are
    asked for."""
    writer_pid: int | None
    """The process that was writing, as far as known."""
    is_open: bool
    """Whether a process had the store open."""


@attrs.frozen
class Sizes:
    """Sizes of bodies, bytes; a quantile is the least size of its bucket, 1/8 below at most."""

    mean: int
    p50: int
    p90: int
    p99: int
    largest: int


@attrs.frozen(kw_only=True)
class TopicCount:
    """Messages of one topic, in the range that was asked for."""

    topic: str
    kind: str
    """``"messages"``, ``"retry"``, ``"dead letters"`` or ``"system"``."""
    message_count: int
    size: int
    """Bytes of the records."""
    body_size: int
    queue_count: int
    first_timestamp: int
    last_timestamp: int
    sent_again: int
    """Messages that consumers have sent back at least once."""
    sizes: Sizes


@attrs.frozen(kw_only=True)
class QueueCount:
    """Messages of one queue, in the range that was asked for."""

    topic: str
    queue_id: int
    message_count: int
    size: int
    body_size: int
    min_queue_offset: int | None
    """None where no message is in the queue, as all are prepared or rolled back."""
    max_queue_offset: int | None
    """Queue offset after the last message."""
    first_timestamp: int
    last_timestamp: int


@attrs.frozen
class HourCount:
    """Messages of one topic that were stored in one hour."""

    timestamp: int
    """ms since the epoch at which the hour begins."""
    topic: str
    message_count: int
    size: int


@attrs.frozen
class Bucket:
    """Messages whose value is in ``[least, below)``; None is not a bound."""

    least: int | None
    below: int | None
    message_count: int


@attrs.frozen(kw_only=True)
class QueueLag:
    """How far a consumer group is behind in one queue."""

    queue_id: int
    committed: int
    """Queue offset of the next message to read."""
    end: int | None
    """Queue offset after the last message; None where the log holds none of the queue."""
    lag: int | None
    """Messages to read; None where this is not known."""
    waiting_since_timestamp: int | None
    """Store time of the first of them, ms; None without, or where it is not known."""


@attrs.frozen(kw_only=True)
class GroupLag:
    """How far a consumer group is behind in one topic."""

    group: str
    topic: str
    kind: str
    """As of `TopicCount`."""
    lag: int
    """Messages to read, in all queues of which this is known."""
    waiting_since_timestamp: int | None
    """Store time of the oldest of them, ms."""
    ahead: int
    """Queues whose committed offset is after the queue's end."""
    unknown: int
    """Queues of which the log holds no message."""
    uncommitted: int
    """Queues of the topic for which the group has no offset."""
    queues: tuple[QueueLag, ...]


@attrs.frozen(kw_only=True)
class DelayLevel:
    """Messages that wait in one delay level."""

    level: int
    delivered_to: int | None
    """Queue offset of the next message to deliver; None without an offset."""
    waiting: int | None
    waiting_since_timestamp: int | None
    """Store time of the first of them, ms."""
    parked: int
    """Messages of the level that the log holds, delivered ones among them."""


@attrs.frozen
class DueCount:
    """Messages that fall due in one hour."""

    timestamp: int
    """ms since the epoch at which the hour begins."""
    message_count: int


@attrs.frozen(kw_only=True)
class TimerWheel:
    """Messages that wait on the timer wheel."""

    waiting: int
    overdue: int
    """Those that should have been delivered before the report was made."""
    first_due_timestamp: int | None
    """ms."""
    last_due_timestamp: int | None
    not_on_wheel: int
    """Messages in the log that are not on the wheel yet."""
    by_hour: tuple[DueCount, ...]


@attrs.frozen(kw_only=True)
class OpenTransaction:
    """A half message that nothing has ended."""

    physical_offset: int
    store_timestamp: int
    queue_offset: int | None
    topic: str | None
    """Where the message would go."""
    group: str | None
    """The producer's group."""
    key: str | None


@attrs.frozen(kw_only=True)
class Transactions:
    """Transactions in the part of the log that was read."""

    half_count: int
    """Half messages that the log holds, finished ones among them."""
    open_count: int
    oldest: tuple[OpenTransaction, ...]
    """The oldest open ones, a few."""
    oldest_timestamp: int | None
    prepared: int
    """Records with the transaction bits of a prepared message, which is in no queue."""
    committed: int
    rolled_back: int
    unread_ops: int
    """Words in bodies of op messages that are no queue offsets."""


@attrs.frozen(kw_only=True)
class RetryCount:
    """Messages that a consumer group failed on."""

    group: str
    retries: int
    """Messages in its retry topic."""
    retries_waiting: int | None
    dead_letters: int
    """Messages that it gave up."""
    oldest_dead_letter_timestamp: int | None
    """Store time, ms."""
    newest_dead_letter_timestamp: int | None


@attrs.frozen(kw_only=True)
class PluginPlace:
    """How far one plugin of the store has come."""

    plugin: str
    state: str
    installed: str | None
    """Version; None where the plugin is not installed."""
    dispatched_to: int | None
    """Physical offset below which its files are on disk; None where this is not known."""
    behind: int | None
    """Bytes of the log that it has not seen."""
    dead_letters: int
    last_error: str | None


@attrs.frozen(kw_only=True)
class StoreReport:
    """All that a report says."""

    path: str
    written_by: str | None
    made_timestamp: int
    """When, ms."""
    seconds: float
    since_timestamp: int | None
    """Store time of the first messages that are counted, ms; None for all."""
    until_timestamp: int | None
    log: LogExtent
    message_count: int
    size: int
    """Bytes of the records."""
    body_size: int
    first_timestamp: int | None
    last_timestamp: int | None
    topics: tuple[TopicCount, ...]
    """Those with most bytes first."""
    queues: tuple[QueueCount, ...]
    """By topic and queue id."""
    hours: tuple[HourCount, ...]
    """By time and topic."""
    sizes: Sizes
    body_sizes: tuple[Bucket, ...]
    """Bodies by size, powers of two; bytes."""
    ages: tuple[Bucket, ...]
    """Messages by the time since they were stored, ms, counted in whole hours."""
    delays: tuple[Bucket, ...]
    """Messages by the time from born to stored, ms."""
    groups: tuple[GroupLag, ...] | None
    """Those with most to read first; None where the store has no offsets of consumers."""
    delay_levels: tuple[DelayLevel, ...]
    timer: TimerWheel | None
    transactions: Transactions
    retries: tuple[RetryCount, ...]
    plugins: tuple[PluginPlace, ...]
    damages: tuple[dict[str, Any], ...]
    """The first of the log's damages, in its order."""
    damage_count: int
    damaged_size: int
    loss_count: int
    """Losses that the ledger has."""
    disk: dict[str, int]
    """Bytes on disk, by file or directory of the store."""
    problems: tuple[str, ...]
    """What of the store could not be used, and was passed over."""
    notes: tuple[str, ...]
    """What the report cannot know, and why."""
    concerns: tuple[Concern, ...]
    """The worst first."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        document = attrs.asdict(self)
        document["concerns"] = [
            {"severity": each.severity.word, "text": each.text, "advice": each.advice}
            for each in self.concerns
        ]
        return document
