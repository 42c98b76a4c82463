"""A program that writes a store as RocketMQ does: the size of each record first, its texts last."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs

import reput
from reput.files import Disk

FILE_SIZE = 8_192
CONFIG = {"commitlog": {"file_size": FILE_SIZE}}
_STEP = 48
"""Bytes of one write, after the size and the magic."""
_HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


class HandDisk(Disk):
    """Files of the system, and a clock that only the test and who sleeps moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0

    def monotonic(self) -> float:
        """See `Disk.monotonic`."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """See `Disk.sleep`."""
        self.now += seconds


@attrs.define(eq=False)
class ForeignWriter:
    """Fills the empty log of a store with the records of another store, step by step.

    Its process has the store's lock as RocketMQ takes it; `end` gives it up.
    """

    root: Path
    pieces: list[tuple[int, bytes]]
    """Physical offset and bytes of each record, and of each blank."""
    _lock: subprocess.Popen[bytes]

    @classmethod
    def of(cls, source: Path, root: Path) -> Self:
        """Begin at the start of the log of ``source``, whose queues are there already."""
        with reput.open(source, "r", plugins=()) as store:
            ends = [
                (batch.base_offset + int(start), int(size))
                for batch in store.log.scan()
                for start, size in zip(batch.start, batch.size, strict=True)
            ]
        shutil.copytree(source, root)
        shutil.rmtree(root / "reput")
        pieces = []
        files = {int(file.name): file for file in sorted((root / "commitlog").iterdir())}
        for base, file in files.items():
            data = file.read_bytes()
            inside = [each for each in ends if base <= each[0] < base + FILE_SIZE]
            pieces += [(at, data[at - base : at - base + size]) for at, size in inside]
            at = sum(inside[-1]) if inside else base
            blank = data[at - base : at - base + 8]
            if blank.strip(b"\0"):
                pieces.append((at, blank))
            file.write_bytes(bytes(FILE_SIZE))
            if base:
                file.unlink()  # made when there is something to put there
        (root / "abort").write_bytes(b"")
        lock = root / "lock"
        lock.write_bytes(b"lock")
        command = [sys.executable, "-c", _HOLDS, str(lock)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        return cls(root, pieces, process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Give up the lock, as a process that ends does."""
        self._lock.communicate()

    def steps(self, offset: int, data: bytes) -> Iterator[None]:
        """Write a record in RocketMQ's order, a part before each step."""
        path = self.root / "commitlog" / f"{offset - offset % FILE_SIZE:020}"
        if not path.exists():
            path.write_bytes(bytes(FILE_SIZE))
        cuts = [0, *range(min(8, len(data)), len(data), _STEP), len(data)]
        with path.open("r+b", buffering=0) as file:
            for start, stop in itertools.pairwise(cuts):
                file.seek(offset % FILE_SIZE + start)
                file.write(data[start:stop])
                yield

    def write(self, count: int | None = None) -> list[int]:
        """Write records as wholes; return their physical offsets."""
        written = []
        while self.pieces and (count is None or len(written) < count):
            offset, data = self.pieces.pop(0)
            for _ in self.steps(offset, data):
                pass
            if len(data) > 8:
                written.append(offset)
        return written


@contextlib.contextmanager
def foreign_store(
    tmp_path: Path, count: int, plugins: tuple[str, ...] = ()
) -> Iterator[ForeignWriter]:
    """A foreign writer with so many messages of several sizes to write, in more than one file."""
    with reput.open(tmp_path / "source", plugins=plugins, config=CONFIG) as store:
        for number in range(count):
            big = "x" * (number * 97 % 700)
            properties = {"first": "1", "big": big, "last": str(number)}
            store.put(
                reput.Message(
                    "orders",
                    b"%d" % number,
                    queue_id=0,
                    keys=f"k{number}",
                    properties=properties,
                )
            )
        store.wait_dispatched()
    with ForeignWriter.of(tmp_path / "source", tmp_path / "beside") as writer:
        yield writer
