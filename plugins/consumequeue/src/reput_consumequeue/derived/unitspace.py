"""Room for the units of derived queues: in memory up to a limit, then in a file without a name.

A queue takes 20 bytes of it for each message. The file is in the system's directory of temporary
files. It has no name, so nothing is left of it when the process ends, also when it is killed.
"""

from __future__ import annotations

import tempfile
from typing import IO, Final

from reput.files import new_lock

MEMORY_SIZE: Final = 64 << 20
"""Bytes in memory, of the units of 3.3 million messages."""
_CHUNK_SIZE: Final = 1 << 20


class UnitSpace:
    """Blocks of bytes, addressed by number. Thread-safe.

    Attributes:
        size: bytes of all blocks that were taken from the chunks, those given back included.
    """

    def __init__(self, memory_size: int = MEMORY_SIZE) -> None:
        """Start empty; ``memory_size`` is a multiple of 1 MiB."""
        self.size = 0
        self._memory_size = memory_size
        self._chunks: list[bytearray] = []
        self._file: IO[bytes] | None = None
        self._free: dict[int, list[int]] = {}
        self._lock = new_lock()

    def take(self, size: int) -> int:
        """Return the address of a block of ``size`` bytes, 1 MiB at most; its bytes are any."""
        with self._lock:
            given_back = self._free.get(size)
            if given_back:
                return given_back.pop()
            address = self.size
            if address // _CHUNK_SIZE != (address + size - 1) // _CHUNK_SIZE:
                address += -address % _CHUNK_SIZE  # no block is in two chunks
            self.size = address + size
            if address < self._memory_size and address // _CHUNK_SIZE == len(self._chunks):
                self._chunks.append(bytearray(_CHUNK_SIZE))
            return address

    def give_back(self, address: int, size: int) -> None:
        """Let a block be taken again."""
        with self._lock:
            self._free.setdefault(size, []).append(address)

    def write(self, address: int, data: memoryview) -> None:
        """Write bytes into a block.

        Raises:
            OSError: the temporary file cannot be written.
        """
        with self._lock:
            if address < self._memory_size:
                at = address % _CHUNK_SIZE
                self._chunks[address // _CHUNK_SIZE][at : at + len(data)] = data
                return
            if self._file is None:
                # Without a buffer: bytes in it for which the disk has no room would fail all later
                # reads, and a forked child would write them again when it ends.
                self._file = tempfile.TemporaryFile(buffering=0, prefix="reput-")  # noqa: SIM115
            self._file.seek(address - self._memory_size)
            while data:
                data = data[self._file.write(data) :]

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of a block that were written.

        Raises:
            OSError: the temporary file cannot be read.
        """
        with self._lock:
            if address < self._memory_size:
                at = address % _CHUNK_SIZE
                return bytes(self._chunks[address // _CHUNK_SIZE][at : at + size])
            assert self._file is not None
            self._file.seek(address - self._memory_size)
            return self._file.read(size)

    def close(self) -> None:
        """Remove the file; reads of it fail from now on."""
        with self._lock:
            if self._file is not None:
                self._file.close()
