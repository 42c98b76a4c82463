"""`StoreAccess`: what a plugin may do with its store beside answering hooks.

The plugin's own `reput_put` is not called for the messages that it puts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol

import attrs

from reput.errors import ServiceNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.log.writer.receipts import BatchReceipt
    from reput.plugin.messagefilter import MessageFilter
    from reput.plugin.readresults import QueueInfo, ReadResult
    from reput.record.messages.message import Message

KEEP: Final = "keep"
DROP: Final = "drop"


@attrs.frozen
class Hold:
    """A need of the log from an offset on, which keeps files from being removed."""

    physical_offset: int
    """Where the needed part of the log begins."""
    plugin: str
    """Name of the plugin that needs it; empty for the log itself."""
    reason: str
    """Why it is needed, for people."""


@attrs.frozen
class TrimReport:
    """Result of `reput.Store.trim_log`."""

    start_offset: int
    """Physical offset at which the log began."""
    min_physical_offset: int
    """Where it begins now; after ``dry_run``, where it would begin."""
    holds: tuple[Hold, ...] = ()
    """All needs of the log; the lowest decides. Empty if no whole file ends at or below the
    offset."""
    not_notified: tuple[str, ...] = ()
    """Plugins that do not run or did not answer, and must still be notified."""


class StoreAccess(Protocol):
    """The store as a plugin may use it. Thread-safe.

    It refuses every call during `reput_open` and `reput_recover`. A plugin must not use it in
    `reput_dispatch` or `reput_flush`, which would wait for themselves.
    """

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: MessageFilter | None = None,  # noqa: A002 - the word for it
    ) -> ReadResult:
        """Read messages of one queue, as `reput.Store.read` does, by the other plugins' hooks.

        Raises:
            NoReaderError: no other plugin reads queues.
            ServiceNotAvailableError: the store is not open yet.
            StoreClosedError: it is closed.
        """
        ...

    def queues(self) -> list[QueueInfo]:
        """Return all queues that the other plugins can read, sorted by topic and queue id.

        Raises:
            NoReaderError: no other plugin reads queues.
        """
        ...

    def filter(
        self, expression: str, kind: str | None = None, *, topic: str | None = None
    ) -> MessageFilter:
        """Compile a filter for `read`, as `reput.Store.filter` does.

        Raises:
            NoReaderError: no plugin compiles filters of that kind.
            ValueError: ``expression`` is not a condition; the text says where.
        """
        ...

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: Literal["lower", "upper"]
    ) -> int:
        """Return the queue offset of a time, as `reput.Store.offset_by_time` does.

        Raises:
            NoReaderError: no plugin reads queues.
        """
        ...

    def put_many(self, messages: Sequence[Message]) -> BatchReceipt:
        """Store messages in their order, after the `reput_put` of the other plugins.

        Never waits for the disk; see `flushed_offset`.

        Raises:
            PutError: as for `reput.Store.put_many`. None of the messages is stored if they fit into
                one log file; otherwise the error has a `stored_count`.
        """
        ...

    def next_queue(self, topic: str) -> int:
        """Return the queue whose turn it is to get a message of a topic.

        For a plugin that stores a message without a queue in another form first.
        """
        ...

    def check_put(self, messages: Sequence[Message]) -> None:
        """Raise the error that `put_many` would raise for these messages, and store nothing.

        For a plugin that stores a message in another form first, and puts it later. May be called
        in `reput_put`.

        Raises:
            PutError: another plugin refuses a message, or a message cannot be encoded.
        """
        ...

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which the log is on disk."""
        ...

    @property
    def flush_timeout(self) -> float:
        """Seconds that a put waits for the disk; 0 if the store's option is ``flush="async"``."""
        ...

    @property
    def dispatched_to(self) -> int:
        """Physical offset below which the plugin, and each that it requires, gets no messages.

        In a read-only store: as of the opening.
        """
        ...

    @property
    def gets_messages(self) -> bool:
        """Whether the plugin is given messages: it, and each plugin that it requires, runs.

        False for a suspended plugin, and always in a read-only store.
        """
        ...

    def wait_flushed(self, physical_offset: int, seconds: float) -> bool:
        """Wait until the log is on disk below ``physical_offset``; False after ``seconds``.

        Raises:
            OffsetOutOfRangeError: the log ends below ``physical_offset``.
            ServiceNotAvailableError: the log cannot be flushed.
        """
        ...

    def trim_log(
        self,
        physical_offset: int,
        *,
        unseen: Literal["keep", "drop"] = "keep",
        dry_run: bool = False,
    ) -> TrimReport:
        """Remove the log's whole files below an offset, as `reput.Store.trim_log` does.

        For `reput_work`, and for methods that users call. The plugin's own `reput_hold` and
        `reput_trim` are not called.

        Raises:
            PluginError: the plugin was stopped meanwhile.
        """
        ...


class NoStore:
    """Stands for a store that is not open yet: refuses every call."""

    def __getattr__(self, name: str) -> object:
        raise ServiceNotAvailableError("store", None, None, f"it is not open yet, for {name!r}")
