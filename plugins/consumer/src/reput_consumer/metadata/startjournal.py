"""``reput/consumer/starts``: where groups have begun since their offsets were saved last.

A group that is handed its first message must begin at the same place after a kill, so the place is
on disk before. A line takes the same time however many groups exist; ``consumerOffset.json`` is
written as a whole, and soon after. Each line is a CRC-32 in eight hexadecimal digits, a blank,
and a JSON array of group, topic, queue id and queue offset:

    d0cddf03 ["GroupA","TopicTest",0,12]

A line counts if the file of offsets does not know the queue. A line whose CRC is another is left
out. What stands behind the last valid line was cut short by a crash, and is overwritten.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from reput.errors import NotAFileError, ReputError
from reput.files import Disk

logger = logging.getLogger(__name__)

FILE_NAME: Final = "starts"
_SIZE_MAX: Final = 64 << 20
_CRC_SIZE: Final = 8

Start = tuple[str, str, int, int]
"""Group, topic, queue id and queue offset."""


@attrs.define(eq=False, repr=False)
class StartJournal:
    """The lines of the file. Thread-safe."""

    path: str
    disk: Disk
    writable: bool = True
    """Whether it may be added to; one that may not does without a file that it cannot read."""
    _size: int = attrs.field(init=False, default=0)
    """Bytes up to the end of the last valid line."""
    _lock: threading.RLock = attrs.field(init=False, factory=threading.RLock)

    @property
    def size(self) -> int:
        """Bytes of the lines that were added so far: what `forget` takes."""
        return self._size

    def load(self) -> list[Start]:
        """Read the file; all lines that were added are on disk.

        Raises:
            OSError: the file cannot be read, and is to be written.
        """
        with self._lock:
            try:
                data = self.disk.read_if_exists(self.path, _SIZE_MAX) or b""
            except OSError as error:
                is_refused = isinstance(error, ReputError) and not isinstance(error, NotAFileError)
                if self.writable or is_refused:
                    raise
                logger.warning("file not readable, starts of groups not known error=%s", error)
                return []
            found = list(_starts_of(data))
            self._size = found[-1][2] if found else 0
            ignored = len(data.rstrip(b"\0")) - sum(end - begin for _, begin, end in found)
            if ignored > 0:
                logger.warning("lines ignored file=%s size=%d", self.path, ignored)
            return [start for start, _, _ in found]

    def add(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Add where a group begins; on disk when this returns.

        Args:
            group: the group.
            offsets: queue offset by topic and queue id.

        Raises:
            OSError: the file cannot be written; nothing was added.
        """
        data = b"".join(
            _line((group, topic, queue_id, offset)) for (topic, queue_id), offset in offsets.items()
        )
        with self._lock:
            is_new = not self.disk.exists(self.path)
            self.disk.make_directory(os.path.dirname(self.path), durable=True)
            descriptor = self.disk.open(self.path, create=True)
            try:
                self.disk.write(descriptor, data, self._size)
                self.disk.flush(descriptor)
            finally:
                self.disk.close(descriptor)
            if is_new:
                self.disk.flush_directory(os.path.dirname(self.path))
            self._size += len(data)

    def forget(self, size: int) -> None:
        """Drop the first ``size`` bytes of lines: the file of offsets has what they say.

        Raises:
            OSError: the file cannot be written; the lines stay, which changes nothing.
        """
        with self._lock:
            if not size:
                return
            left = self.disk.read_file(self.path, _SIZE_MAX)[size : self._size]
            self.disk.replace(self.path, left)
            self._size = len(left)


def _line(start: Start) -> bytes:
    text = json.dumps(start, ensure_ascii=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _starts_of(data: bytes) -> Iterator[tuple[Start, int, int]]:
    """Yield what the valid lines say, each with the places where it begins and ends."""
    end = 0
    for line in data.split(b"\n")[:-1]:  # a line without its end may be cut short
        begin, end = end, end + len(line) + 1
        start = _start_of(line)
        if start is not None:
            yield start, begin, end


def _start_of(line: bytes) -> Start | None:
    text = line[_CRC_SIZE + 1 :]
    if line[: _CRC_SIZE + 1] != b"%08x " % zlib.crc32(text):
        return None
    try:
        group, topic, queue_id, offset = json.loads(text)
    except ValueError:
        return None
    kinds = type(group), type(topic), type(queue_id), type(offset)
    if kinds != (str, str, int, int) or queue_id < 0 or offset < 0:
        return None
    return group, topic, queue_id, offset
