"""Options of the commit log: section ``[commitlog]`` of a store's configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs
from attrs.validators import in_, instance_of

from reput.errors import MessageIllegalError
from reput.record.layout import BLANK_MIN_SIZE, RECORD_MIN_SIZE
from reput.record.messageids import pack_host
from reput.validators import INT32_MAX, integer_between

LOG_SECTION: Final = "commitlog"
"""Name of the configuration section."""


def files_grow(sections: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the files of a store with these options grow (`CommitLogConfig.grows`)."""
    return sections.get(LOG_SECTION, {}).get("grows") is True


_PORT: Final = 10_911
_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[^\[\]]*)\]|(?P<v4>[^:\[\]]*)):(?P<port>[0-9]{1,5})")


def _host(text: str) -> tuple[str, int]:
    """Return address and port; an address alone has RocketMQ's port."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        return text, _PORT
    return found["v6"] or found["v4"] or "", int(found["port"])


def _check_address(config: object, field: attrs.Attribute[Any], value: object) -> None:
    expected = f"{field.name}: an IP address and a port expected, such as 10.0.0.5:10911 or [::1]:1"
    if not isinstance(value, str):
        raise TypeError(f"{expected}, found {value!r}")
    try:
        pack_host(*_host(value))
    except MessageIllegalError:
        raise ValueError(f"{expected}, found {value!r}") from None


@attrs.frozen(kw_only=True)
class CommitLogConfig:
    """Options of the commit log. An existing store keeps its ``file_size``."""

    file_size: int = attrs.field(
        default=1 << 30, validator=integer_between(RECORD_MIN_SIZE + BLANK_MIN_SIZE, INT32_MAX)
    )
    """Bytes of one log file (1 GiB); all files of a store have the same size. The largest record is
    8 bytes smaller than a file.

    Lower it, before the first message, when retention is to remove old messages in smaller steps.
    """
    grows: bool = attrs.field(default=False, validator=instance_of(bool))
    """Begin the files of the log, the queues and the index small, and extend them as messages come.
    If false, each file has its full size from the start, as a broker expects. A new store of
    `reput.open` has growing files, unless you pass ``sizes="rocketmq"``. An existing store keeps
    what it has; ``reput fill`` gives its files their full size.

    Set it to false if a broker is to take the directory over.
    """
    flush: str = attrs.field(default="async", validator=in_(("async", "sync")))
    """``"async"``: a put returns when its bytes are in the page cache; they are flushed every
    `flush_interval_ms`. ``"sync"``: a put returns when its bytes are on disk; many puts share one
    flush (group commit).

    Choose ``"sync"`` when a power cut must not lose an acknowledged message.
    """
    flush_interval_ms: int = attrs.field(default=500, validator=integer_between(1, INT32_MAX))
    """Time between two flushes of the log. With ``"async"``, a power cut can lose the messages
    written in this interval.

    Lower it when half a second of messages is too much to lose.
    """
    flush_timeout_ms: int = attrs.field(default=5_000, validator=integer_between(1, INT32_MAX))
    """How long a put with ``"sync"`` waits before `FlushDiskTimeoutError`. The message is then
    stored, and may be on disk later.

    Raise it when a slow disk makes puts fail with that error.
    """
    max_message_size: int = attrs.field(
        default=4 * 1024 * 1024, validator=integer_between(1, 32 * 1024 * 1024)
    )
    """Bytes of the largest body (4 MiB); a whole record may have 64 KiB more.

    Raise it when your messages have larger bodies.
    """
    store_address: str = attrs.field(default="127.0.0.1:10911", validator=_check_address)
    """The store's address in records, which is part of every message id: an IP address and a port.
    IPv6 is in brackets, as in ``"[::1]:10911"``. You may omit the port.

    Set it when message ids must contain the address of the broker that clients use; ``reput serve``
    sets it itself.
    """
    default_queue_count: int = attrs.field(default=4, validator=integer_between(1, 1024))
    """Queues of a topic that no plugin knows (``defaultTopicQueueNums``). The queues take turns for
    messages that are put without a queue, or the key in ``ordered_by`` decides. The plugin
    ``consumer`` knows the topics in ``config/topics.json``.

    Set it to 1 when all messages of a topic must stay in order.
    """
    max_light_queues: int = attrs.field(default=0, validator=integer_between(0, INT32_MAX))
    """The number of light queues that puts may create (``maxLmqConsumeQueueNum``). A light queue
    has a name with the prefix ``%LMQ%``, and lists messages of other topics. A message names its
    light queues in the property ``INNER_MULTI_DISPATCH`` (``enableLmq``). With 0 this property has
    no effect.

    Set it to RocketMQ's 20,000 when producers use light queues.
    """
    record_crc: bool = attrs.field(default=False, validator=instance_of(bool))
    """Write the whole-record checksum property of RocketMQ 5 (``enabledAppendPropCRC``); 20 bytes
    more for each record.

    Turn it on when changes of headers and properties must also be found.
    """
    recovery: str = attrs.field(default="reput", validator=in_(("reput", "rocketmq")))
    """How the opening of the store repairs damage if valid records follow the damage.
    ``"reput"``: only the damaged records are lost, and filler records take their place. Recovery
    reads the log from the place up to which the log is known to be on disk. ``"rocketmq"``: the
    store recovers as RocketMQ does. It cuts the log at the damage, and keeps a torn record whose
    body is complete. The plugins ``consumequeue`` and ``compaction`` keep the entries in their
    files up to the end of the log. With ``"reput"``, they remove the entries after their recorded
    progress, and add them again from the log.

    Choose ``"rocketmq"`` when a broker also opens the store and both must find the same end.
    """
    read_horizon: str = attrs.field(default="", validator=in_(("", "appended", "durable")))
    """Which records are dispatched, and so can be read from queues. ``"appended"``: all appended
    records. ``"durable"``: only records on disk. ``""``: ``"durable"`` with ``flush = "sync"``,
    otherwise ``"appended"``.

    Choose ``"durable"`` when puts need not wait for the disk and readers must not see messages that
    a power cut can lose.
    """

    small_sizes: ClassVar[Mapping[str, Any]] = {
        # 240,000 messages of 280 bytes: a roll is rare, and retention removes 64 MiB at a time.
        "file_size": 64 << 20,
        "grows": True,
    }
    """Options of new stores that are not made for a broker."""
    removed_options: ClassVar[Mapping[str, str]] = {
        "plugin_flush_interval_ms": "plugins' files are flushed every second",
        "store_port": 'store_address has the port, as in "127.0.0.1:10911"',
        "light_queues": "max_light_queues says how many there may be, 0 for none",
        "window_size": "the log is decoded 4 MiB at a time",
        "keep_cut": "bytes that are cut or overwritten are always copied to reput/lost+found",
        "preallocate": "files of 1 MiB and more are made ahead of need",
    }
    plugin_flush_interval_ms: ClassVar[int] = 1_000
    """Time between two flushes of the plugins' files."""
    window_size: ClassVar[int] = 4 << 20
    """Bytes of the log that are decoded at a time; larger records are read all the same.

    All columns of such a window fit into a processor's cache. To derive queues and index with 2 MiB
    took 11 to 49 % longer; 8 and 12 MiB took more memory, without a clear gain.
    """
    made_ahead_from: ClassVar[int] = 1 << 20
    """Bytes of files that are made in the background, ahead of need; making a smaller one takes
    less time than handing it over."""

    @property
    def store_host(self) -> tuple[str, int]:
        """Address and port of `store_address`."""
        return _host(self.store_address)

    @property
    def reads_durable(self) -> bool:
        """Whether only records on disk are dispatched."""
        horizon = self.read_horizon or ("durable" if self.flush == "sync" else "appended")
        return horizon == "durable"
