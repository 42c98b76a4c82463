"""Readers whose looks a writer interrupts: it goes on between two operations of a reader's disk.

`besidewriters` lets readers look between two operations of a writer. Here a look begins in front of
some of them and ends behind them, as it does in two processes. Who does the next operation follows
from a seed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import reput
from reput_testing import FaultyDisk, QuickDisk

_STEPS = (1, 1, 2, 5, 20)
"""Operations of the writer between two of the reader; one of these is chosen."""
_RATES = (0.02, 0.1, 0.3)
"""How often the writer goes on between two operations; one of these is chosen."""
_HANG_SECONDS = 60.0


class Writer:
    """Changes a store in a thread of its own, operation by operation.

    Args:
        work: changes the store, with the disk that it is given.
    """

    def __init__(self, work: Callable[[Any], object]) -> None:
        self.operations: list[str] = []
        """What it has done and does next."""
        self.has_ended = False
        self._work = work
        self._error: BaseException | None = None
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._wait()

    def advance(self, count: int) -> None:
        """Let it do some operations, or fewer, if it ends."""
        for _ in range(count):
            if self.has_ended:
                return
            self._go.release()
            self._wait()

    def end(self) -> None:
        """Let it do all the rest."""
        self.advance(1 << 30)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _wait(self) -> None:
        assert self._stands.acquire(timeout=_HANG_SECONDS), "the writer hangs"

    def _run(self) -> None:
        disk = _WriterDisk()
        disk.before = self._stand
        try:
            self._work(disk)
        except BaseException as error:
            self._error = error
        finally:
            self.has_ended = True
            self._stands.release()

    def _stand(self, operation: str) -> None:
        if threading.current_thread() is self._thread and not operation.endswith("/lock"):
            self.operations.append(operation)
            self._stands.release()
            self._go.acquire()


class _WriterDisk(FaultyDisk):
    before: Callable[[str], object]

    def _before(self, operation: str, path: str) -> None:
        self.before(f"{operation} {path}")


class ReaderDisk(QuickDisk):
    """Calls ``before`` in front of each operation that finds out what is in a directory or file."""

    before: Callable[[], object] = staticmethod(lambda: None)
    _lock_files: frozenset[int] = frozenset()
    """Descriptors: in one process, who asks for a store's lock keeps others from asking."""

    def open(self, path: str, **options: bool) -> int:
        if not path.endswith("/lock"):
            self.before()
            return super().open(path, **options)
        descriptor = super().open(path, **options)
        self._lock_files |= {descriptor}
        return descriptor

    def close(self, descriptor: int) -> None:
        self._lock_files -= {descriptor}
        super().close(descriptor)

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        if descriptor not in self._lock_files:
            self.before()
        return super().read(descriptor, size, position)

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        self.before()
        return super().read_into(descriptor, buffer, position)

    def size(self, descriptor: int) -> int:
        self.before()
        return super().size(descriptor)

    def data_ranges(self, descriptor: int, start: int, end: int) -> list[tuple[int, int]]:
        self.before()
        return super().data_ranges(descriptor, start, end)

    def list_names(self, path: str) -> list[str]:
        self.before()
        return super().list_names(path)

    def list(self, path: str) -> list[Any]:
        self.before()
        return super().list(path)

    def exists(self, path: str) -> bool:
        self.before()
        return super().exists(path)


def look_across(
    root: Any,
    plugins: Any,
    work: Callable[[Any], object],
    check: Callable[[Any], object],
    seed: int,
    looks: int = 20,
    **options: Any,
) -> None:
    """Have one reader look some times while ``work`` changes the store.

    The reader is opened before or meanwhile, and looks until the writer has ended, and once more.

    Args:
        root: the store.
        plugins: the reader's.
        work: changes the store, with the disk that it is given.
        check: called with the reader.
        seed: decides who does the next operation.
        looks: how many looks at most.
        options: of the reader's opening.
    """
    chance = random.Random(seed)
    writer = Writer(work)
    disk = ReaderDisk()
    rate = 0.0

    def before() -> None:
        if rate and chance.random() < rate:
            writer.advance(chance.choice(_STEPS))

    disk.before = before
    try:
        writer.advance(chance.randrange(80) if chance.random() < 0.5 else 0)
        rate = chance.choice((0.0, 0.0, *_RATES))
        with reput.open(root, "r", plugins=plugins, disk=disk, **options) as reader:
            for _ in range(looks):
                rate = chance.choice(_RATES)
                check(reader)
                if writer.has_ended:
                    break
            rate = 0.0
            writer.end()
            check(reader)
    except BaseException as error:
        error.add_note(f"seed {seed}, the writer's last operations: {writer.operations[-12:]}")
        raise
    finally:
        writer.end()
