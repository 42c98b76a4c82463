"""Reads the log in decoded windows, and prefetches the next windows."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Self

import attrs
import numpy as np

from reput.record.decode import RECORD_SIZE_MAX, Decoder, DecodeResult, End
from reput.record.entries import ENTRY_HEAD_SIZE
from reput.record.layout import MAGIC_V1, MAGIC_V2, SIZE_AND_MAGIC
from reput.signalsafe import SafeEvent, start_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reput.files.mappedfilequeue import MappedFileQueue
    from reput.record.batch import DispatchBatch

OPEN_END: Final = 1 << 62
"""End of the range that is being written."""

_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_AHEAD_COUNT: Final = 2
"""Windows that are prefetched. A third one gains nothing."""


@attrs.frozen
class CheckedRanges:
    """Where in the log every record has a checksum of its own: physical offsets, ascending.

    With the option ``record_crc`` each record ends in a checksum of all of its bytes. The checksum
    is a property, and one changed bit of its name makes it a property like any other. So a writer
    notes the ranges of the log in which the option was on; there, a record without its checksum is
    damaged.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    def covers(self, physical_offset: int) -> bool:
        """Whether a record that begins at an offset must have its checksum."""
        return any(start <= physical_offset < end for start, end in self.ranges)

    def border_after(self, physical_offset: int) -> int | None:
        """Return the next offset at which a range begins or ends; None after the last one."""
        borders = (each for both in self.ranges for each in both)
        return min((each for each in borders if physical_offset < each < OPEN_END), default=None)

    def until(self, end: int) -> Self:
        """Return the ranges below ``end``."""
        kept = ((start, min(stop, end)) for start, stop in self.ranges if start < end)
        return attrs.evolve(self, ranges=tuple(kept))

    def from_on(self, start: int) -> Self:
        """Return these ranges, all of which end at ``start`` or before, and one that is open."""
        ranges = self.ranges
        if ranges and ranges[-1][1] == start:
            start, ranges = ranges[-1][0], ranges[:-1]
        return attrs.evolve(self, ranges=(*ranges, (start, OPEN_END)))


class PrefetchingReader:
    """A `BatchReader` that reads the next windows on a thread while the caller uses the last one.

    The batch of the last `read` stays valid until the next `read`. The thread helps if there is a
    second processor, as most of the work is in calls that release the interpreter lock. It is two
    windows ahead: if one window takes longer to use than the next takes to read, or the other way
    round, neither thread waits for the other. Only whole windows are prefetched, so none at the end
    of the log. The thread also makes the columns and properties that an earlier batch was asked
    for, as these will be, too.

    Each window has a reader, and so a buffer, of its own. A signal handler that raises anywhere
    here can lose a window with its reader, but no buffer ever belongs to two windows.
    """

    def __init__(self, make: Callable[[], BatchReader], window_size: int) -> None:
        self._make = make
        self._window_size = window_size
        self._reader = make()
        """The one whose batch the caller has."""
        self._idle: list[BatchReader] = []
        self._ahead: deque[_Prefetch] = deque()
        """Windows that the thread was given; each begins where the one before it ends."""
        self._tasks: SimpleQueue[_Prefetch | None] | None = None
        self._thread: threading.Thread | None = None
        self._before: DispatchBatch | None = None
        """The batch of the last `read`, which has been used by now."""

    def read(self, start: int, end: int) -> DecodeResult:
        """See `BatchReader.read`."""
        result = self._taken(start, end) if self._ahead else None
        if result is None:
            result = self._reader.read(start, end)
        before, self._before = self._before, result.batch
        if result.end == End.WINDOW and end - result.batch.end_offset >= self._window_size:
            # The first batch has not been used, so nobody knows yet what the next ones need.
            count = 1 if before is None else _AHEAD_COUNT
            self._prefetch(result.batch.end_offset, end, count, before.asked() if before else ())
        return result

    def _taken(self, start: int, end: int) -> DecodeResult | None:
        """Return the next prefetched window if it is the wanted one; drop all if not."""
        ahead = self._ahead.popleft()
        ahead.done.wait()
        if ahead.start == start and ahead.end <= end:
            if ahead.error is not None:
                self._drop()
                raise ahead.error
            if ahead.result is not None:
                old, self._reader = self._reader, ahead.reader
                self._idle.append(old)
                return ahead.result
        self._drop()
        return None

    def _prefetch(self, start: int, end: int, count: int, wanted: Sequence[str]) -> None:
        """Have ``count`` windows prefetched in all, the first one from ``start`` on."""
        tasks = self._tasks or self._started()
        while tasks is not None and len(self._ahead) < count:
            reader = self._idle.pop() if self._idle else self._make()
            last = self._ahead[-1] if self._ahead else None
            ahead = _Prefetch(reader, self._window_size, last, start, end, wanted)
            tasks.put(ahead)
            self._ahead.append(ahead)  # only now: the thread has what is waited for

    def _started(self) -> SimpleQueue[_Prefetch | None] | None:
        """Start the thread; return its tasks, or None if there can be no more threads."""
        tasks: SimpleQueue[_Prefetch | None] = SimpleQueue()
        thread = threading.Thread(target=_serve, args=(tasks,), name="reput-read", daemon=True)
        try:
            start_thread(thread)
            self._thread, self._tasks = thread, tasks
        except BaseException as error:
            tasks.put(None)  # it may run already
            if not isinstance(error, RuntimeError):
                raise
            return None
        return tasks

    def _drop(self) -> None:
        """Give up windows that nobody wants, with their buffers: one may be read right now."""
        for ahead in self._ahead:
            ahead.is_wanted = False
        self._ahead.clear()

    def close(self) -> None:
        """End the reading thread."""
        tasks, self._tasks = self._tasks, None
        if tasks is not None and self._thread is not None:
            self._drop()
            tasks.put(None)
            with contextlib.suppress(RuntimeError):  # it has not begun, and finds nothing to do
                self._thread.join()


