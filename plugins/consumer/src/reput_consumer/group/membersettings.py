"""`MemberSettings`: the settings of one member of a group.

The defaults are those of RocketMQ's Java client.

Source: RocketMQ ``DefaultMQPushConsumer`` and ``DefaultLitePullConsumer``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

import attrs
from attrs.validators import optional

from reput.plugin import INT32_MAX, integer_between
from reput_consumer.allocation.simple import Average
from reput_consumer.allocation.strategy import Strategy
from reput_consumer.names import checked_group
from reput_consumer.processqueue import Limits
from reput_consumer.selectors import Selector

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
MAX_RECONSUME_TIMES: Final = 16
_HALF_HOUR_MS: Final = 1_800_000


@attrs.frozen
class Start:
    """Where a group begins to read a queue of which it has no offset yet."""

    kind: str
    """`EARLIEST`, `LATEST`, ``"timestamp"`` or ``"offset"``."""
    number: int = 0
    """The time, ms, or the queue offset."""


def start_of(given: object) -> Start:
    """Return what a caller gave as ``start``: "earliest", "latest", a time, or a queue offset.

    Raises:
        TypeError: it is none of these.
        ValueError: another text, a negative offset, or a time without a time zone.
    """
    if isinstance(given, Start):
        return given
    if given in (EARLIEST, LATEST):
        return Start(str(given))
    if isinstance(given, dt.datetime):
        if given.tzinfo is None:
            raise ValueError(f"start {given}: a time with a time zone expected, as {given}+00:00")
        return Start("timestamp", max(int(given.timestamp() * 1000), 0))
    if isinstance(given, int) and not isinstance(given, bool):
        if given < 0:
            raise ValueError(f"start {given}: a queue offset is 0 or more")
        return Start("offset", given)
    if isinstance(given, str):
        raise ValueError(f'start {given[:100]!r}: "earliest" or "latest" expected')
    raise TypeError(f"start: a string, a datetime or a queue offset expected, found {given!r:.100}")


def seconds_of(argument: str, given: object) -> float | None:
    """Return a number of seconds, or None, as it was given.

    Raises:
        TypeError: it is not a number; the text names the argument.
        ValueError: it is NaN.
    """
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool)):
        if given != given:
            raise ValueError(f"{argument}: a number of seconds expected, found {given!r}")
        return given
    raise TypeError(f"{argument}: a number of seconds expected, found {given!r:.100}")


def _count(default: int, least: int = 1) -> Any:
    return attrs.field(default=default, validator=integer_between(least, INT32_MAX))


@attrs.frozen(kw_only=True)
class MemberSettings:
    """One member of a group. The names in parentheses are those of the Java client."""

    group: str = attrs.field(converter=checked_group)
    member: str
    """Client id; of all members of a group, no two have the same."""
    selectors: Mapping[str, Selector]
    """By topic; without the retry topic."""
    strategy: Strategy = attrs.field(factory=Average)
    """(``allocateMessageQueueStrategy``)"""
    ordered: bool = False
    """One message of a queue after the other (``MessageListenerOrderly``)."""
    broadcast: bool = False
    """Each member reads everything (``MessageModel.BROADCASTING``)."""
    mixed: bool = False
    """Join a group whose members select other topics or tags, though messages are left out."""
    start: Start = Start(LATEST)
    """(``consumeFromWhere``)"""
    fetch_count: int = _count(32)
    """(``pullBatchSize``)"""
    fetch_bytes: int = _count(256 << 10)
    """(``pullBatchSizeInBytes``)"""
    limits: Limits = attrs.field(factory=Limits)
    """(``pullThresholdForQueue``, ``…SizeForQueue``, ``consumeConcurrentlyMaxSpan``)"""
    max_reconsume_times: int | None = attrs.field(
        default=None, validator=optional(integer_between(-1, INT32_MAX))
    )
    """How often a message may come again after its first delivery; None for the group's setting,
    in order for ever."""
    suspend_ms: int = _count(1_000)
    """Pause of a queue whose message failed in order (``suspendCurrentQueueTimeMillis``)."""
    consume_timeout_ms: int = _count(900_000)
    """Time after which a message that is not finished is sent back (``consumeTimeout``)."""
    auto_commit: bool = True
    """Whether offsets are saved now and then and at the end; otherwise only by a commit."""
    save_interval_ms: int = _count(5_000)
    """(``persistConsumerOffsetInterval``)"""

    @property
    def retries(self) -> bool:
        """Whether the group has a retry topic: one that shares queues out."""
        return not self.broadcast
