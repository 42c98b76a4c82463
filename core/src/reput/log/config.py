"""Options of the commit log: section ``[commitlog]`` of a store's configuration."""

from __future__ import annotations

from typing import Final

import attrs
from attrs.validators import in_, instance_of

from reput.bounds import INT32_MAX, whole_between
from reput.record.layout import BLANK_MIN_SIZE, RECORD_MIN_SIZE

__all__ = ["LOG_SECTION", "CommitLogConfig"]

LOG_SECTION: Final = "commitlog"
"""Name of the configuration section."""


@attrs.frozen(kw_only=True)
class CommitLogConfig:
    """Options of the commit log. An existing store keeps its ``file_size``."""

    file_size: int = attrs.field(
        default=1 << 30, validator=whole_between(RECORD_MIN_SIZE + BLANK_MIN_SIZE, INT32_MAX)
    )
    """Bytes of one file; all files of a store have the same size."""
    flush: str = attrs.field(default="async", validator=in_(("async", "sync")))
    """``"async"``: a put returns when its bytes are in the page cache; they are flushed every
    `flush_interval_ms`. ``"sync"``: a put returns when its bytes are on disk; group commit lets
    many puts share one flush."""
    flush_interval_ms: int = attrs.field(default=500, validator=whole_between(1, INT32_MAX))
    """Time between two flushes of ``"async"``."""
    flush_timeout_ms: int = attrs.field(default=5_000, validator=whole_between(1, INT32_MAX))
    """How long a put of ``"sync"`` waits before `FlushDiskTimeoutError`."""
    plugin_flush_interval_ms: int = attrs.field(
        default=1_000, validator=whole_between(1, INT32_MAX)
    )
    """Time between two flushes of the plugins' files."""
    max_message_size: int = attrs.field(
        default=4 * 1024 * 1024, validator=whole_between(1, 32 * 1024 * 1024)
    )
    """Bytes of the largest body; a whole record may have 64 KiB more."""
    store_address: str = attrs.field(default="127.0.0.1", validator=instance_of(str))
    """Store address written to records, IPv4 or IPv6."""
    store_port: int = attrs.field(default=10_911, validator=whole_between(0, 65_535))
    """Store port written to records."""
    light_queues: bool = attrs.field(default=False, validator=instance_of(bool))
    """Give queue offsets to the light queues (``%LMQ%…``) that a message's ``INNER_MULTI_DISPATCH``
    names (RocketMQ's ``enableLmq``)."""
    max_light_queues: int = attrs.field(default=20_000, validator=whole_between(0, INT32_MAX))
    """Most light queues that a put may create (``maxLmqConsumeQueueNum``)."""
    record_crc: bool = attrs.field(default=False, validator=instance_of(bool))
    """Write the whole-record checksum property of RocketMQ 5 (``enabledAppendPropCRC``)."""
    window_size: int = attrs.field(default=4 << 20, validator=whole_between(4096, 1 << 30))
    """Bytes of the log that are decoded at a time."""
    recovery: str = attrs.field(default="reput", validator=in_(("reput", "rocketmq")))
    """What opening does with damage that sound records follow. ``"reput"``: only the damaged range
    is lost, and is filled with filler records. ``"rocketmq"``: the log is cut at the damage."""
    keep_cut: bool = attrs.field(default=True, validator=instance_of(bool))
    """Copy bytes that recovery cuts or overwrites to ``reput/lost+found`` first."""
    read_horizon: str = attrs.field(default="", validator=in_(("", "appended", "durable")))
    """Which records are dispatched, and so can be read from queues. ``"appended"``: all that were
    appended. ``"durable"``: only those on disk. ``""``: durable with ``flush="sync"``, else
    appended."""
    preallocate: bool = attrs.field(default=True, validator=instance_of(bool))
    """Allocate the next file before it is needed, in the background."""

    @property
    def reads_durable(self) -> bool:
        """Whether only records on disk are dispatched."""
        horizon = self.read_horizon or ("durable" if self.flush == "sync" else "appended")
        return horizon == "durable"
