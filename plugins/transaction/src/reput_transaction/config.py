"""Options of the plugin ``transaction``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs
from attrs.validators import in_, instance_of

from reput.plugin import AGE_MAX_MS, INT32_MAX, integer_between

__all__ = ["TransactionConfig"]

BATCHED = "batched"
SINGLE = "single"


@attrs.frozen(kw_only=True)
class TransactionConfig:
    """Options of the ``transaction`` plugin."""

    automatic: bool = attrs.field(default=True, validator=instance_of(bool))
    """Whether the plugin puts messages by itself: op markers, the rest of transactions that a crash
    left half-done, and copies by check-back. If false, a store can be opened for writing and only
    callers end transactions; `TransactionPlugin.settle` then writes the op markers."""
    timeout_ms: int = attrs.field(default=6_000, validator=integer_between(0, AGE_MAX_MS))
    """Age above which a check asks the application for the outcome of a half message
    (``transactionTimeOut``). A message may have its own limit, in its property
    ``CHECK_IMMUNITY_TIME_IN_SECONDS``."""
    check_interval_ms: int = attrs.field(default=30_000, validator=integer_between(1, INT32_MAX))
    """Time between two check-back runs (``transactionCheckInterval``)."""
    check_max: int = attrs.field(default=15, validator=integer_between(1, INT32_MAX))
    """How often a half message is checked before it is given up (``transactionCheckMax``)."""
    keep_hours: int = attrs.field(default=72, validator=integer_between(1, AGE_MAX_MS // 3_600_000))
    """Age at which a half message is given up, however often it was checked
    (``fileReservedTime``). An older half message no longer keeps the log from losing its head."""
    op_messages: str = attrs.field(default=BATCHED, validator=in_((BATCHED, SINGLE)))
    """``"batched"``: one message contains the op markers of many half messages, as in RocketMQ 5.
    ``"single"``: each op marker has its own message, which RocketMQ 4.8 can also read. The plugin
    reads both."""
    max_open: int = attrs.field(default=1_000_000, validator=integer_between(1, INT32_MAX))
    """Half messages that may be open; each takes some 550 bytes of memory. One more makes the
    plugin fail; it is retried and suspended as ``[dispatch]`` says."""

    removed_options: ClassVar[Mapping[str, str]] = {
        "op_batch_interval_ms": "a committed message waits at most 3 s for its op marker",
        "op_message_size": "an op message is full at 4 KiB, as RocketMQ's",
        "durable": 'a call waits for the disk as a put does, with flush = "sync" of [commitlog]',
        "wait_ms": "a call waits as long as a put does, flush_timeout_ms of [commitlog]",
        "snapshot_size": "a snapshot is taken every 64 MiB of the log",
    }
