"""Offsets never reach the disk before the messages that they count; a power cut shows it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from groupstores import PLUGINS, bodies

import reput
from reput_consumer import Consumer
from reput_testing import ManualClock, SimulatedDisk

pytestmark = pytest.mark.shows("group-offsets")

CONFIG = {"commitlog": {"file_size": 1 << 16}}
FIRST, LATER = 5, 10


class BusyDisk(SimulatedDisk):
    """A disk on which something happens once, just after a file was flushed."""

    place: str = "commitlog/"
    meanwhile: Callable[[], None] | None = None

    def flush(self, descriptor: int) -> None:
        super().flush(descriptor)
        if self.meanwhile is not None and self.place in self._short_of(descriptor):
            call, self.meanwhile = self.meanwhile, None
            call()


def opened(path, disk=None) -> reput.Store:
    return reput.open(
        path, disk=disk, plugins=PLUGINS, config=CONFIG, clock=ManualClock(), threads=False
    )


def put(store: reput.Store, first: int, count: int) -> None:
    store.put_many([reput.Message("orders", b"%d" % (first + each)) for each in range(count)])
    store.wait_dispatched()


def numbers(first: int, count: int) -> list[str]:
    return [str(first + each) for each in range(count)]


def cut(disk: SimulatedDisk, path: Path) -> None:
    """Cut the power: all is lost that was not flushed."""
    _, everything_lost, *_ = disk.crash_states(most=0, random_count=0)
    everything_lost.materialize(path)


def consume(consumer: Consumer) -> list[str]:
    found = bodies(consumer)
    consumer.commit()
    return found


def test_what_is_committed_while_the_log_is_flushed_is_not_saved_before_its_messages(tmp_path):
    root = tmp_path / "disk"
    root.mkdir()
    disk = BusyDisk(root)
    with opened(root / "store", disk) as store:
        put(store, 0, 1)
        with store.consumer("g", "orders", start="earliest", idle=0) as consumer:
            put(store, 1, FIRST - 1)
            assert len(consume(consumer)) == FIRST

            def meanwhile() -> None:
                put(store, FIRST, LATER)
                assert len(consume(consumer)) == LATER

            disk.meanwhile = meanwhile
            consumer.commit(durable=True)
            assert disk.meanwhile is None
            cut(disk, tmp_path / "cut")

    with opened(tmp_path / "cut" / "store") as store:
        store.wait_dispatched()
        assert bodies(store.read("orders", 0, 0)) == numbers(0, FIRST)
        put(store, FIRST, LATER)
        with store.consumer("g", "orders", start="earliest", idle=0) as consumer:
            assert bodies(consumer) == numbers(FIRST, LATER)


def test_a_durable_commit_waits_for_a_save_that_has_taken_its_offsets(tmp_path):
    root = tmp_path / "disk"
    root.mkdir()
    disk = BusyDisk(root)
    with opened(root / "store", disk) as store:
        put(store, 0, FIRST)
        with store.consumer("g", "orders", start="earliest", idle=0) as consumer:
            assert len(consume(consumer)) == FIRST
            saved: list[bool] = []

            def commit() -> None:
                consumer.commit(durable=True)
                saved.append((root / "store" / "config" / "consumerOffset.json").exists())

            def meanwhile() -> None:
                other.start()
                other.join(0.2)  # one that does not wait is back by then

            other = threading.Thread(target=commit)
            disk.place, disk.meanwhile = "config/consumerOffset.json.new", meanwhile
            consumer.commit(durable=True)
            other.join()

    assert saved == [True]


def test_the_offsets_of_a_broadcasting_consumer_are_not_saved_before_their_messages(tmp_path):
    root = tmp_path / "disk"
    root.mkdir()
    disk = SimulatedDisk(root)
    options = {"start": "earliest", "idle": 0, "broadcast": True, "name": "a"}
    with opened(root / "store", disk) as store:
        put(store, 0, 1)
        with store.consumer("g", "orders", **options) as consumer:
            put(store, 1, FIRST - 1)
            assert len(consume(consumer)) == FIRST
            cut(disk, tmp_path / "cut")

    with opened(tmp_path / "cut" / "store") as store:
        store.wait_dispatched()
        assert bodies(store.read("orders", 0, 0)) == numbers(0, FIRST)
        put(store, FIRST, LATER)
        with store.consumer("g", "orders", **options) as consumer:
            assert bodies(consumer) == numbers(FIRST, LATER)
