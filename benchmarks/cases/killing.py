"""Opening after a kill: bytes read and time taken, for stores of 1, 4 and 16 files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.case import Case, body_name
from benchmarks.dying import write_and_die
from benchmarks.stores import open_store
from benchmarks.tables import OPEN_AFTER_KILL
from benchmarks.trial import Latencies, Trial
from benchmarks.workload import BATCH, Workload
from reput import CommitLogConfig
from reput.files import Disk

_BODY = 1024
_RECORD = 1210  # bytes, rounded up
_FILE_SIZE = 64 << 20
_TAIL_SIZE = 32 << 20  # written after the last flush


def cases() -> Iterator[Case]:
    """One store of each size."""
    for file_count in (1, 4, 16):
        yield Case(
            name=f"open-after-kill.{body_name(_BODY)}.{file_count}-files",
            table=OPEN_AFTER_KILL,
            run=partial(open_after_kill, file_count=file_count),
            body_size=_BODY,
        )


class _CountingDisk(Disk):
    """A disk that counts the bytes read of the commit log."""

    def __init__(self) -> None:
        self.read_size = 0
        self._of_log: set[int] = set()

    def open(
        self, path: str, *, write: bool = False, create: bool = False, fresh: bool = False
    ) -> int:
        descriptor = super().open(path, write=write, create=create, fresh=fresh)
        if f"{os.sep}commitlog{os.sep}" in path:
            self._of_log.add(descriptor)
        else:
            self._of_log.discard(descriptor)
        return descriptor

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        data = super().read(descriptor, size, position)
        self.read_size += len(data) if descriptor in self._of_log else 0
        return data

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        count = super().read_into(descriptor, buffer, position)
        self.read_size += count if descriptor in self._of_log else 0
        return count


def open_after_kill(trial: Trial, *, file_count: int) -> None:
    """Open a store that was flushed, written for about one more second, and then killed."""
    file_size = max(int(_FILE_SIZE * min(trial.scale, 1)), 1 << 20)
    tail_size = max(int(_TAIL_SIZE * min(trial.scale, 1)), 1 << 19)
    store_path = trial.directory / "store"
    # With the tail, the last file is three quarters full, and all of the tail is in it.
    count = (file_size * file_count - file_size // 4 - tail_size) // _RECORD // BATCH * BATCH
    more = tail_size // _RECORD
    write_and_die(partial(_write, store_path, file_size, max(count, BATCH), more))
    trial.warm_up()
    disk = _CountingDisk()
    label = "1 file" if file_count == 1 else f"{file_count} files"
    with trial.timed(label, 1, unit="opens", baseline=file_count == 1) as measured:
        began = time.perf_counter_ns()
        store = open_store(store_path, disk=disk)
        read_size = disk.read_size
        measured.latencies = Latencies.of("open", [time.perf_counter_ns() - began])
    with store:
        store.wait_dispatched()
        found = sum(queue.message_count for queue in store.queues())
        size = store.log.max_physical_offset - store.log.min_physical_offset
        measured.facts["log"] = f"{size / 1e6:,.0f} MB in {store.log.file_count} file(s)"
        measured.facts["after the last flush"] = f"{_tail_of(store) / 1e6:,.0f} MB"
        measured.facts["read"] = f"{read_size / 1e6:,.1f} MB"
    trial.require(found == max(count, BATCH) + more, f"{found} messages are there")


def _tail_of(store: Any) -> int:
    recovery = store.recovery
    return int(recovery.end_offset - recovery.start_offset)


def _write(path: Path, file_size: int, count: int, more: int) -> None:
    """Put ``count`` messages, flush, and put ``more``, into a store that stays open."""
    work = Workload(_BODY)
    never = 3_600_000
    CommitLogConfig.plugin_flush_interval_ms = never  # in this process, which is killed
    log = {"file_size": file_size, "flush_interval_ms": never}
    store = open_store(path, config={"commitlog": log})
    for first in range(0, count, BATCH):
        store.put_many(work.columns(first, BATCH))
    store.wait_dispatched()
    store.flush()
    for first in range(count, count + more, BATCH):
        store.put_many(work.columns(first, min(BATCH, count + more - first)))
