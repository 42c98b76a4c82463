"""Writes logs as DLedger does, byte by byte; knows nothing of what reads them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """An entry as it stands in a file."""

    index: int
    term: int
    position: int
    record: bytes


def entries_in(root: Path) -> list[Entry]:
    """Read the entries of a stopped node as DLedger does; fail if its rules are broken."""
    (folder,) = root.glob("dledger-*/data")
    paths = sorted(folder.iterdir())
    sizes = {path.stat().st_size for path in paths}
    assert len(sizes) == 1
    entries: list[Entry] = []
    for number, path in enumerate(paths):
        base, data, at = int(path.name), path.read_bytes(), 0
        assert base == int(paths[0].name) + number * len(data)
        while at < len(data):
            magic, size, *values = struct.unpack_from(">iiqqqiiii", data.ljust(at + 48, b"\0"), at)
            if magic == -1 or magic == size == 0:
                assert magic == 0 or size == len(data) - at >= 8
                assert path == paths[-1] or magic == -1
                assert not any(data[at + 8 :])
                break
            index, term, position, *zeros, body_size = values
            assert (magic, size, position, zeros) == (1, body_size + 48, base + at, [0, 0, 0])
            assert at + size + 8 <= len(data)
            record = data[at + 48 : at + size]
            assert struct.unpack_from(">i", record) == (body_size,)
            assert struct.unpack_from(">q", record, 28) == (position + 48,)
            if entries:
                assert index == entries[-1].index + 1
                assert term >= entries[-1].term
            entries.append(Entry(index, term, position, record))
            at += size
    return entries


class DLedgerLog:
    """Entries that are collected, and then written to the files of a node."""

    def __init__(
        self,
        root: Path,
        file_size: int = 16_384,
        base: int = 0,
        *,
        term: int = 1,
        index_size: int = 1 << 20,
    ) -> None:
        self.root = root
        self.folder = root / "dledger-n0"
        self.file_size, self.base, self.index_size = file_size, base, index_size
        self.data = bytearray()
        self.units = bytearray()
        self.offsets: list[int] = []
        """Of the records."""
        self.term = term

    @property
    def position(self) -> int:
        """Where the next entry begins, or padding before it."""
        return self.base + len(self.data)

    def append(self, record: bytes) -> None:
        """Append an entry; its record is changed to state its physical offset."""
        size, left = 48 + len(record), self.file_size - len(self.data) % self.file_size
        if left < size + 8:
            self.data += struct.pack(">ii", -1, left) + bytes(left - 8)
        position, index = self.position, len(self.offsets)
        record = record[:28] + struct.pack(">q", position + 48) + record[36:]
        head = (1, size, index, self.term, position, 0, 0, 0, len(record))
        self.data += struct.pack(">iiqqqiiii", *head) + record
        self.units += struct.pack(">iqiqq", 1, position, size, index, self.term)
        self.offsets.append(position + 48)

    def write(self, committed: int | None = None, leader: str = "n0") -> DLedgerLog:
        """Write all files; ``committed`` is what the checkpoint says, None for all entries."""
        committed = len(self.offsets) - 1 if committed is None else committed
        for name, data, base, size in (
            ("data", self.data, self.base, self.file_size),
            ("index", self.units, 0, self.index_size),
        ):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            for start in range(0, max(len(data), 1), size):
                part = bytes(data[start : start + size])
                (self.folder / name / f"{base + start:020d}").write_bytes(part.ljust(size, b"\0"))
        self.note(committed)
        (self.folder / "currterm").write_text(f"voteLeader={leader}\ncurrTerm={self.term}\n")
        return self

    def note(self, committed: int) -> None:
        """Replace the checkpoint."""
        text = f"#Sat Nov 21 14:15:50 UTC 2026\nendIndex=99\ncommittedIndex={committed}\n"
        new = self.folder / "checkpoint.tmp"
        new.write_text(text)
        new.replace(self.folder / "checkpoint")

    @property
    def directory(self) -> Path:
        """Of the files of entries."""
        return self.folder / "data"

    @property
    def entries(self) -> list[int]:
        """Where each entry begins."""
        return [offset - 48 for offset in self.offsets]

    def spoil(self, offset: int, data: bytes) -> None:
        """Overwrite bytes of the log."""
        base = self.base + (offset - self.base) // self.file_size * self.file_size
        with (self.folder / "data" / f"{base:020d}").open("r+b") as file:
            file.seek(offset - base)
            file.write(data)
