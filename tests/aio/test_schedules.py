"""Random schedules of puts, waits, cancels, failing disks, closing, kills and power cuts."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import tempfile
import threading
from pathlib import Path

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import reput
from reput import Durability, Message
from reput.errors import ServiceNotAvailableError, StoreClosedError
from reput_testing import QuickDisk, SimulatedDisk, kill
from reput_testing.casebudget import is_soak

_HOUR_MS = 3_600_000  # no wait ends by its time, also on a machine that stands still for seconds
SYNC = {
    "commitlog": {
        "flush": "sync",
        "file_size": 65_536,
        "flush_interval_ms": _HOUR_MS,
        "flush_timeout_ms": _HOUR_MS,
    }
}
STEPS = st.lists(
    st.sampled_from(
        ["put", "put", "put", "plain", "many", "await", "cancel", "turn", "turn", "shut", "open"]
    ),
    max_size=25,
)
ENDS = st.sampled_from(["close", "plain close", "fail", "kill", "close while shut"])


class Disk(SimulatedDisk):
    """A simulated disk whose flushes of the log can be held back, and can fail."""

    def __init__(self, directory, note) -> None:
        super().__init__(directory, note)
        self.gate = threading.Event()
        self.gate.set()
        self.is_broken = False

    def flush(self, descriptor: int) -> None:
        if "commitlog" in os.readlink(f"/proc/self/fd/{descriptor}"):
            self.gate.wait()
            if self.is_broken:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().flush(descriptor)


@attrs.define(eq=False)
class Schedule:
    """One run, and what its coroutines were told."""

    store: reput.Store
    wrapped: reput.aio.AsyncStore
    disk: Disk
    durable: list[int]
    """Numbers of the messages that are known to be on disk."""
    numbers: itertools.count = attrs.field(factory=itertools.count)
    tasks: list[asyncio.Task] = attrs.field(factory=list)
    receipts: list = attrs.field(factory=list)

    def message(self) -> tuple[int, Message]:
        number = next(self.numbers)
        return number, Message("orders", b"%d" % number)

    async def put(self) -> None:
        number, message = self.message()
        receipt = await self.wrapped.put(message)
        assert receipt.durability is Durability.DURABLE
        self.durable.append(number)

    async def many(self) -> None:
        numbers, messages = zip(*(self.message() for _ in range(3)), strict=True)
        await self.wrapped.put_many(messages)
        self.durable.extend(numbers)

    async def await_(self, number, receipt) -> None:
        assert await receipt is Durability.DURABLE
        self.durable.append(number)

    async def take(self, step: str, index: int) -> None:
        if step in ("put", "many"):
            self.tasks.append(asyncio.create_task(getattr(self, step)()))
        elif step == "plain":
            number, message = self.message()
            self.receipts.append((number, self.store.put(message, wait=False)))
        elif step == "await" and self.receipts:
            chosen = self.receipts[index % len(self.receipts)]
            self.tasks.append(asyncio.create_task(self.await_(*chosen)))
        elif step == "cancel" and self.tasks:
            self.tasks[index % len(self.tasks)].cancel()
        elif step == "turn":
            await asyncio.sleep(0)
        elif step == "shut":
            self.disk.gate.clear()
        elif step == "open":
            self.disk.gate.set()

    async def end(self, how: str) -> None:
        """End the store; afterwards no task waits for ever."""
        loop = asyncio.get_running_loop()
        if how == "fail":
            self.disk.is_broken = True
        elif how == "kill":
            self.disk.gate.set()
            await loop.run_in_executor(None, kill, self.store)
        elif how == "plain close":
            self.disk.gate.set()
            await loop.run_in_executor(None, self.store.close)
        elif how == "close while shut":
            self.disk.gate.clear()
            closing = asyncio.create_task(self.wrapped.close())
            await asyncio.sleep(0)
            self.disk.gate.set()
            await closing
        self.disk.gate.set()
        if self.tasks:
            _, waiting = await asyncio.wait(self.tasks, timeout=300)
            assert not waiting
        for each in self.tasks:
            error = None if each.cancelled() else each.exception()
            assert error is None or type(error) in (ServiceNotAvailableError, StoreClosedError)
        assert not self.wrapped._loops or not self.wrapped._loops[loop].flushes._waiting
        await self.wrapped.close()


@pytest.mark.timeout(3_600)
@settings(max_examples=10_000 if is_soak() else 60, deadline=None)
@given(STEPS, st.integers(0, 1000), ENDS, st.integers(0, 1000))
@pytest.mark.costly
def test_no_wait_lasts_for_ever_and_what_is_called_durable_survives_a_power_cut(
    steps, index, how, seed
):
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as top:
        durable: list[int] = []
        root = Path(top, "disk")
        root.mkdir()
        disk = Disk(root, lambda: tuple(durable))
        store = reput.open(root / "store", plugins=[], config=SYNC, disk=disk)

        async def main():
            wrapped = reput.aio.wrap(store)
            schedule = Schedule(store, wrapped, disk, durable)
            for number, step in enumerate(steps):
                await schedule.take(step, index + number)
            await schedule.end(how)

        asyncio.run(main())
        try:
            store.close()
        except ServiceNotAvailableError:
            assert how == "fail"
        last = len(disk.points) - 1
        for number in {seed % (last + 1), max(last - 1, 0), last}:
            point = disk.points[number]
            promised = set(durable if number == last else point.note)
            # Nothing is lost, and everything that may be lost.
            for state in itertools.islice(point.states(most=1, random_count=0), 2):
                found = messages_after(state, Path(top, f"cut {number} {state.id}"))
                assert promised <= set(found)
                assert len(found) == len(set(found))


def messages_after(state, directory):
    """Numbers of the messages that a store has after a power cut."""
    state.materialize(directory)
    if not (directory / "store" / "commitlog").exists():
        return []
    with reput.open(directory / "store", plugins=[], disk=QuickDisk()) as store:
        return [int(batch.message(row).body) for batch in store.scan() for row in range(len(batch))]
