"""Killed consumers: nothing is lost, what was committed stays, and order is kept across lives."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, ClassVar

import groupwriter
import pytest
from groupstores import CONFIG, PLUGINS

import reput
from reput_consumer import ConsumerPlugin
from reput_testing import (
    FaultyDisk,
    KillContract,
    KillPoints,
    ManualClock,
    QuickDisk,
)
from reput_testing.casebudget import is_soak
from reput_testing.crashes.killloop import kill_count

pytestmark = [pytest.mark.proof, pytest.mark.shows("killed-group")]


class TestContract(KillContract):
    """Another process lists the groups while the plugin's one is killed."""

    plugin_name = "consumer"
    beside: ClassVar = ("consumequeue",)
    kills = 3

    def state(self, plugin: Any) -> object:
        return plugin.groups()


# ------------------------------------------------------------------ processes that die anywhere


class Lives:
    """Processes that put and consume one store, one after the other, and what they have told."""

    def __init__(self, directory: Path, mode: str) -> None:
        self.store = directory / "store"
        self.mode = mode
        self.epoch = time.time()
        self.put: set[int] = set()
        self.done: dict[tuple[str, int], list[int]] = defaultdict(list)
        """Queue offsets that were finished, by topic and queue id, in that order."""
        self.bodies: set[int] = set()
        """Of all that was finished."""
        self.committed: dict[tuple[str, int], int] = {}
        """What the group had committed when the last process died."""
        self.retrying: dict[tuple[str, int], int] = {}
        """Queue offset of the message that holds up a queue."""

    def live(self, first: int, lines: int | None) -> None:
        """Let a process live until it has told ``lines``; to its own end if that is None."""
        mode = f"last {self.mode}" if lines is None else self.mode
        words = [groupwriter.__file__, str(self.store), mode, str(first), str(self.epoch)]
        words += map(str, self.put - self.bodies if lines is None else ())
        self.retrying.clear()
        with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as life:
            assert life.stdout is not None
            for number, line in enumerate(life.stdout):
                self.hear(*line.split())
                if number == lines:
                    life.send_signal(signal.SIGKILL)
        assert life.returncode == (0 if lines is None else -signal.SIGKILL)
        self.look()

    def hear(self, word: str, *rest: str) -> None:
        if word == "put":
            self.put.add(int(rest[0]))
        elif word != "saved":
            topic, queue_id, queue_offset, body = rest[0], *map(int, rest[1:])
            key = topic, queue_id
            assert queue_offset >= self.committed.get(key, 0), "committed, and came again"
            if self.mode == "ordered":
                self.check_order(key, queue_offset)
            if word == "done":
                self.done[key].append(queue_offset)
                self.bodies.add(body)
                self.retrying.pop(key, None)
            else:
                self.retrying[key] = queue_offset

    def check_order(self, key: tuple[str, int], queue_offset: int) -> None:
        """Every earlier message of the queue was finished, in this life or another one."""
        assert queue_offset <= max(self.done[key], default=-1) + 1
        assert self.retrying.get(key, queue_offset) == queue_offset

    def look(self) -> None:
        """Read, beside nobody, what the group has committed."""
        with reput.open(self.store, mode="r") as store:
            for each in store.plugin(ConsumerPlugin).progress("g").queues:
                key = each.topic, each.queue_id
                assert each.offset >= self.committed.get(key, 0)
                assert each.offset <= each.max_offset
                finished = set(self.done[key])
                if self.mode == "ordered":
                    assert finished.issuperset(range(each.offset))
                self.committed[key] = each.offset


@pytest.mark.parametrize("mode", ["concurrent", "ordered"])
@pytest.mark.costly
def test_consumers_that_are_killed_anywhere_lose_nothing_and_keep_what_they_committed(
    tmp_path, mode
):
    lives, chance = Lives(tmp_path, mode), random.Random(16)

    count = kill_count(3)
    for number in range(count):
        lives.live(number * groupwriter.PUT_COUNT, chance.randrange(20, 350))
    lives.live(0, None)

    assert lives.put
    assert lives.bodies >= lives.put  # those whose acknowledgment was cut off may be there, too
    retried = lives.done["%RETRY%g", 0]
    assert bool(retried) == (mode == "concurrent")


# ------------------------------------------------------------------ between any two operations


class Story:
    """A group that finishes, fails and gives up messages, step by step."""

    def __init__(self) -> None:
        self.put: set[str] = set()
        self.finished: set[str] = set()
        self.committed: set[str] = set()
        """Finished, and committed durably."""
        self.given_up: set[str] = set()

    def note(self) -> dict[str, set[str]]:
        """What was acknowledged by now."""
        return {name: set(value) for name, value in vars(self).items()}

    def tell(self, store: reput.Store, clock: ManualClock, *, ordered: bool) -> None:
        """Put, consume, fail, commit."""
        options = {"start": "earliest", "idle": 0, "explicit": True, "ordered": ordered}
        with store.consumer("g", "orders", **options) as consumer:
            for number in range(8):
                body = str(number)
                store.put(reput.Message("orders", body.encode()))
                self.put.add(body)
                store.wait_dispatched()
                store.work()
                message = consumer.next(0)
                if number == 3 and not ordered:
                    message.retry(1)
                elif number == 5:
                    message.retry(-1)
                    self.given_up.add(message.body.decode())
                else:
                    message.ack()
                    self.finished.add(message.body.decode())
                if number % 3 == 2:
                    consumer.commit(durable=True)
                    self.committed |= self.finished
                clock.now += 700


