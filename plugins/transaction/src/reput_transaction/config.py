"""Options of the plugin ``transaction``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs
from attrs.validators import in_, instance_of

from reput.plugin import AGE_MAX_MS, INT32_MAX, integer_between

BATCHED = "batched"
SINGLE = "single"


@attrs.frozen(kw_only=True)
class TransactionConfig:
    """Options of the ``transaction`` plugin.

    A prepare, commit or rollback waits for the disk as a put does: only with ``flush = "sync"`` of
    ``[commitlog]``, and at most ``flush_timeout_ms``.

    A *half message* is a prepared message whose transaction has not ended. An *op marker* records
    that the transaction of a half message has ended. A *check* asks the application for the outcome
    of a transaction.
    """

    automatic: bool = attrs.field(default=True, validator=instance_of(bool))
    """Whether the plugin puts messages by itself: op markers, the remaining messages of a commit
    that a crash interrupted, and the copies of half messages that a check makes. If false, only
    callers end transactions; `TransactionPlugin.settle` then writes the op markers.

    Turn it off to open a copy of a store for writing without the plugin adding messages.
    """
    timeout_ms: int = attrs.field(default=6_000, validator=integer_between(0, AGE_MAX_MS))
    """Age above which a check asks the application for the outcome of a half message
    (``transactionTimeOut``). A message may have its own limit, in its property
    ``CHECK_IMMUNITY_TIME_IN_SECONDS``.

    Raise it when your local transactions take longer than six seconds.
    """
    check_interval_ms: int = attrs.field(default=30_000, validator=integer_between(1, INT32_MAX))
    """Time between two check-back runs (``transactionCheckInterval``).

    Lower it when an unanswered transaction must be settled sooner.
    """
    check_max: int = attrs.field(default=15, validator=integer_between(1, INT32_MAX))
    """The number of checks before the plugin gives up a half message (``transactionCheckMax``).

    Raise it when applications may be down for longer than fifteen checks take.
    """
    keep_hours: int = attrs.field(default=72, validator=integer_between(1, AGE_MAX_MS // 3_600_000))
    """Age at which the plugin gives up a half message, after any number of checks
    (``fileReservedTime``). Retention may then remove the log file of the half message.

    Set it to the hours for which ``[retention]`` keeps the log.
    """
    op_messages: str = attrs.field(default=BATCHED, validator=in_((BATCHED, SINGLE)))
    """``"batched"``: one message contains the op markers of many half messages, as in RocketMQ 5.
    ``"single"``: each op marker has its own message, which RocketMQ 4.8 can also read. The plugin
    reads both.

    Choose ``"single"`` when a RocketMQ 4 broker will continue the store.
    """
    max_open: int = attrs.field(default=1_000_000, validator=integer_between(1, INT32_MAX))
    """Limit for open half messages; each takes about 550 bytes of memory. Above it the plugin
    fails, and the store retries and suspends it as ``[dispatch]`` determines.

    Raise it when the plugin was suspended with the error that names this option, and there is
    enough memory.
    """

    removed_options: ClassVar[Mapping[str, str]] = {
        "op_batch_interval_ms": "a committed message waits at most 3 s for its op marker",
        "op_message_size": "an op message is full at 4 KiB, as RocketMQ's",
        "durable": 'a call waits for the disk as a put does, with flush = "sync" of [commitlog]',
        "wait_ms": "a call waits as long as a put does, flush_timeout_ms of [commitlog]",
        "snapshot_size": "a snapshot is taken every 64 MiB of the log",
    }
