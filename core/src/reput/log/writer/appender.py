"""`Appender`: the growing end of the log, from the map that is written to up to what comes next.

The caller holds the log's lock and makes space first (`reput.log.writer.commitlog`). What the
appender does then is one step for everybody else: a record is written and counted, or neither.

Source: RocketMQ ``CommitLog#putMessage``, ``AppendMessageCallback``. A record's size word is
written after all its other bytes, so that a reader, also in another process, sees no record rather
than half a record.

`EntryAppender` is the end of a log that DLedger keeps. Records are appended as entries
(`reput.record.entries`), with the next indexes and the last entry's term. DLedger's index is left
as it is: a broker writes what is missing there when it starts.

Source: DLedger ``DLedgerMmapFileStore#appendAsLeader``. Different on purpose: magic and size of the
first entry are written after all other bytes, as a plain record's size is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reput.engine import REFERENCES, compiled, kernel
from reput.record.encoding.batchencoder import prepare_columns, prepare_messages
from reput.record.entries import ENTRY_HEAD_SIZE, framed, padding
from reput.record.layout import BLANK_MAGIC, BLANK_MIN_SIZE, SIZE_AND_MAGIC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import NotImplementedType

    import numpy as np
    import numpy.typing as npt

    from reput.files.mappedfile import MappedFile
    from reput.log.writer.receipts import FlushProgress, Receipt
    from reput.record.encoding.batchencoder import Columns, PreparedMany
    from reput.record.encoding.encoder import Encoder
    from reput.record.entries import LastEntry
    from reput.record.messages.message import Message

QueueKey = tuple[str, int]
"""Topic and queue id."""


PutAtOnce = Callable[["Message"], "Receipt | NotImplementedType"]
"""Prepares and appends a message in one step.

