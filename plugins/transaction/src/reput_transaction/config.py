"""Options of the plugin ``transaction``."""

from __future__ import annotations

import attrs
from attrs.validators import ge, in_, instance_of, le

__all__ = ["TransactionConfig"]

BATCHED = "batched"
SINGLE = "single"


@attrs.frozen(kw_only=True)
class TransactionConfig:
    """Options of the ``transaction`` plugin."""

    automatic: bool = attrs.field(default=True, validator=instance_of(bool))
    """Whether the plugin puts anything by itself: op markers, what a crash has left half-done, and
    what check-back needs. With False a store can be opened for writing, and only what callers end
    is ended; `TransactionPlugin.settle` writes the op markers then."""
    timeout_ms: int = attrs.field(default=6_000, validator=[instance_of(int), ge(0)])
    """Age from which on the application is asked what became of a half message
    (``transactionTimeOut``); a message may name another in ``CHECK_IMMUNITY_TIME_IN_SECONDS``."""
    check_interval_ms: int = attrs.field(default=30_000, validator=[instance_of(int), ge(1)])
    """Time between two check-back runs (``transactionCheckInterval``)."""
    check_max: int = attrs.field(default=15, validator=[instance_of(int), ge(1)])
    """How often a half message is asked about before it is given up (``transactionCheckMax``)."""
    keep_hours: int = attrs.field(default=72, validator=[instance_of(int), ge(1)])
    """Age at which a half message is given up, however often it was asked about
    (``fileReservedTime``). From then on it does not keep the log from losing its head."""
    op_messages: str = attrs.field(default=BATCHED, validator=in_((BATCHED, SINGLE)))
    """``"batched"``: one op message for many half messages, as RocketMQ 5 writes them.
    ``"single"``: one for each, which 4.8 reads, too. Both are read in any case."""
    op_batch_interval_ms: int = attrs.field(default=3_000, validator=[instance_of(int), ge(0)])
    """How long a committed message may wait for its op marker (``transactionOpBatchInterval``); it
    waits for the disk in any case."""
    op_message_size: int = attrs.field(
        default=4_096, validator=[instance_of(int), ge(1), le(1 << 20)]
    )
    """Bytes from which on an op message is full (``transactionOpMsgMaxSize``)."""
    durable: bool = attrs.field(default=False, validator=instance_of(bool))
    """Whether preparing, committing and rolling back return when that is on disk. Set it with
    ``flush = "sync"``."""
    wait_ms: int = attrs.field(default=5_000, validator=[instance_of(int), ge(1)])
    """How long they wait for the disk; then they raise ``FlushDiskTimeoutError``."""
    max_open: int = attrs.field(default=1_000_000, validator=[instance_of(int), ge(1)])
    """Half messages that may be open; each takes some 550 bytes of memory. With one more the plugin
    fails, and is tried again and suspended as ``[dispatch]`` says."""
    snapshot_size: int = attrs.field(default=64 << 20, validator=[instance_of(int), ge(4_096)])
    """Bytes of the log between two snapshots of what is open, the most that opening reads again."""
