"""`Tail`: tells whether the last record of a log is whole, which another program may be writing.

RocketMQ copies a record into the file from its first byte, the size, to its last byte. So a reader
in another process finds size and magic while the rest is still on its way, and no checksum covers
topic and properties. reput writes the size last, so its records are whole as soon as they are seen.

Beside another program a record is whole

* if another record, or the blank that closes the file, follows it, and it is read after that;
* else if it did not change for a second, and neither topic nor properties end in zeros.

A program that was killed may have left a part of a record, so the zeros count then, too.
"""

from __future__ import annotations

import enum
import zlib
from typing import TYPE_CHECKING, Final, Protocol

from reput.record.messages.torn import looks_torn
from reput.record.view import message_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.files.mapping.mapped import MappedFileQueue

__all__ = ["Tail", "Writer"]

_QUIET_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.02


class Writer(enum.Enum):
    """Which program has a store open to write."""

    NONE = "none"
    REPUT = "reput"
    OTHER = "other"
    """Another program, RocketMQ for example, or one that is not known."""


class Clock(Protocol):
    """A clock that never goes back; a `Disk` is one."""

    def monotonic(self) -> float:
        """Return seconds since some point in time."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class Tail:
    """Judges the last record of one log, for one thread at a time."""

    def __init__(self, files: MappedFileQueue, writer: Callable[[], Writer], clock: Clock) -> None:
        """Judge the log in ``files``.

        Args:
            files: the log's files.
            writer: tells who has the store open to write.
            clock: measures how long a record did not change.
        """
        self._files = files
        self._writer = writer
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._since = 0.0

    def is_whole(self, start: int, end: int) -> bool:
        """Whether the record at ``[start, end)``, which nothing follows, is known to be whole."""
        # Asked after the record was seen: if its writer is gone by now, its bytes are final.
        writer = self._writer()
        if writer is Writer.REPUT:
            return True
        data = self._files.read(start, end - start)
        if writer is Writer.OTHER:
            seen, now = (start, end, zlib.crc32(data)), self._clock.monotonic()
            if seen != self._seen:
                self._seen, self._since = seen, now
            if now - self._since < _QUIET_SECONDS:
                return False
        message = message_at(data, start)
        if message is None:
            return False
        return not (message.topic.endswith("\0") or looks_torn(message.properties_text))

    def moments(self) -> Iterator[None]:
        """Yield now and then, until a record that did not change meanwhile would be whole."""
        end = self._clock.monotonic() + _QUIET_SECONDS + _PAUSE_SECONDS
        while self._writer() is Writer.OTHER and self._clock.monotonic() < end:
            self._clock.sleep(_PAUSE_SECONDS)
            yield
