"""Frames of replication, on a master's HA port: reports of a follower, transfers of a master.

A report, all that a follower sends:

    0                  8
    +------------------+
    | physical offset  |
    +------------------+

A transfer; its size is 0 in a heartbeat, and the offset then that of the next transfer:

    0                  8       12
    +------------------+--------+------+
    | physical offset  | size   | data |
    +------------------+--------+------+

Integers are big-endian and signed. A transfer ends anywhere, also inside of a record, but not
beyond a file of the log. RocketMQ's own slaves have a buffer of 4 MiB for one transfer; masters
send 32 KiB by default (``haTransferBatchSize``).

Source: RocketMQ ``DefaultHAConnection``, ``DefaultHAClient``.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from reput_client.remoting.errors import TransferError

REPORT: Final = struct.Struct(">q")
HEADER: Final = struct.Struct(">qi")  # physical offset, size

SIZE_MAX: Final = (4 << 20) - HEADER.size
"""Bytes of the longest transfer that is read."""

ROOM_SIZE: Final = 1 << 20
"""Bytes that are read at once, and of a reader's buffer unless one transfer is longer, so that a
follower's memory stays small."""

NOTHING_REPORTED: Final = -(1 << 50)
"""A report that acknowledges nothing: an observer's sign that it is alive. Masters keep the largest
offset that was reported, and compare it with the ends of messages."""


def encode_report(physical_offset: int) -> bytes:
    """Return the bytes of a report."""
    return REPORT.pack(physical_offset)


def last_report(data: bytes | bytearray | memoryview) -> tuple[int | None, int]:
    """Return the last whole report of a connection's bytes, and how many bytes are used up.

    A master needs no other one, as each report stands for all before it.

    Args:
        data: what came, from the end of a report on; the rest belongs to the next one.

    Returns:
        The physical offset, None if no report is whole; and the size of all whole reports.
    """
    used = len(data) - len(data) % REPORT.size
    if not used:
        return None, 0
    offset: int = REPORT.unpack_from(data, used - REPORT.size)[0]
    return offset, used


def encode_transfer(physical_offset: int, size: int) -> bytes:
    """Return the header of a transfer, which ``size`` bytes of the log follow; 0: a heartbeat."""
    return HEADER.pack(physical_offset, size)


@attrs.frozen
class Transfer:
    """Bytes of the master's log, or a heartbeat, which has none."""

    physical_offset: int
    data: bytes

    @property
    def end_offset(self) -> int:
        """Physical offset of the first byte after it."""
        return self.physical_offset + len(self.data)


@attrs.define(eq=False)
class TransferReader:
    """Makes transfers of a connection's bytes, wherever these are parted.

    A size is refused as soon as it is there. Transfers that follow each other and came together are
    one: their bytes go on together.
    """

    name: str = "master"
    """The master's address, for errors."""
    _buffer: bytearray = attrs.field(init=False, factory=lambda: bytearray(ROOM_SIZE))
    _size: int = attrs.field(init=False, default=0)

    def room(self) -> memoryview:
        """Return where the next bytes of the connection are to be written; never empty."""
        return memoryview(self._buffer)[self._size : self._size + ROOM_SIZE]

    def received(self, size: int) -> list[Transfer]:
        """Return the transfers that are whole now.

        Args:
            size: how many bytes were written at the start of its buffer.

        Raises:
            TransferError: the bytes are not those of a master.
        """
        self._size += size
        found: list[Transfer] = []
        parts: list[memoryview] = []
        first = following = position = 0
        needed = 0
        view = memoryview(self._buffer)
        while self._size - position >= HEADER.size:
            offset, length = HEADER.unpack_from(self._buffer, position)
            self._check(offset, length)
            end = position + HEADER.size + length
            if end > self._size:
                needed = HEADER.size + length
                break
            if parts and (offset != following or not length):
                found.append(Transfer(first, b"".join(parts)))
                parts.clear()
            if not length:
                found.append(Transfer(offset, b""))
            else:
                first = first if parts else offset
                parts.append(view[position + HEADER.size : end])
                following = offset + length
            position = end
        if parts:
            found.append(Transfer(first, b"".join(parts)))
            parts.clear()
        if position:
            rest = bytes(view[position : self._size])
            self._buffer[: len(rest)] = rest
            self._size = len(rest)
        if needed > len(self._buffer):
            # Another buffer, as the caller may still have a view of this one.
            self._buffer = self._buffer[: self._size].ljust(needed, b"\0")
        return found

    def _check(self, offset: int, length: int) -> None:
        if not 0 <= length <= SIZE_MAX:
            raise TransferError(self.name, 8, f"a size of {length}", f"0 to {SIZE_MAX}")
        if not 0 <= offset < 1 << 62:
            raise TransferError(self.name, 0, f"an offset of {offset}", "0 or more")