def opened(root: Path, disk: Any, clock: ManualClock) -> reput.Store:
    options = {"plugins": PLUGINS, "config": CONFIG, "threads": False}
    return reput.open(root, disk=disk, clock=clock, **options)


def check(root: Path, note: dict[str, set[str]], *, ordered: bool) -> None:
    """Consume what a killed process has left."""
    clock = ManualClock()
    clock.now += 3_600_000
    received = []
    with opened(root, QuickDisk(), clock) as store:
        store.wait_dispatched()
        with store.consumer("g", "orders", start="earliest", idle=0, ordered=ordered) as consumer:
            for _ in range(3):
                store.work()
                received += [message.body.decode() for message in consumer]
                clock.now += 10_000
        store.work()
        dead = {bytes(each.body).decode() for each in store.read("%DLQ%g", 0, 0)}
    handled = note["finished"] | note["given_up"]
    assert note["put"] - handled <= {*received, *dead}, "lost"
    assert not note["committed"] & set(received), "committed, and came again"
    assert note["given_up"] <= dead
    if ordered:
        # What was put without being acknowledged may follow.
        assert received == sorted(received)
        assert len(received) == len(set(received))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.costly
def test_a_kill_between_any_two_file_operations_loses_nothing(tmp_path, ordered, record_property):
    root = tmp_path / "store"
    root.mkdir()
    story, clock = Story(), ManualClock()
    disk = KillPoints(root, tmp_path / "killed", story.note)

    with disk.watching(), opened(root, disk, clock) as store:
        story.tell(store, clock, ordered=ordered)

    count = disk.check_each(lambda path, point: check(path, point.note, ordered=ordered), 40)
    assert story.committed
    record_property("kill points", count)


class Beginning:
    """A group that begins at the end, and is handed messages that it does not finish."""

    def __init__(self) -> None:
        self.handed_out: list[str] = []
        self.finished: list[str] = []

    def note(self) -> list[str]:
        """What the group has to get again."""
        return [each for each in self.handed_out if each not in self.finished]

    def tell(self, store: reput.Store, clock: ManualClock) -> None:
        """Begin at the end of one queue, and at the beginning of one that comes later."""
        put_all(store, 0, "before 1", "before 2")
        with store.consumer("g", "orders", start="latest", idle=0, explicit=True) as consumer:
            put_all(store, 0, "1", "2", "3")
            put_all(store, 1, "4", "5")
            for number in range(5):
                message = consumer.next(0)
                self.handed_out.append(message.body.decode())
                if number == 1:
                    message.ack()
                    self.finished.append(message.body.decode())
                clock.now += 2_000
                store.work()


def put_all(store: reput.Store, queue_id: int, *bodies: str) -> None:
    for body in bodies:
        store.put(reput.Message("orders", body.encode(), queue_id))
    store.wait_dispatched()
    store.work()


@pytest.mark.costly
def test_a_new_group_that_is_killed_anywhere_gets_again_what_it_had_not_finished(tmp_path):
    root = tmp_path / "store"
    root.mkdir()
    story, clock = Beginning(), ManualClock()
    disk = KillPoints(root, tmp_path / "killed", story.note)

    with disk.watching(), opened(root, disk, clock) as store:
        story.tell(store, clock)
    assert len(story.handed_out) == 5

    def check_beginning(path: Path, note: list[str]) -> None:
        with opened(path, QuickDisk(), ManualClock()) as store:
            store.wait_dispatched()
            with store.consumer("g", "orders", start="latest", idle=0) as consumer:
                received = [message.body.decode() for message in consumer]
        assert set(note) <= set(received), "lost"
        assert not {"before 1", "before 2"} & set(received)

    count = disk.check_each(lambda path, point: check_beginning(path, point.note), 40)
    assert count


# ------------------------------------------------------------------ disks that fail


def test_a_durable_commit_is_in_the_file_or_an_error(tmp_path):
    failed = at = 0
    while True:
        at += 1 if is_soak() else 3
        root, clock, disk = tmp_path / f"{at}", ManualClock(), FaultyDisk()
        with opened(root, disk, clock) as store:
            for number in range(4):
                store.put(reput.Message("orders", b"%d" % number))
            store.wait_dispatched()
            consumer = store.consumer("g", "orders", start="earliest", idle=0)
            assert len(list(consumer)) == 4
            disk.plan(at, below="config")
            try:
                consumer.commit(durable=True)
                is_saved = True
            except OSError:
                is_saved = False
            disk.plan(None)
            copy = offset_in(root)
        failed += not is_saved
        assert copy == 4 if is_saved else copy in (None, 0, 4)
        if is_saved:
            break
    assert failed


def offset_in(root: Path) -> int | None:
    """What the file says now, as another process reads it."""
    with reput.open(root, mode="r", threads=False) as store:
        queues = store.plugin(ConsumerPlugin).progress("g").queues
    return next((each.offset for each in queues if each.topic == "orders"), None)
