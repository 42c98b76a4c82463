"""`CommitLog`: appends messages, and reads records.

Under the log's lock a message gets its physical offset, its queue offset and its store time;
everything else was encoded before.

Source: RocketMQ ``CommitLog``.
"""

from __future__ import annotations

import contextlib
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.engine import reference_of
from reput.errors import (
    MessageTooLargeError,
    PutError,
    ReplicaError,
    ServiceNotAvailableError,
)
from reput.log.writer.appender import append_rows, queue_offsets_of_rows
from reput.log.writer.receipts import BatchReceipt, Receipt
from reput.log.writer.writablelog import WritableLog, inside_of_put
from reput.record.encoding.encoder import Prepared
from reput.record.encoding.lightqueues import (
    InQueues,
    LightQueueLimit,
    OffsetsAhead,
    in_queues,
)
from reput.record.layout import (
    BLANK_MIN_SIZE,
    LIGHT_QUEUE_PREFIX,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from reput.log.writer.appender import PutAtOnce, QueueKey
    from reput.record.encoding.batchencoder import PreparedMany

_new_receipt = tuple.__new__
_CLEARED_SIZE: Final = 4 << 20
_QUEUE_OFFSETS, _APPEND = reference_of(queue_offsets_of_rows), reference_of(append_rows)


class CommitLog(WritableLog):
    """The log of one store, open for reading and, after `start_writing`, for appending."""

    _light_queues: LightQueueLimit | None = None
    """Counts the light queues; None before the first message of one, and after a failed append."""
    _hidden: Mapping[str, int] = MappingProxyType({})

    def start_puts(self, queue_offsets: Mapping[QueueKey, int]) -> None:
        """Accept puts, and no more bytes of a master; see `start_raw`."""
        with self.appending():
            self.raise_refusal()
            self._clear_blank()
            self._appender.start_queues(queue_offsets)
            self._light_queues = None
            self.master = None

    @property
    def queue_offsets(self) -> dict[QueueKey, int] | None:
        """The next queue offset of every queue: a copy. None in a replica, which gives none."""
        return self._appender.queue_offsets() if self.master is None else None

    def put_at_once(self, topics: frozenset[str], properties: frozenset[str]) -> PutAtOnce | None:
        """See `Appender.put_at_once`."""
        return self._appender.put_at_once(self, topics, properties)

    def ask_to_wake(self, wake: Callable[[], None]) -> None:
        """Have ``wake`` called by the next append, once."""
        self._appender.ask_to_wake(wake)

    # ------------------------------------------------------------------ bytes of a master

    _note_head: Callable[[int], None]
    _is_promoting = False
    _blank_to = -1
    """Up to where the active file has bytes of a blank, if that is after the log's end."""
    _ready_to = -1
    """Up to where the active file has space and pages for a master's bytes."""

    def start_raw(self, note_head: Callable[[int], None]) -> None:
        """Accept a master's bytes, and no puts.

        Args:
            note_head: notes durably where the log will begin, before its first file is made.
        """
        self._note_head = note_head
        self.start_writing({})

    def append_raw(self, offset: int, data: memoryview, last_record_offset: int | None) -> None:
        """See `reput.Store.append_raw`."""
        appender, end_offset = self._appender, offset + len(data)
        with self.appending():
            self.raise_refusal()
            if self._is_promoting:
                reason = "it is promoted, and takes no more bytes of its master"
                raise ServiceNotAvailableError("store", None, None, reason)
            if not self.is_begun and offset % self.file_size == 0:
                self._note_head(offset)
                self.begin_next_file(offset)
            least = most = appender.end_offset
            if last_record_offset is None:
                most = max(most, self._blank_to)
            if not (self.is_begun and least <= offset <= most and end_offset <= self.file_end):
                raise ValueError(
                    f"bytes [{offset}, {end_offset}) do not continue the log, which ends at {most}"
                )
            if end_offset > self._ready_to:
                self._ready_to = self.look_ahead(offset, len(data))
            if last_record_offset is None:
                self._store(offset, data)
                self._blank_to = end_offset
                if end_offset == self.file_end:
                    self.begin_next_file(end_offset)
            else:
                self._clear_blank()
                appender.publish(offset, bytes(data[:4]), data[4:], last_record_offset, {})
                appender.call_wake()

    @contextlib.contextmanager
    def promoting(self) -> Iterator[None]:
        """Take no bytes in this block, which promotes the store, nor after it unless it raises."""
        with self.appending():
            self._is_promoting = True
        try:
            yield
        except BaseException:
            self._is_promoting = False
            raise

    def _clear_blank(self) -> None:
        """Clear what is in the file of an unfinished blank."""
        for start in range(self._appender.end_offset, self._blank_to, _CLEARED_SIZE):
            self._store(start, bytes(min(self._blank_to - start, _CLEARED_SIZE)))
        self._blank_to = -1

    def _store(self, offset: int, data: bytes | memoryview) -> None:
        position = offset - self._appender.base_offset
        self._appender.file.map[position : position + len(data)] = data  # type: ignore[union-attr]

    # ------------------------------------------------------------------ messages, one by one

    def append(self, prepared: Prepared) -> Receipt:
        """Append one message and return its receipt.

        Raises:
            PutError: the log refuses appends, or there is no room for another file.
        """
        if prepared[10] or self.gap:
            return self.append_each((prepared,))[0]
        size, sys_flag = prepared[0], prepared[9]
        key = prepared[4].topic, prepared[11]
        transaction = sys_flag & TRANSACTION_MASK
        # Prepared and rollback records are in no queue: they take no queue offset.
        counts = transaction == 0 or transaction == TRANSACTION_COMMIT
        word = size.to_bytes(4, "big")
        appender = self._appender
        # Not by `appending`, which takes a fifth of the time of a put.
        with self._lock:
            if appender.is_appending:
                raise inside_of_put()
            try:
                appender.is_appending = True
                offset = appender.end_offset
                if offset + size > appender.record_limit:
                    offset = self._make_room(size, size)
                queue_offset = appender.next_queue_offset(key) if counts else 0
                timestamp = self._now() // 1_000_000
                rest = self.encoder.finish(prepared, queue_offset, offset, timestamp)
                following = {key: queue_offset + 1} if counts else {}
                appender.publish(offset, word, rest, offset, following)
                appender.call_wake()
            except (AttributeError, TypeError, ValueError):
                self.raise_refusal()
                raise
            finally:
                appender.is_appending = False
        return _new_receipt(Receipt, (self, key[0], key[1], queue_offset, offset, size, timestamp))

    def check(self, prepared: Prepared) -> None:
        """Refuse what an append refuses because of its content, and append nothing."""
        max_count = self.config.max_light_queues
        limit = LightQueueLimit(max_count) if max_count else None
        placed = in_queues(prepared, defaultdict(int), self.encoder, limit)
        self.encoder.finish(placed.prepared, 0, 0, 0)
        self._require_fits(placed.prepared[0] + self.gap)

    def append_each(self, prepared: Sequence[Prepared], *, whole: bool = False) -> list[Receipt]:
        """Append messages of any kind, without other messages in between.

        Args:
            prepared: the messages.
            whole: see `append_many`.

        Raises:
            PutError: a message is refused, and then none is appended; or there is no room for all,
                and then the error says which are stored.
        """
        receipts: list[Receipt] = []
        try:
            with self.appending():
                ahead, limit = OffsetsAhead(self._appender.next_queue_offset), self._light_limit()
                self._light_queues = None  # counted again, should a message not be appended
                placed = [in_queues(each, ahead, self.encoder, limit) for each in prepared]
                if len(placed) > 1:
                    for each in placed:
                        self.encoder.finish(each.prepared, 0, 0, 0)  # refuses what does not fit
                        self._require_fits(each.prepared[0] + self.gap)
                size = sum(each.prepared[0] + self.gap for each in placed)
                has_room = whole and self._make_room_for_all(size, size)
                for each in placed:
                    # One by one, so that after an error the list has those before it.
                    receipts.append(self._append_placed(each, has_room=has_room))  # noqa: PERF401
                self._light_queues = limit
        except PutError as error:
            BatchReceipt.of(self, receipts).note_in(error)
            raise
        return receipts

    def _light_limit(self) -> LightQueueLimit | None:
        """Return the count of the light queues; None if the store has none."""
        if not self.config.max_light_queues:
            return None
        if self._light_queues is not None:
            return self._light_queues
        limit = LightQueueLimit(self.config.max_light_queues, hidden=self._hidden)
        for (name, _), offset in self._appender.queue_offsets().items():
            limit.count += name.startswith(LIGHT_QUEUE_PREFIX) and limit.is_counted(name, offset)
        return limit

    def hide_light_queues(self, ends: Mapping[str, int]) -> None:
        """See `reput.plugin.StoreContext.hide_light_queues`."""
        with self._lock:
            self._hidden, self._light_queues = ends, None

    def _append_placed(self, placed: InQueues, *, has_room: bool) -> Receipt:
        """Append a message of any kind, light-queue messages and inner batches included."""
        prepared, queue_offset, following = placed
        topic, queue_id, size = prepared[4].topic, prepared[11], prepared[0]
        if has_room:
            self.raise_refusal()  # a signal handler may have closed the log
        offset, framed_size = self._appender.end_offset, size + self.gap
        if not has_room:
            offset = self._make_room(framed_size, framed_size)
        offset += self.gap
        timestamp = self._now() // 1_000_000
        rest = self.encoder.finish(prepared, queue_offset, offset, timestamp)
        self._appender.publish(offset, size.to_bytes(4, "big"), rest, offset, following)
        self._appender.call_wake()
        return Receipt(self, topic, queue_id, queue_offset, offset, size, timestamp)

    # ------------------------------------------------------------------ many messages

    def append_many(self, prepared: PreparedMany, *, whole: bool = False) -> BatchReceipt:
        """Append messages in their order, with one write per chunk and file.

        Args:
            prepared: the messages.
            whole: whether messages that fit into one file are stored in one file: all or none, as
                their room is made before the first byte is written.

        Raises:
            PutError: a message is refused, and then none is appended; or there is no room for all,
                and then the error says which are stored.
        """
        count = len(prepared)
        if count:
            self._require_fits(prepared.largest + self.gap)
        receipt = BatchReceipt(
            progress=self,
            topics=prepared.topics,
            queue_ids=prepared.queue_id,
            queue_offsets=np.zeros(count, np.int64),
            physical_offsets=_equal(-1, count),
            sizes=prepared.size,
            store_timestamps=np.zeros(count, np.int64),
        )
        try:
            self._append_all(prepared, receipt, whole)
        except PutError as error:
            ends = receipt.physical_offsets + receipt.sizes
            stored = (receipt.physical_offsets >= 0) & (ends <= self._appender.end_offset)
            receipt.first(int(stored.sum())).note_in(error)
            raise
        return receipt

    def _append_all(self, prepared: PreparedMany, receipt: BatchReceipt, whole: bool) -> None:
        appender, gap, gaps = self._appender, self.gap, 0
        number, append = queue_offsets_of_rows, append_rows
        if gap:  # compiled kernels append plain records only
            number, append = _QUEUE_OFFSETS, _APPEND
            gaps = gap * prepared.chunk_count
        with self.appending():
            timestamp = self._now() // 1_000_000
            done, count = 0, len(prepared)
            receipt.store_timestamps = _equal(timestamp, count)
            receipt.queue_offsets = number(appender, prepared)
            has_room = (
                count > 0
                and whole
                and self._make_room_for_all(
                    prepared.size_from(0) + gap * count, prepared.mapped_size(0) + gaps
                )
            )
            while done < count:
                if has_room:
                    self.raise_refusal()  # a signal handler may have closed the log
                else:
                    size = int(prepared.size[done]) + gap
                    left = prepared.size_from(done) + gap * (count - done)
                    self._make_room(size, prepared.mapped_size(done) + gaps, left)
                places = receipt.queue_offsets, receipt.physical_offsets, timestamp
                try:
                    done = append(appender, prepared, done, *places)
                except OSError as error:
                    if appender.file is None:
                        raise
                    raise self._no_space(appender.file, error) from error
                appender.call_wake()
                self._prepare_next_file()

    # ------------------------------------------------------------------ under the lock

    def _make_room(self, size: int, mapped_size: int, left: int = 0) -> int:
        """Return where a record is to begin: at the log's end, or in the next file.

        Args:
            size: bytes of the record, or of all records that are to be in one file.
            mapped_size: bytes that will be written there through the map, for which pages are made
                present.
            left: bytes of all records that will be written there, one after the other.
        """
        appender = self._appender
        # Every put of a replica comes here, as its appender has no room that was made before.
        if self.master is not None:
            self.raise_refusal()
            reason = f"it is a replica of {self.master}, and takes only that log's bytes"
            advice = "end this with `reput promote` or Store.promote() to put"
            raise ReplicaError("store", None, None, f"{reason}; {advice}")
        offset = appender.end_offset
        if offset + size > appender.file_limit:
            offset = self._roll(size)
        # Bytes that are written through the file need no pages: those take as long as the write.
        has_pages = mapped_size or self._flushes_puts
        if has_pages and offset + mapped_size > appender.record_limit:
            appender.move_record_limit(self.look_ahead(offset, mapped_size))
        if left > mapped_size:
            self._reserve(offset + left)
        return offset

    def _make_room_for_all(self, size: int, mapped_size: int) -> bool:
        """Make room for records in one file, before the first of them; False if none is so large.

        Args:
            size: of all records.
            mapped_size: see `_make_room`.
        """
        has_room = size <= self.file_size - BLANK_MIN_SIZE
        if has_room:
            self._make_room(size, mapped_size, size)
        return has_room

    def _roll(self, size: int) -> int:
        """End the active file with a blank and begin the next; return the offset to write at."""
        self.raise_refusal()
        self._require_fits(size)
        end_offset = self._appender.end_offset
        return self.begin_next_file(end_offset - end_offset % self.file_size)

    def _require_fits(self, size: int) -> None:
        limit = self.file_size - BLANK_MIN_SIZE
        if size > limit:
            raise MessageTooLargeError("record", size, limit, "bytes, in files of this size")


def _equal(number: int, count: int) -> npt.NDArray[np.int64]:
    """Return ``(count,)`` int64, all of one number.

    numpy gives the interpreter lock away while it fills more than 500, and a thread that dispatches
    meanwhile keeps it for longer than all of this takes.
    """
    return np.frombuffer(
        bytearray(number.to_bytes(8, sys.byteorder, signed=True) * count), np.int64
    )
