"""`ReplicaAppender`: appends the bytes of a master's log to the log of a replica.

A replica's log is its master's, byte for byte. Frames of a master end anywhere: the part of a
record that has not come yet is waited for in memory, and only whole, valid records are written. So
a crash leaves a prefix of whole records, and the rest is fetched again.

A blank, which ends a file, may be as large as the file. Its first eight bytes are written first,
and the others as they come, as Java's blanks hold remains of other records. Until the next file is
begun, readers and the next opening take the log to end before the blank.

Source: RocketMQ ``HAClient``, ``CommitLog#appendData``. Different on purpose: RocketMQ appends
frames without looking at them.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.errors import (
    CorruptFeedError,
    DivergedError,
    FeedGapError,
    ReplicaError,
    ServiceNotAvailableError,
)
from reput.files.filenames import file_name
from reput.record.decode import Decoder, End

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from reput.files.system.disk import Disk
    from reput.log.writer.writablelog import WritableLog

logger = logging.getLogger(__name__)

__all__ = ["ReplicaAppender"]

_PIECE_SIZE: Final = 4 << 20
_COMPARED_SIZE: Final = 1 << 20


class ReplicaAppender:
    """Feeds one log while its store is a replica. Thread-safe.

    Args:
        log: the log, which accepts no puts meanwhile.
        note_head: notes durably where the log will begin, before its first file is made.
        kept: directory to which bytes of a master that differ are copied.
        disk: file operations.
    """

    def __init__(
        self, log: WritableLog, note_head: Callable[[int], None], kept: str, disk: Disk
    ) -> None:
        self.fed_offset = log.max_physical_offset
        """Physical offset of the next byte that is wanted."""
        self._log = log
        self._note_head = note_head
        self._kept = kept
        self._disk = disk
        self._decoder = Decoder(check_crc=True, check_record_crc=True)
        self._held = bytearray()
        """The bytes from the log's end up to `fed_offset`: a part of one record."""
        self._needed = 0
        """Bytes that `_held` needs before it can hold a whole record."""
        self._blank_to = -1
        """Up to where the active file has bytes of a blank, if that is after the log's end."""
        self._ready_to = -1
        """Up to where the active file has space and pages."""
        self._diverged: DivergedError | None = None
        self._is_ending = False

    def refusal(self) -> ReplicaError:
        """Return the error of a put."""
        return ReplicaError(
            "store",
            None,
            None,
            f"it is a replica of {self._log.master}, and takes only that log's bytes; end this "
            "with `reput promote` or Store.promote() to put",
        )

    def feed(self, physical_offset: int, data: bytes | bytearray | memoryview) -> None:
        """See `reput.Store.feed`."""
        log, view = self._log, memoryview(data).cast("B")
        with log.appending():
            log.raise_refusal()
            if self._is_ending:
                raise ServiceNotAvailableError(
                    "store", None, None, "it is promoted, and takes no more bytes of its master"
                )
            if self._diverged is not None:
                raise DivergedError(*self._diverged.args)
            try:
                if not log.is_begun and len(view):
                    self._begin(physical_offset)
                view = self._without_known(physical_offset, view)
                while len(view):
                    view = view[self._take(view[:_PIECE_SIZE]) :]
            except (FeedGapError, DivergedError):
                raise  # nothing was taken
            except BaseException:
                self._drop_held()
                raise

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Take no bytes in this block, which promotes the store, nor after it unless it raises."""
        with self._log.appending():
            self._is_ending = True
        try:
            yield
        except BaseException:
            self._is_ending = False
            raise

    def drop_rest(self) -> None:
        """Forget what is not a whole record, and clear what is in the file of an unfinished blank.

        Called with the log's lock held.
        """
        end = self._log.max_physical_offset
        for start in range(end, self._blank_to, _PIECE_SIZE):
            self._log.store(start, bytes(min(self._blank_to - start, _PIECE_SIZE)))
        self._blank_to = -1
        self._drop_held()

    def _drop_held(self) -> None:
        self._held, self._needed = bytearray(), 0
        self.fed_offset = max(self._log.max_physical_offset, self._blank_to)

    # ------------------------------------------------------------------ where the bytes belong

    def _begin(self, physical_offset: int) -> None:
        """Let the log begin at ``physical_offset``, the start of a file."""
        log = self._log
        if physical_offset < 0 or physical_offset % log.file_size:
            reason = f"the log is empty, and begins where a file of {log.file_size} bytes does"
            raise FeedGapError(physical_offset, reason, self.fed_offset)
        for base in log.files.bases:  # made by a call that was interrupted
            if base != physical_offset:
                raise FeedGapError(physical_offset, f"the log begins at {base}", base)
        self._note_head(physical_offset)
        log.begin_next_file(physical_offset)
        self.fed_offset = physical_offset

    def _without_known(self, physical_offset: int, view: memoryview) -> memoryview:
        """Return the bytes of ``view`` from `fed_offset` on; compare the bytes before it."""
        log = self._log
        if physical_offset > self.fed_offset:
            reason = f"bytes from {self.fed_offset} on are wanted"
            raise FeedGapError(physical_offset, reason, self.fed_offset)
        known = min(self.fed_offset - physical_offset, len(view))
        at = 0
        while at < known:
            size = min(_COMPARED_SIZE, known - at)
            own = self._own(physical_offset + at, size)
            if not own:
                reason = f"the log begins at {log.min_physical_offset}, and cannot be compared here"
                raise FeedGapError(physical_offset, reason, self.fed_offset)
            if own != view[at : at + len(own)]:
                self._diverge(physical_offset, at + _first_difference(own, view[at:]), view)
            at += len(own)
        return view[known:]

    def _own(self, physical_offset: int, size: int) -> bytes:
        """Return bytes that were fed: from a file, or not written yet."""
        held_from = self.fed_offset - len(self._held)
        if physical_offset >= held_from:
            start = physical_offset - held_from
            return bytes(self._held[start : start + size])
        return self._log.files.read(physical_offset, min(size, held_from - physical_offset))

    def _diverge(self, physical_offset: int, position: int, view: memoryview) -> None:
        """Keep the master's bytes from ``position`` on, and raise."""
        offset = physical_offset + position
        kept = ""
        try:
            self._disk.make_directory(self._kept)
            kept = os.path.join(self._kept, f"{file_name(offset)}-of-master")
            self._disk.replace(kept, bytes(view[position:]))
        except OSError as error:
            kept = ""
            logger.error("the master's bytes not kept offset=%d error=%s", offset, error)
        reason = f"the bytes of {self._log.master} differ from the bytes that it sent before"
        self._diverged = DivergedError(offset, reason, kept)
        logger.error("diverged from the master offset=%d kept=%s", offset, kept)
        raise self._diverged

    # ------------------------------------------------------------------ what the bytes are

    def _take(self, piece: memoryview) -> int:
        """Take bytes from the start of ``piece``, at most to the end of the file; return how many.

        Raises:
            CorruptFeedError: no valid record begins where one should. The records before it are
                in the log, and the bytes from there on have to be fed again.
        """
        log = self._log
        file_end = log.file_end
        if self.fed_offset == file_end:  # there was no room for the next file
            log.begin_next_file(file_end)
            file_end = log.file_end
        piece = piece[: file_end - self.fed_offset]
        start = log.max_physical_offset
        if self._blank_to > start:
            self._continue_blank(piece, file_end)
            return len(piece)
        if self._held:
            # The rest of one record, so that what follows it is read where it is.
            piece = piece[: max(self._needed - len(self._held), 1)]
        fed_to = self.fed_offset + len(piece)
        if self._held:
            self._held += piece
            if len(self._held) < self._needed:
                self.fed_offset = fed_to
                return len(piece)
            window = np.frombuffer(bytes(self._held), np.uint8)
        else:
            window = np.frombuffer(piece, np.uint8)
        result = self._decoder.decode(window, start, file_end)
        batch = result.batch
        size = int(batch.start[-1] + batch.size[-1]) if len(batch) else 0
        if size:
            self._publish(start, window[:size], start + int(batch.start[-1]))
        self._held = bytearray(window[size:])
        # A blank may be shorter than the header of a record: no more bytes follow in this file.
        self._needed = min(result.needed_size, file_end - start) - size
        # Only now: another thread that sees the offset finds the records below it in the log.
        if result.end == End.BLANK:
            rest, self._held = memoryview(self._held), bytearray()
            self.fed_offset = start + size
            self._continue_blank(rest, file_end)
            return len(piece)
        self.fed_offset = fed_to
        if result.end != End.WINDOW:
            finding = batch.finding
            reason = "zeros, where a record should begin" if finding is None else str(finding)
            raise CorruptFeedError(start + size, f"{log.master} sent no valid record: {reason}")
        return len(piece)

    # ------------------------------------------------------------------ the file

    def _publish(self, start: int, records: npt.NDArray[np.uint8], last_record_offset: int) -> None:
        log, data = self._log, records.data
        self._make_ready(start, len(data))
        log.publish(start, bytes(data[:4]), data[4:], last_record_offset)

    def _continue_blank(self, data: memoryview, file_end: int) -> None:
        """Write more bytes of the blank that ends the file; begin the next file after the last."""
        self._make_ready(self.fed_offset, len(data))
        self._log.store(self.fed_offset, data)
        self._blank_to = self.fed_offset = self.fed_offset + len(data)
        if self._blank_to == file_end:
            self._log.begin_next_file(file_end)

    def _make_ready(self, start: int, size: int) -> None:
        if start + size > self._ready_to:
            self._ready_to = self._log.look_ahead(start, size)


def _first_difference(own: bytes, theirs: memoryview) -> int:
    size = min(len(own), len(theirs))
    if own[:size] == theirs[:size]:
        return size
    differs = np.frombuffer(own[:size], np.uint8) != np.frombuffer(theirs[:size], np.uint8)
    return int(differs.argmax())