It takes any object, and returns the receipt. It returns `NotImplemented`, with nothing done, if the
steps must be taken one by one: for a message that is unusual, wrong, or of interest to plugins, and
where room must be made first.
"""


_TURNS_MAX = 1 << 16  # topics whose next queue is remembered; of others it is computed again


@compiled
class Appender:
    """Where the log ends, and what appends need to go on there. Not thread-safe by itself.

    Other threads read `end_offset` at any time: it grows only when a record is whole in the map.
    """

    __slots__ = (
        "_is_refused",
        "_next",
        "_queue_count",
        "_queue_counts",
        "_turns",
        "_wake",
        "base_offset",
        "end_offset",
        "file",
        "file_limit",
        "is_appending",
        "last_record_offset",
        "record_limit",
    )

    def __init__(
        self,
        encoder: Encoder,
        end_offset: int,
        last_record_offset: int,
        clock: Callable[[], int] | None,
        queue_count: int = 1,
    ) -> None:
        """Stand at the end of a log, without a file to write to; appends are refused until `allow`.

        Args:
            encoder: host and limits of the store; for an engine that encodes here.
            end_offset: where the log ends.
            last_record_offset: where its newest record begins; -1 in an empty log.
            clock: returns now, ms; None for the system's. For an engine that encodes here.
            queue_count: queues of a topic that `set_queue_counts` does not name.
        """
        self.end_offset = end_offset
        """Physical offset at which the log ends."""
        self.last_record_offset = last_record_offset
        """Where the newest record begins; -1 in an empty log."""
        self.file: MappedFile | None = None
        """The active file, which records are written to."""
        self.base_offset = 0
        """Physical offset at which the active file begins."""
        self.file_limit = -1
        """No record of the active file may end after this offset. -1 if there is no file, or if
        appends are refused."""
        self.record_limit = -1
        """Room has to be made before a record that ends after this offset, which is at most
        `file_limit`."""
        self.is_appending = False
        """Whether the thread that has the log's lock is inside of an append. Only its own signal
        handlers and destructors see it set."""
        self._is_refused = True
        self._wake: Callable[[], None] | None = None
        self._next: dict[QueueKey, int] = {}
        self._queue_count = queue_count
        self._queue_counts: dict[str, int] = {}
        self._turns: dict[str, list[int]] = {}  # next queue and number of queues, by topic

    # ------------------------------------------------------------------ the active file

    gap = 0
    """Bytes of the log before each record."""

    def begin_file(self, file: MappedFile, end_offset: int) -> None:
        """Go on in ``file`` at ``end_offset``; end the file before it with a blank.

        Raises:
            ValueError: appends are refused; a signal handler may have done that a moment ago.
        """
        position = self.end_offset - self.base_offset
        old, target, blank = self.file, None, b""
        if old is not None:
            target = old.map
            blank = self._blank(max(old.size - position, 0))
        limit = file.base_offset + file.size - BLANK_MIN_SIZE
        if self._is_refused:
            raise ValueError("appends are refused")
        # No call from here on, so that no signal handler runs (`reput.signalsafe`): all of this
        # happens, or nothing.
        if target is not None:
            target[position + 4 : position + 8] = blank[4:]
            target[position : position + 4] = blank[:4]
        self.file, self.base_offset = file, file.base_offset
        self.file_limit, self.record_limit = limit, -1
        self.end_offset = end_offset

    def _blank(self, size: int) -> bytes:
        """Return what ends a file that has ``size`` bytes left."""
        return SIZE_AND_MAGIC.pack(size, BLANK_MAGIC)

    def allow(self) -> None:
        """Take appends from now on."""
        self._is_refused = False

    def refuse(self) -> None:
        """Find no room for any append from now on."""
        self._is_refused = True
        self.record_limit = self.file_limit = -1

    def move_record_limit(self, limit: int) -> None:
        """Take records that end up to ``limit`` without a new file, unless appends are refused."""
        if not self._is_refused:
            self.record_limit = limit

    def let_go(self) -> None:
        """Let go of the active file, which can be closed then; writing fails from now on."""
        self.file = None

    # ------------------------------------------------------------------ the reader

    def ask_to_wake(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called by the next append, once; other appends do not pay for it."""
        self._wake = wake

    def call_wake(self) -> None:
        """Call what `ask_to_wake` was given last, if that is still to be done."""
        wake, self._wake = self._wake, None
        if wake is not None:
            try:
                wake()
            except BaseException:
                self._wake = wake  # the reader may still be asleep
                raise

    # ------------------------------------------------------------------ queue offsets

    def start_queues(self, queue_offsets: Mapping[QueueKey, int]) -> None:
        """Take over the next queue offset of every queue."""
        self._next = dict(queue_offsets)
        self._turns = {}

    def set_queue_counts(self, counts: Mapping[str, int]) -> None:
        """Choose among so many queues, 1 or more, of these topics from now on."""
        self._queue_counts, self._turns = dict(counts), {}

    def queue_count(self, topic: str) -> int:
        """Return the number of queues that take turns for a topic's messages."""
        return self._queue_counts.get(topic, self._queue_count)

    def take_turns(self, topic: str, count: int) -> tuple[int, int]:
        """Choose queues in turn for ``count`` messages of a topic.

        The first turn goes on where the stored messages end: with so many messages in the queues as
        if all had taken turns. Two threads at once may get the same queue.

        Returns:
            The queue of the first message, and the number of queues that take turns.
        """
        turn = self._turns.get(topic)
        if turn is None:
            if len(self._turns) >= _TURNS_MAX:  # of refused messages, too
                self._turns.clear()
            queue_count = self.queue_count(topic)
            stored = sum(self._next.get((topic, queue_id), 0) for queue_id in range(queue_count))
            turn = self._turns[topic] = [stored % queue_count, queue_count]
        first, queue_count = turn
        turn[0] = (first + count) % queue_count
        return first, queue_count

    def next_queue_offset(self, key: QueueKey) -> int:
        """Return the next queue offset of a queue; 0 for an unknown one."""
        return self._next.get(key, 0)

    def queue_offsets(self) -> dict[QueueKey, int]:
        """Return a copy: the next queue offset of every queue."""
        return dict(self._next)

    # ------------------------------------------------------------------ records

    def put_at_once(
        self, log: FlushProgress, topics: frozenset[str], properties: frozenset[str]
    ) -> PutAtOnce | None:
        """Return what puts messages in one step; None if the engine takes the steps one by one.

        The Python engine does that.

        Args:
            log: what receipts need.
            topics: exact `str`. Plugins must see messages of these topics before they are stored.
            properties: likewise messages with one of these properties.
        """
        return None

    def publish(
        self,
        offset: int,
        word: bytes,
        rest: bytes | memoryview,
        last_record_offset: int,
        following: Mapping[QueueKey, int],
    ) -> None:
        """Write whole records so that readers see all of them or none, and count them.

        Args:
            offset: where the first record begins.
            word: their first four bytes.
            rest: their other bytes.
            last_record_offset: where the last of them begins.
            following: next queue offsets of their queues.

        Raises:
            AttributeError: a signal handler has let go of the file meanwhile.
        """
        position = offset - self.base_offset
        size = len(rest)
        is_alone = last_record_offset == offset
        target = self.file.map  # type: ignore[union-attr]
        # There is no call from here on but `update`, which ends before any signal handler runs. The
        # first magic is written first: a copy that a kill interrupts may lack its beginning (C
        # libraries write the unaligned part last), and after a record without magic the next
        # opening would take valid records for acknowledged ones.
        if not is_alone:
            target[position + 4 : position + 8] = rest[:4]
        target[position + 4 : position + 4 + size] = rest
        target[position : position + 4] = word
        self.end_offset = offset + 4 + size
        self.last_record_offset = last_record_offset
        self._next.update(following)