@attrs.define(eq=False, repr=False)
class _Prefetch:
    """A window that is prefetched; what the caller reads was set before `done`."""

    reader: BatchReader
    window_size: int
    last: _Prefetch | None
    """The window before, which the thread has read by then."""
    start: int
    """Where the window begins, if there is no ``last`` one; corrected by `run` otherwise."""
    end: int
    """Where the log ended for this read."""
    wanted: Sequence[str]
    is_wanted: bool = True
    result: DecodeResult | None = None
    """None also if no whole window follows."""
    error: Exception | None = None
    done: SafeEvent = attrs.field(factory=SafeEvent)

    def run(self) -> None:
        """Read the window."""
        try:
            if self.is_wanted and self._follows():
                result = self.reader.read(self.start, self.end)
                result.batch.make(self.wanted)
                self.result = result
        except Exception as error:
            self.error = error
        finally:
            self.last = None
            self.done.set()

    def _follows(self) -> bool:
        if self.last is None:
            return True
        before = self.last.result
        if before is None or before.end != End.WINDOW:
            return False
        self.start = before.batch.end_offset
        return self.end - self.start >= self.window_size


def _serve(tasks: SimpleQueue[_Prefetch | None]) -> None:
    while (ahead := tasks.get()) is not None:
        ahead.run()
        ahead = None  # its buffer is not kept while the thread waits


def border_of(files: MappedFileQueue, offset: int) -> int:
    """Return where the entry begins of the record at ``offset``; in a plain log ``offset``."""
    if offset >= files.entries_from:
        head = files.read(offset, SIZE_AND_MAGIC.size)
        if len(head) == SIZE_AND_MAGIC.size and SIZE_AND_MAGIC.unpack(head)[1] in _MAGICS:
            return offset - ENTRY_HEAD_SIZE
    return offset


class BatchReader:
    """Reads and decodes windows in one buffer that is reused.

    Not thread-safe; a batch is valid until the next `read`.
    """

    def __init__(
        self,
        files: MappedFileQueue,
        decoder: Decoder,
        window_size: int,
        checked: CheckedRanges | None = None,
    ) -> None:
        self.files = files
        """The log's files."""
        self._decoder = decoder
        self._checked = checked if checked is not None and checked.ranges else None
        self.window_size = window_size
        """Bytes of a window, unless one record is larger."""
        self._buffer = np.zeros(0, np.uint8)

    def read(self, start: int, end: int | None = None) -> DecodeResult:
        """Decode from ``start``, a record's beginning, to the window's end or ``end``.

        ``end`` must be the end of a record. A record larger than a window is read whole. Each may
        also be where an entry of DLedger begins, or the record in it. The result is empty with
        `End.WINDOW` only if the files end there.
        """
        if self._checked is not None:
            # Windows end where a range does in which records must have a checksum of their own.
            self._decoder.requires_record_crc = self._checked.covers(start)
            border = self._checked.border_after(start)
            if border is not None and (end is None or border < end):
                result = self._read(start, border)
                if len(result.batch) or result.end != End.WINDOW:
                    return result
        return self._read(start, end)

    def _read(self, start: int, end: int | None) -> DecodeResult:
        size, gap = self.window_size, 0
        if start >= self.files.entries_from:
            start, gap = border_of(self.files, start), ENTRY_HEAD_SIZE
        while True:
            base = self.files.base_of(start)
            file_end = None if base is None else base + self.files.file_size
            if end is not None:
                size = min(size, end - start)
            window = self._window(start, size)
            result = self._decoder.decode(window, start, file_end, gap)
            cut = result.end == End.WINDOW and len(result.batch) == 0
            if not cut or len(window) < size or (end is not None and start + size >= end):
                return result
            if size >= RECORD_SIZE_MAX:
                return result
            size = max(result.needed_size, size + 1)

    def _window(self, start: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        if len(self._buffer) < size:
            self._buffer = np.empty(size, np.uint8)
        count = self.files.read_into(start, self._buffer.data[:size])
        return self._buffer[:count]
