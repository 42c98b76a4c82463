"""What one task writes: whole log files, numbered from zero, and their sidecars.

Records are those of the core's own encoder. What they cannot know yet is put in later, by
`reput_arrow.logwriter.staging.numbering`: a file's place in the log, and how many messages
its queues have by then.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.errors import PutError
from reput.record import (
    Columns,
    Encoder,
    PreparedMany,
    host_of,
    inner_message_count,
    light_queue_names,
    parse_properties,
    prepare_columns,
)
from reput.record.layout import (
    BLANK_MIN_SIZE,
    HOST_SIZE,
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
)
from reput_arrow.codederrors import CodedError
from reput_arrow.logwriter.staging.rowscatter import Part, Rows, part_of
from reput_arrow.logwriter.staging.sidecarfiles import (
    NO_ORDINAL,
    SIDECAR_DTYPE,
    SIDECAR_SUFFIX,
)
from reput_arrow.logwriter.staging.writetasks import Segment, TaskWritten
from reput_arrow.logwriter.stagingdirectories import path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from reput.files import Disk
    from reput.record import Prepared
    from reput_arrow.logwriter.staging.writetasks import WritePlan


def write_task(
    plan: WritePlan, partition: int, batches: Iterable[pa.RecordBatch], disk: Disk
) -> TaskWritten:
    """Write the rows of one task; after an error, files that were begun stay to be swept.

    Raises:
        CodedError: a row that cannot be stored, or no staging directory to write to.
        UnsafePathError: a link below the store's directory, where none is followed.
    """
    bound = disk.at(plan.root, follow_links=plan.options.follow_links)
    writer = SegmentWriter(plan, partition, bound)
    try:
        for batch in batches:
            if not plan.is_done:  # else they are taken all the same: Spark waits for that
                writer.add(batch)
        return writer.finish()
    except FileNotFoundError as error:
        raise CodedError(
            "JOB",
            f"{error}; the store must have the same path for the driver and for all executors, "
            "and the write must not be over",
        ) from error
    finally:
        writer.close()


class SegmentWriter:
    """Writes the files of one attempt of a task."""

    def __init__(self, plan: WritePlan, partition: int, disk: Disk) -> None:
        self.plan = plan
        self._partition = partition
        self._disk = disk
        self._directory = path_of(plan.root, plan.staging)
        # No other attempt of this task, dead or alive, has the same names.
        self._name = f"{partition:06d}-{uuid.uuid4().hex}"
        self._limit = plan.file_size - BLANK_MIN_SIZE
        self._encoders: dict[bytes, Encoder] = {}
        self.next: dict[tuple[str, int], int] = {}
        """Next ordinal of each queue."""
        self._numbers: dict[tuple[str, int], int] = {}
        self._row = 0
        self._segments: list[Segment] = []
        self._open: tuple[int, int] | None = None
        self._used = self._count = self._last = 0

    # ------------------------------------------------------------------ rows

    def add(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch after those of the batches before.

        Raises:
            CodedError: a row that cannot be stored; the text says which.
        """
        try:
            self._add(part_of(batch, self.plan))
        except (PutError, ValueError) as error:
            where = f"partition {self._partition}, rows from {self._row} on"
            raise CodedError("ROW", f"{where}: {error}") from error
        self._row += batch.num_rows
        if max(self.next.values(), default=0) > NO_ORDINAL:
            raise CodedError("ROW", f"over {NO_ORDINAL} messages of a queue in one partition")

    def _add(self, part: Part) -> None:
        self._check(part.columns)
        encoder = self._encoder_of(part.store_host)
        prepared = None if part.has_v6 else prepare_columns(part.columns, encoder)
        if prepared is None:
            for rows in self._encoded_singly(part):
                self._write(rows)
            return
        for field, hosts in (("born_host", part.born_hosts), ("store_host", part.store_hosts)):
            if hosts is not None:
                prepared.header[field] = np.frombuffer(b"".join(hosts), f"V{HOST_SIZE}")
        for rows in self._encoded(prepared, part):
            self._write(rows)

    def _encoder_of(self, store_host: bytes) -> Encoder:
        """Return the encoder of records of a store host."""
        encoder = self._encoders.get(store_host)
        if encoder is None:
            encoder = self._encoders[store_host] = Encoder(
                store_host, self.plan.max_message_size, record_crc=self.plan.record_crc
            )
        return encoder

    def _check(self, columns: Columns) -> None:
        """Refuse bodies that are too large, and messages that a plugin of the store acts on."""
        offsets = columns.body[0] if isinstance(columns.body, tuple) else np.zeros(1, np.int64)
        sizes = np.diff(offsets)
        limit = self.plan.max_message_size
        if len(sizes) and int(sizes.max()) > limit:
            row = int(sizes.argmax())
            topic = columns.topic if isinstance(columns.topic, str) else columns.topic[row]
            raise ValueError(
                f"row {row} of these, of topic {topic}: a body of {int(sizes[row])} bytes, where "
                f"{limit} are the most"
            )
        for name, interest in self.plan.interests.items():
            if interest.covers(columns):
                raise ValueError(
                    f"there are messages that plugin {name!r} of the store acts on when they are "
                    "put, and Spark does not ask it; raw=true stores them as they are"
                )

    def _encoded(self, prepared: PreparedMany, part: Part) -> Iterator[Rows]:
        """Encode rows that are columns, in pieces that fit into the file at hand."""
        ordinals = prepared.assign_queue_offsets(self.next)
        numbers = np.array([self._group_of(key) for key in prepared.group_keys], np.int64)
        ends = prepared.size.cumsum()
        done, count = 0, len(prepared)
        while done < count:
            self._make_room(int(prepared.size[done]), done, prepared.topics[done])
            written = int(ends[done - 1]) if done else 0
            fits = int(ends.searchsorted(self._limit - self._used + written, "right"))
            rows = slice(done, min(fits, done + prepared.chunk_count))
            positions = ends - prepared.size + self._used - written
            data = prepared.encode(rows, ordinals, positions, self.plan.store_timestamp)
            self.next.update(prepared.following_offsets(rows, ordinals))
            yield Rows(
                part.with_times(data, positions[rows] - self._used, rows),
                prepared.size[rows],
                numbers[prepared.group[rows]],
                np.where(prepared.counts[rows], ordinals[rows], NO_ORDINAL),
            )
            done = rows.stop

    def _encoded_singly(self, part: Part) -> Iterator[Rows]:
        """Encode rows that columns do not hold, one by one: many times slower, and rare.

        Such rows have IPv6 hosts, record checksums or property texts with inner names.

        Raises:
            PutError: a row that is not a message.
            ValueError: one whose bytes depend on its queue offset, or that fits into no file.
        """
        for row, message in enumerate(part.columns.to_messages()):
            if part.born_hosts is not None:
                message = attrs.evolve(message, born_host=host_of(part.born_hosts[row]))
            host = part.store_host if part.store_hosts is None else part.store_hosts[row]
            encoder = self._encoder_of(host)
            prepared = encoder.prepare(message)
            self._refuse_inner(prepared, row)
            key = message.topic, prepared[11]
            counts = prepared[9] & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)
            ordinal = self.next.get(key, 0) if counts else 0
            position = self._make_room(prepared[0], row, message.topic)
            stored = self.plan.store_timestamp
            if part.store_timestamps is not None:
                stored = int(part.store_timestamps[row])
            size = prepared[0].to_bytes(4, "big")
            data = size + encoder.finish(prepared, ordinal, position, stored)
            if counts:
                self.next[key] = ordinal + 1
            yield Rows(
                data,
                np.array([len(data)]),
                np.array([self._group_of(key)]),
                np.array([ordinal if counts else NO_ORDINAL]),
            )

    def _refuse_inner(self, prepared: Prepared, row: int) -> None:
        """Refuse a message whose properties hold its queue offset, unknown until all is written."""
        if not prepared[10]:
            return
        message = prepared[4]
        if prepared[9] & INNER_BATCH or inner_message_count(prepared) != 1:
            raise ValueError(
                f"row {row} of these, of topic {message.topic}: a record that counts as several "
                "messages; Spark writes none"
            )
        properties = parse_properties(prepared[7])
        if self.plan.light_queues and light_queue_names(message.topic, properties):
            raise ValueError(
                f"row {row} of these, of topic {message.topic}: a message of light queues; Spark "
                "does not write them, as long as max_light_queues of the store is above 0"
            )

    def _group_of(self, key: tuple[str, int]) -> int:
        """Return the number of a queue among those of the task."""
        return self._numbers.setdefault(key, len(self._numbers))

    # ------------------------------------------------------------------ files

    def _make_room(self, size: int, row: int, topic: str) -> int:
        """Begin another file where a record does not fit, and return its file position.

        Raises:
            ValueError: it fits into no file.
        """
        if size > self._limit:
            raise ValueError(
                f"row {row} of these, of topic {topic}: a record of {size} bytes, where files of "
                f"{self.plan.file_size} bytes hold {self._limit}"
            )
        if self._open is not None and self._used + size > self._limit:
            self._end_file()
        if self._open is None:
            path = os.path.join(self._directory, self._next_name())
            log = self._disk.create_fresh(path)
            self._open = log, self._disk.create_fresh(path + SIDECAR_SUFFIX)
        return self._used

    def _next_name(self) -> str:
        return f"{self._name}-{len(self._segments):06d}"

    def _write(self, rows: Rows) -> None:
        assert self._open is not None
        log, sidecar = self._open
        items = np.empty(len(rows.sizes), SIDECAR_DTYPE)
        items["size"], items["group"], items["ordinal"] = rows.sizes, rows.groups, rows.ordinals
        self._disk.write(log, rows.data, self._used)
        self._disk.write(sidecar, items.tobytes(), self._count * SIDECAR_DTYPE.itemsize)
        self._used += len(rows.data)
        self._count += len(items)
        self._last = self._used - int(rows.sizes[-1])

    def _end_file(self) -> None:
        assert self._open is not None
        for descriptor in self._open:
            # The driver numbers a file without knowing what it must hold, perhaps long after this
            # machine has stopped.
            self._disk.flush(descriptor)
        name = self._next_name()
        self._segments.append(Segment(name, self._used, self._count, self._last))
        self.close()
        self._used = self._count = self._last = 0

    def finish(self) -> TaskWritten:
        """End the last file, and return what the task has written."""
        if self._open is not None:
            self._end_file()
        if self._segments:
            self._disk.flush_directory(self._directory)
        queues = [
            (topic, queue, self.next.get((topic, queue), 0)) for topic, queue in self._numbers
        ]
        return TaskWritten(self._partition, tuple(self._segments), tuple(queues))

    def close(self) -> None:
        """Close the files at hand."""
        if self._open is not None:
            for descriptor in self._open:
                self._disk.close(descriptor)
            self._open = None
