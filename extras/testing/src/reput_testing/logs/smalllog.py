"""`SmallLog`: a commit log of a few files, in memory, that a test can cut anywhere.

A plugin can use it as the log of a store (`reput.log.LogView`); written to a directory, it is a
store that ``reput.open`` opens.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np

from reput.files import file_name
from reput.log import Loss
from reput.record import Decoder, DispatchBatch, Encoder, Message, MessageView, java_text
from reput.record.layout import (
    BLANK_MAGIC,
    BLANK_MIN_SIZE,
    HEADER_SIZE,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from reput_testing.logs.clock import NOON

if TYPE_CHECKING:
    import numpy.typing as npt

FILE_SIZE = 4096
"""Default size of a file, bytes: room for a dozen messages."""

_GARBAGE = 0xDD
_HOUR_MS = 3_600_000


class SmallLog:
    """A commit log in memory. Not thread-safe while it is being changed.

    Args:
        file_size: bytes of one file.
        store_timestamp: ms; records are stored after it.

    Attributes:
        starts: physical offset of every record, ascending, those trimmed away included.
        ends: physical offset after every record.
    """

    def __init__(self, file_size: int = FILE_SIZE, store_timestamp: int = NOON) -> None:
        self._encoder = Encoder()
        self._file_size = file_size
        self._data = bytearray()  # from physical offset 0 on; blanks included
        self._min = 0
        self._next_timestamp = store_timestamp
        self._queue_offsets: dict[tuple[str, int], int] = {}
        self.starts: list[int] = []
        self.ends: list[int] = []

    def __repr__(self) -> str:
        topics = sorted({view.topic for view in self.messages()})
        return (
            f"<SmallLog of {len(self)} messages, physical offsets [{self.min_physical_offset}, "
            f"{self.max_physical_offset}), files of {self.file_size} bytes, topics {topics}>"
        )

    def __len__(self) -> int:
        """Messages in the log, without those trimmed away."""
        return len(self.starts) - self._trimmed_count

    # ------------------------------------------------------------------ making

    @classmethod
    def of(cls, messages: Iterable[Message], file_size: int = FILE_SIZE) -> Self:
        """Return a log of ``messages``."""
        log = cls(file_size)
        for message in messages:
            log.append(message)
        return log

    def append(self, message: Message, *, after_ms: int = 1, topic: bytes | None = None) -> int:
        """Store a message and return its physical offset.

        Args:
            message: what to store; in queue 0 if it names none.
            after_ms: time since the record before it was stored.
            topic: bytes to write instead of the topic's name, which a correct writer would not
                write; at most 127.
        """
        queue_id = message.queue_id or 0
        queue = (message.topic, queue_id)
        if topic is not None:
            queue = (java_text(topic), queue_id)
            message = attrs.evolve(message, topic="t" * max(len(topic), 1))
        queue_offset = self._queue_offsets.get(queue, 0)
        transaction = message.sys_flag & TRANSACTION_MASK
        visible = transaction in (0, TRANSACTION_COMMIT)
        self._next_timestamp += after_ms
        place = queue_offset if visible else 0
        record = self._encoder.encode(message, place, len(self._data), self._next_timestamp)
        needed = len(record) + BLANK_MIN_SIZE
        if needed > self._file_size:
            raise ValueError(f"a record of {len(record)} bytes needs files larger than this log's")
        if needed > self._file_size - len(self._data) % self._file_size:
            self.roll()
            record = self._encoder.encode(message, place, len(self._data), self._next_timestamp)
        start = len(self._data)
        if topic is not None:
            record = _renamed(record, len(message.body), topic)
        self._data += record
        self.starts.append(start)
        self.ends.append(start + len(record))
        if visible:
            self._queue_offsets[queue] = queue_offset + 1
        return start

    def roll(self) -> None:
        """Close the last file with a blank; the next record begins a new one."""
        rest = -len(self._data) % self._file_size
        if rest >= BLANK_MIN_SIZE:
            self._data += SIZE_AND_MAGIC.pack(rest, BLANK_MAGIC).ljust(rest, b"\0")

    def trim(self, file_count: int) -> int:
        """Remove the first ``file_count`` files of those left; return the new lowest offset."""
        self._min = min(self._min + file_count * self._file_size, self._last_file)
        return self._min

    def first(self, count: int) -> SmallLog:
        """Return a log cut after the first ``count`` records; records trimmed away count."""
        cut = self.copy()
        del cut.starts[count:], cut.ends[count:]
        del cut._data[cut.ends[-1] if cut.ends else 0 :]
        cut._queue_offsets.clear()
        for view in (self._view(start) for start in cut.starts):
            if view.transaction in (0, TRANSACTION_COMMIT):
                cut._queue_offsets[view.topic, view.queue_id] = view.queue_offset + 1
        return cut

    def copy(self) -> SmallLog:
        """Return an independent log of the same bytes."""
        twin = SmallLog(self._file_size, self._next_timestamp)
        twin._data += self._data
        twin._min = self._min
        twin._queue_offsets.update(self._queue_offsets)
        twin.starts += self.starts
        twin.ends += self.ends
        return twin

    def write_to(self, root: str | os.PathLike[str]) -> None:
        """Make ``root`` a store that holds this log and nothing else, as after a crash."""
        directory = os.path.join(root, "commitlog")
        os.makedirs(directory)
        for base in range(self._min, max(len(self._data), 1), self._file_size):
            part = bytes(self._data[base : base + self._file_size])
            with open(os.path.join(directory, file_name(base)), "wb") as file:
                file.write(part.ljust(self._file_size, b"\0"))

    # ------------------------------------------------------------------ reading, as a plugin does

    @property
    def file_size(self) -> int:
        """Bytes of one file."""
        return self._file_size

    @property
    def file_offsets(self) -> Sequence[int]:
        """Where the files begin that are left."""
        return range(self._min, max(len(self._data), 1), self._file_size)

    @property
    def min_physical_offset(self) -> int:
        """Where the log begins."""
        return self._min

    @property
    def max_physical_offset(self) -> int:
        """End of the last whole record."""
        return max(self.ends[-1] if self.ends else 0, self._min)

    def read(self, physical_offset: int, size: int) -> bytes:
        """Return bytes of the log; fewer than ``size``, or none, where the log does not hold them.

        A result never crosses the end of a file, as no record does.
        """
        if physical_offset < self._min:
            return b""
        file_end = (physical_offset // self._file_size + 1) * self._file_size
        end = min(physical_offset + size, file_end, self.max_physical_offset)
        return bytes(self._data[physical_offset : max(end, physical_offset)])

    def read_records(
        self,
        places: bytes | memoryview,
        stride: int,
        max_count: int,
        max_bytes: int,
        together: int = 0,
    ) -> list[bytes]:
        """Return the bytes at many places, up to the first that the log does not hold whole."""
        found: list[bytes] = []
        for at in range(0, min(len(places) // stride, max_count) * stride, stride):
            offset, size = struct.unpack_from(">qi", places, at)
            if size <= 0 or (found and sum(map(len, found)) + size > max_bytes):
                break
            record = self.read(offset, size)
            if len(record) < size:
                break
            found.append(record)
        return [b"".join(found)] if found and together else found

    def map_records(
        self, places: bytes | memoryview, stride: int, max_count: int, max_bytes: int
    ) -> tuple[npt.NDArray[np.uint8], int] | None:
        """Return a copy of the file from the first place on; None if the log does not hold it."""
        if len(places) < stride or max_count < 1:
            return None
        (offset,) = struct.unpack_from(">q", places)
        data = self.read(offset, self._file_size)
        return (np.frombuffer(data, np.uint8), offset) if data else None

    def mapped(self) -> tuple[int, tuple[tuple[Any, int, int, Callable[[], int]], ...]]:
        """Return the end of the log, and no part."""
        return self.max_physical_offset, ()

    def read_message(self, physical_offset: int, size: int = 0) -> MessageView | None:
        """Return the record that begins at that offset; None if none begins there."""
        if physical_offset < self._min or physical_offset not in self.starts:
            return None
        view = self._view(physical_offset)
        return view if size in (0, view.size) else None

    def store_timestamp_at(self, physical_offset: int) -> int:
        """Return the store time of the record at that offset, ms; -1 if none begins there."""
        view = self.read_message(physical_offset)
        return -1 if view is None else view.store_timestamp

    def must_have_crc(self, physical_offset: int) -> bool:
        """Return False: nothing is asked of records in a test."""
        return False

    def losses(self, start: int, end: int) -> tuple[Loss, ...]:
        """Return nothing: damage in a test is not recorded."""
        return ()

    def scan(
        self, start: int | None = None, end: int | None = None, *, check_crc: bool = False
    ) -> Iterator[DispatchBatch]:
        """Return batches over ``[start, end)``, one for each file; the log is always sound."""
        stop = self.max_physical_offset if end is None else end
        for batch in self.batches(start):
            if batch.start_offset < stop:
                yield batch[: int(np.searchsorted(batch.physical_offset, stop))]

    def messages(self) -> Iterator[MessageView]:
        """Return all messages of the log."""
        return (self._view(start) for start in self.starts[self._trimmed_count :])

    # ------------------------------------------------------------------ reading, as the reput loop

    def batches(
        self, start: int | None = None, cuts: Collection[int] = ()
    ) -> Iterator[DispatchBatch]:
        """Return batches over all messages from physical offset ``start`` on.

        A batch ends where its file does, and before every record whose number is in ``cuts``. It is
        read-only, numbers topics its own way, and is filled with garbage when the next batch is
        taken: a plugin that kept a part of the batch without a copy fails its test.

        Args:
            start: start of a record or of a file; by default the start of the log.
            cuts: numbers of records, counted from 0 over the whole log.
        """
        first = max(self._trimmed_count, int(np.searchsorted(self.starts, start or 0)))
        while first < len(self.starts):
            stop = self._batch_end(first, cuts)
            yield from self._batch(first, stop)
            first = stop

    def _batch_end(self, first: int, cuts: Collection[int]) -> int:
        """Return the number of the record after the batch that begins with record ``first``."""
        stop = first + 1
        file_number = self.starts[first] // self._file_size
        while (
            stop < len(self.starts)
            and stop not in cuts
            and self.starts[stop] // self._file_size == file_number
        ):
            stop += 1
        return stop

    def _batch(self, first: int, stop: int) -> Iterator[DispatchBatch]:
        base = self.starts[first]
        file_end = (base // self._file_size + 1) * self._file_size
        # Up to the next record; if none follows, to the file's end, blank included.
        end = self.starts[stop] if stop < len(self.starts) else len(self._data)
        memory = np.frombuffer(self._data[base : min(end, file_end)], np.uint8)  # a copy
        window = memory.view()
        window.flags.writeable = False
        batch = Decoder().decode(window, base, file_end).batch
        if len(batch) != stop - first or batch.finding is not None:
            raise ValueError(f"records {first} to {stop} do not decode: {batch.finding}")
        try:
            yield batch
        finally:
            memory.fill(_GARBAGE)

    # ------------------------------------------------------------------ inside

    @property
    def _last_file(self) -> int:
        """Physical offset at which the file of the last record begins."""
        return self.starts[-1] // self._file_size * self._file_size if self.starts else 0

    @property
    def _trimmed_count(self) -> int:
        return int(np.searchsorted(self.starts, self._min))

    def _view(self, start: int) -> MessageView:
        size, _ = SIZE_AND_MAGIC.unpack_from(self._data, start)
        return MessageView(bytes(self._data[start : start + max(size, RECORD_MIN_SIZE)]), start)


def sample_log(file_size: int = FILE_SIZE, messages: Sequence[Message] = ()) -> SmallLog:
    """Return the log of tests without Hypothesis: a little of everything, always the same.

    Five files and a bit; three topics with two queues; tags, keys and properties there or missing;
    transactions; empty bodies, and bodies that look like records; days between some messages.

    Args:
        file_size: bytes of one file.
        messages: messages to put between these, in turn.
    """
    log = SmallLog(file_size)
    record = bytes(SmallLog.of([Message("decoy", b"not a message")])._data)
    bodies = [b"", b"body", record, bytes(range(256)), b"\x01\x02" * 20, "商品 🛒".encode()]
    flags = [0, 0, 0, TRANSACTION_PREPARED, 0, TRANSACTION_COMMIT, 0, 0, TRANSACTION_ROLLBACK]
    number = 0
    while log.max_physical_offset < 5 * file_size + file_size // 3:
        pause = (0, 1, 20 * 60_000, _HOUR_MS, 1)[number % 5]
        if number % 17 == 0:
            pause += 24 * _HOUR_MS
        log.append(
            Message(
                ("orders", "payments", "%RETRY%orders-group")[number % 3],
                bodies[number % len(bodies)],
                queue_id=number // 3 % 2,
                tags=(None, "paid", "открыт", "TagA||TagB")[number % 4],
                keys=(None, [f"key-{number}"], [f"a{number % 7}", "b", "b"])[number // 2 % 3],
                properties=(None, {"region": "eu"}, {"empty": "", "n": "1"})[number // 4 % 3],
                flag=number,
                sys_flag=flags[number % len(flags)],
            ),
            after_ms=pause,
        )
        if messages:
            log.append(messages[number % len(messages)])
        number += 1
    return log


def _renamed(record: bytes, body_size: int, topic: bytes) -> bytes:
    """Return the record with ``topic`` for a name of the same size (one byte for no name)."""
    at = HEADER_SIZE + body_size + 1
    if topic:
        return record[:at] + topic + record[at + len(topic) :]
    shorter = record[: at - 1] + b"\0" + record[at + 1 :]
    return len(shorter).to_bytes(4, "big") + shorter[4:]
