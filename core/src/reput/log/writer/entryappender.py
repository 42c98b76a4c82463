"""`EntryAppender`: the growing end of a log that DLedger keeps.

Records are appended as entries (`reput.record.entries`), with the next indexes and the last entry's
term. DLedger's index is left as it is: a broker writes what is missing there when it starts.

Source: DLedger ``DLedgerMmapFileStore#appendAsLeader``. Different on purpose: magic and size of the
first entry are written after all other bytes, as a plain record's size is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reput.engine import REFERENCES
from reput.log.writer.appender import Appender
from reput.record.entries import ENTRY_HEAD_SIZE, framed, padding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.log.writer.appender import QueueKey
    from reput.record.entries import LastEntry

    _Appender = Appender
else:
    _Appender = REFERENCES.get(Appender, Appender)  # compiled ones know plain records only

__all__ = ["EntryAppender"]

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
