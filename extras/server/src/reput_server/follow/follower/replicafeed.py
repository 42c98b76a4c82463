"""`ReplicaFeed`: appends the bytes of a master's log to the log of a replica.

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

import logging
import os
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.files import Disk, file_name
from reput.record import Decoder, End
from reput.record.layout import BLANK_MIN_SIZE
from reput_server.follow.errors import CorruptFeedError, DivergedError, FeedGapError

if TYPE_CHECKING:
    from reput import Store

logger = logging.getLogger(__name__)

_PIECE_SIZE: Final = 4 << 20
_COMPARED_SIZE: Final = 1 << 20


class ReplicaFeed:
    """Feeds one store, a replica that is open for writing. One thread calls `feed`.

    Args:
        store: the replica.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.fed_offset = store.log.max_physical_offset
        """Physical offset of the next byte that is wanted."""
        self._decoder = Decoder(check_crc=True, check_record_crc=True)
        self._held = bytearray()
        """The bytes from the log's end up to `fed_offset`: a part of one record."""
        self._needed = 0
        """Bytes that `_held` needs before it can hold a whole record."""
        self._is_in_blank = False
        self._diverged: DivergedError | None = None

    def feed(self, physical_offset: int, data: bytes | bytearray | memoryview) -> None:
        """Append bytes of the master's log, which may begin and end anywhere.

        Records that are whole and valid are in the log when this returns. The part of a record at
        the end is kept in memory until its other bytes are fed.

        Args:
            physical_offset: where ``data`` stands in the master's log: at `fed_offset`, or before
                it. Bytes that were fed before are compared with the stored bytes, and skipped.
            data: any number of bytes, also of several files.

        Raises:
            FeedGapError: the bytes begin after `fed_offset`, or before the log does; or they are an
                empty log's first ones, and begin inside of a file.
            CorruptFeedError: no valid record begins where one should. The records before it are in
                the log; `fed_offset` is where they end.
            DivergedError: the master has other bytes at an offset than this store. The master's are
                copied to ``reput/lost+found``, and every later call raises this error, too.
            ReputError: see `reput.Store.append_raw`; feed again from `fed_offset` on.
        """
        if self._diverged is not None:
            raise DivergedError(*self._diverged.args)
        view = memoryview(data).cast("B")
        try:
            if not self.store.log.is_begun and len(view):
                self._begin(physical_offset)
            view = self._without_known(physical_offset, view)
            while len(view):
                view = view[self._take(view[:_PIECE_SIZE]) :]
        except (FeedGapError, DivergedError):
            raise  # nothing was taken
        except BaseException:
            self._begin_at(self.store.log.max_physical_offset)
            raise

    def _begin_at(self, physical_offset: int) -> None:
        """Forget what is not in the log, and want the bytes from an offset on."""
        self._held, self._needed, self._is_in_blank = bytearray(), 0, False
        self.fed_offset = physical_offset

    # ------------------------------------------------------------------ where the bytes belong

    def _begin(self, physical_offset: int) -> None:
        """Let the log begin at ``physical_offset``, the start of a file."""
        log = self.store.log
        if physical_offset >= 0 and physical_offset % log.file_size == 0:
            for base in log.file_offsets:  # made by a call that was interrupted
                if base != physical_offset:
                    raise FeedGapError(physical_offset, f"the log begins at {base}", base)
            self._begin_at(physical_offset)
        elif not self._held:
            reason = f"the log is empty, and begins where a file of {log.file_size} bytes does"
            raise FeedGapError(physical_offset, reason, self.fed_offset)

    def _without_known(self, physical_offset: int, view: memoryview) -> memoryview:
        """Return the bytes of ``view`` from `fed_offset` on; compare the bytes before it."""
        if physical_offset > self.fed_offset:
            reason = f"bytes from {self.fed_offset} on are wanted"
            raise FeedGapError(physical_offset, reason, self.fed_offset)
        known = min(self.fed_offset - physical_offset, len(view))
        at = 0
        while at < known:
            size = min(_COMPARED_SIZE, known - at)
            own = self._own(physical_offset + at, size)
            if not own:
                begin = self.store.log.min_physical_offset
                reason = f"the log begins at {begin}, and cannot be compared here"
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
        return self.store.log.files.read(physical_offset, min(size, held_from - physical_offset))

    def _diverge(self, physical_offset: int, position: int, view: memoryview) -> None:
        """Keep the master's bytes from ``position`` on, and raise."""
        offset, root, master = physical_offset + position, self.store.root, self.store.master
        directory, disk = os.path.join(root, "reput", "lost+found"), Disk().at(root)
        kept = os.path.join(directory, f"{file_name(offset)}-of-master")
        try:
            disk.make_directory(directory)
            disk.replace(kept, bytes(view[position:]))
        except OSError as error:
            kept = ""
            logger.error("the master's bytes not kept offset=%d error=%s", offset, error)
        reason = f"the bytes of {master} differ from the bytes that it sent before"
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
        file_size = self.store.log.file_size
        file_end = self.fed_offset - self.fed_offset % file_size + file_size
        piece = piece[: file_end - self.fed_offset]
        if self._is_in_blank:
            self._continue_blank(piece, file_end)
            return len(piece)
        if self._held:
            # The rest of one record, so that what follows it is read where it is.
            piece = piece[: max(self._needed - len(self._held), 1)]
            self._held += piece
            if len(self._held) < self._needed:
                self.fed_offset += len(piece)
                return len(piece)
        fed_to = self.fed_offset + len(piece)
        window = np.frombuffer(bytes(self._held) if self._held else piece, np.uint8)
        start = fed_to - len(window)
        result = self._decoder.decode(window, start, file_end)
        batch = result.batch
        stops = batch.start + batch.size
        # A log whose file ends without a blank could not be continued.
        count = int(stops.searchsorted(file_end - start - BLANK_MIN_SIZE, "right"))
        size = int(stops[count - 1]) if count else 0
        if size:
            self.store.append_raw(start, window[:size].data, start + int(batch.start[count - 1]))
        if count < len(batch):
            reason = f"{self.store.master} sent a record that leaves its file no room for a blank"
            raise CorruptFeedError(start + size, reason)
        # Only now: another thread that sees the offset finds the records below it in the log.
        rest = bytearray(window[size:])
        if result.end == End.BLANK:
            self._held, self.fed_offset = bytearray(), start + size
            self._continue_blank(memoryview(rest), file_end)
            return len(piece)
        # A blank may be shorter than the header of a record: no more bytes follow in this file.
        self._needed = min(result.needed_size, file_end - start) - size
        self._held, self.fed_offset = rest, fed_to
        if result.end != End.WINDOW:
            finding = batch.finding
            reason = "zeros, where a record should begin" if finding is None else str(finding)
            name = self.store.master
            raise CorruptFeedError(start + size, f"{name} sent no valid record: {reason}")
        return len(piece)

    def _continue_blank(self, data: memoryview, file_end: int) -> None:
        """Write more bytes of the blank that ends the file."""
        self.store.append_raw(self.fed_offset, data, None)
        self.fed_offset += len(data)
        self._is_in_blank = self.fed_offset < file_end


def _first_difference(own: bytes, theirs: memoryview) -> int:
    size = min(len(own), len(theirs))
    if own[:size] == theirs[:size]:
        return size
    differs = np.frombuffer(own[:size], np.uint8) != np.frombuffer(theirs[:size], np.uint8)
    return int(differs.argmax())