# --------------------------------------------------------------------------- many records


@kernel
def rows_of_messages(
    messages: Sequence[Message], encoder: Encoder, appender: Appender
) -> PreparedMany | None:
    """See `reput.record.encoding.batchencoder.prepare_messages`."""
    return prepare_messages(messages, encoder)


@kernel
def rows_of_columns(columns: Columns, encoder: Encoder, appender: Appender) -> PreparedMany | None:
    """See `reput.record.encoding.batchencoder.prepare_columns`."""
    return prepare_columns(columns, encoder)


@kernel
def queue_offsets_of_rows(appender: Appender, prepared: PreparedMany) -> npt.NDArray[np.int64]:
    """Return ``(n,)`` queue offsets as they come next; 0 for rows that take none."""
    following = {key: appender.next_queue_offset(key) for key in prepared.group_keys}
    return prepared.assign_queue_offsets(following)


@kernel
def append_rows(
    appender: Appender,
    prepared: PreparedMany,
    first: int,
    queue_offsets: npt.NDArray[np.int64],
    physical_offsets: npt.NDArray[np.int64],
    store_timestamp: int,
) -> int:
    """Append rows from ``first`` on: as many as the active file has room for, or a chunk of them.

    Args:
        appender: has room for row ``first``.
        prepared: ``n`` messages.
        first: number of a row.
        queue_offsets: ``(n,)``, of all rows.
        physical_offsets: ``(n,)``; those of the appended rows are set here.
        store_timestamp: ms.

    Returns:
        The number of the first row that is not appended yet.
    """
    size = prepared.size[first : first + prepared.chunk_count]
    ends = appender.end_offset + (size + appender.gap).cumsum()
    count = int(ends.searchsorted(appender.file_limit, "right"))
    rows = slice(first, first + count)
    physical_offsets[rows] = (ends - size)[:count]
    data = prepared.encode(rows, queue_offsets, physical_offsets, store_timestamp)
    following = prepared.following_offsets(rows, queue_offsets)
    start, last = int(physical_offsets[first]), int(physical_offsets[rows.stop - 1])
    appender.publish(start, data[:4], memoryview(data)[4:], last, following)
    return rows.stop


# --------------------------------------------------------------------------- entries of DLedger

if TYPE_CHECKING:
    _Appender = Appender
else:
    _Appender = REFERENCES.get(Appender, Appender)  # compiled ones know plain records only

_FIRST_MAGIC = slice(ENTRY_HEAD_SIZE + 4, ENTRY_HEAD_SIZE + 8)


class EntryAppender(_Appender):
    """An `Appender` that writes the head of an entry before each record."""

    __slots__ = ("last_entry",)

    gap = ENTRY_HEAD_SIZE

    def __init__(self, last_entry: LastEntry, *arguments: Any) -> None:
        """Stand after the log's last entry; the other arguments are those of `Appender`."""
        super().__init__(*arguments)
        self.last_entry = last_entry
        """The log's last entry."""

    def _blank(self, size: int) -> bytes:
        return padding(size)

    def publish(
        self,
        offset: int,
        word: bytes,
        rest: bytes | memoryview,
        last_record_offset: int,
        following: Mapping[QueueKey, int],
    ) -> None:
        """See `Appender.publish`."""
        last = self.last_entry._replace(end=offset - ENTRY_HEAD_SIZE)
        data, last = framed(word + bytes(rest), last)
        view, start, stop = memoryview(data), offset - ENTRY_HEAD_SIZE - self.base_offset, len(data)
        first_magic = start + _FIRST_MAGIC.start
        target = self.file.map  # type: ignore[union-attr]
        # No call from here on but `update`, as in a plain log, and in the same order.
        target[first_magic : first_magic + 4] = view[_FIRST_MAGIC]
        target[start + 8 : start + stop] = view[8:]
        target[start : start + 8] = view[:8]
        self.end_offset, self.last_entry = last.end, last
        self.last_record_offset = last_record_offset
        self._next.update(following)
