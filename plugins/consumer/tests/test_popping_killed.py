"""Kills and power cuts while messages are out: none is lost, and no floor is ever ahead."""

from __future__ import annotations

import itertools
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import popwriter
import pytest
from groupstores import CONFIG

import reput
from reput_consumer import ConsumerPlugin
from reput_consumer.metadata.subscriptiongroups import GroupSettings
from reput_testing import KillPoints, ManualClock, QuickDisk, SimulatedDisk
from reput_testing.casebudget import is_soak, part
from reput_testing.crashes.killloop import kill_count

pytestmark = pytest.mark.proof
PLUGINS = ("consumequeue", "consumer")
RETRY = "%RETRY%g_orders"


class Story:
    """A group that acknowledges, refuses, lets expire and gives up, step by step."""

    def __init__(self) -> None:
        self.put: set[str] = set()
        self.acknowledged: set[str] = set()
        self.saved: set[str] = set()
        """Acknowledged below floors that were saved durably."""
        self.dead: set[str] = set()

    def note(self) -> dict[str, set[str]]:
        return {name: set(value) for name, value in vars(self).items()}

    def tell(self, store: reput.Store, clock: ManualClock, *, ordered: bool = False) -> None:
        plugin = store.plugin(ConsumerPlugin)
        settings = GroupSettings(group="g", retry_max_times=1, consume_message_orderly=ordered)
        plugin.subscription_groups.put(settings)
        with store.pop_consumer("g", "orders", start="earliest", invisible=10) as consumer:
            for number in range(17):
                store.put(reput.Message("orders", b"%d" % number, number % 2))
                store.flush()
                self.put.add(str(number))
                store.wait_dispatched()
                for message in consumer.receive(8, 0):
                    body = message.body.decode()
                    if body in ("3", "7"):
                        continue  # expires, twice, and is dead
                    if body == "5" and message.attempt_count == 1:
                        message.retry()
                    elif message.ack():
                        self.acknowledged.add(body)
                clock.now += 4_000
                store.work()
                store.wait_dispatched()
                if number % 3 == 2:
                    plugin.port.save()
                    self.saved |= self.below_floors(store, plugin)
            self.dead |= {bytes(each.body).decode() for each in store.read("%DLQ%g", 0, 0)}

    @staticmethod
    def below_floors(store: reput.Store, plugin: ConsumerPlugin) -> set[str]:
        """Bodies of original messages that do not come any more, in whatever topic they are."""
        floors = plugin.offsets().get("g", {})
        open_, seen = set(), set()
        for topic, queue in (("orders", 0), ("orders", 1), (RETRY, 0)):
            for view in store.read(topic, queue, 0, 100):
                body = view.body.decode()
                seen.add(body)
                if view.queue_offset >= floors.get((topic, queue), 0):
                    open_.add(body)
        return seen - open_


def opened(root, disk, clock):
    options = {"plugins": PLUGINS, "config": CONFIG, "threads": False}
    return reput.open(root, disk=disk, clock=clock, **options)


def check(root: Path, note: dict[str, set[str]]) -> None:
    """Pop what is left, and acknowledge it."""
    clock, received = ManualClock(), []
    clock.now += 3_600_000
    if not (root / "commitlog").is_dir():
        assert not note["put"]
        return
    with opened(root, QuickDisk(), clock) as store:
        store.wait_dispatched()
        plugin = store.plugin(ConsumerPlugin)
        for (topic, queue), floor in plugin.offsets().get("g", {}).items():
            assert floor <= store.read(topic, queue, (1 << 62) - 1).max_queue_offset
        with store.pop_consumer("g", "orders", start="earliest") as consumer:
            while found := consumer.receive(32, 0):
                received += [message.body.decode() for message in found]
                for message in found:
                    assert message.ack()
                store.work()
                store.wait_dispatched()
        dead = {bytes(each.body).decode() for each in store.read("%DLQ%g", 0, 0)}
        assert plugin.progress("g").lag == 0
    assert note["put"] - note["acknowledged"] <= {*received, *dead}, "lost"
    assert not (note["saved"] - note["dead"]) & set(received), "its floor was on disk"


@pytest.mark.costly
def test_a_kill_between_any_two_file_operations_loses_nothing(tmp_path, record_property):
    root = tmp_path / "store"
    root.mkdir()
    story, clock = Story(), ManualClock()
    disk = KillPoints(root, tmp_path / "killed", story.note)

    with disk.watching(), opened(root, disk, clock) as store:
        story.tell(store, clock)

    count = disk.check_each(lambda path, point: check(path, point.note), 40)
    assert story.dead == {"3", "7"}
    assert story.saved
    record_property("kill points", count)


@pytest.mark.parametrize("ordered", [False, True])
def test_after_a_power_cut_at_any_operation_nothing_that_was_flushed_is_lost(tmp_path, ordered):
    root = tmp_path / "disk"
    root.mkdir()
    story, clock = Story(), ManualClock()
    disk = SimulatedDisk(root, story.note)

    with opened(root / "store", disk, clock) as store:
        story.tell(store, clock, ordered=ordered)

    points = [*disk.points, disk.now()]
    for number, point in enumerate(part(points if is_soak() else points[::11])):
        states = point.states() if is_soak() else itertools.islice(point.states(), 2)
        for other, state in enumerate(states):  # nothing lost, everything lost
            path = tmp_path / f"cut {number} {other}"
            state.materialize(path)
            check(path / "store", point.note)
            shutil.rmtree(path)


class Lives:
    """Processes that pop one store, one after the other, and what they have told."""

    def __init__(self, directory: Path, mode: str) -> None:
        self.store, self.mode = directory / "store", mode
        self.acknowledged: set[str] = set()
        self.refused: set[tuple[str, int]] = set()
        """Bodies, and at which attempt."""
        self.floors: dict[tuple[str, int], int] = {}
        self.out: set[tuple[str, int, int]] = set()
        """Places of messages that are out in this life."""
        self.last: dict[tuple[str, int], int] = {}

    def live(self, lines: int | None) -> int:
        """Let a process live until it has told ``lines``; return how many were out at its end."""
        mode = f"last {self.mode}" if lines is None else self.mode
        words = [popwriter.__file__, str(self.store), mode]
        self.out, self.last = set(), {}
        with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as life:
            assert life.stdout is not None
            for number, line in enumerate(life.stdout):
                self.hear(*line.split())
                if number == lines:
                    life.send_signal(signal.SIGKILL)
        assert life.returncode == (0 if lines is None else -signal.SIGKILL)
        self.look()
        return len(self.out)

    def hear(self, word: str, *rest: str) -> None:
        if word == "saved":
            return
        topic, queue, offset, body, attempt = rest
        place = topic, int(queue), int(offset)
        if word == "got":
            assert place[2] >= self.floors.get(place[:2], 0), "its floor was on disk"
            assert place not in self.out, "handed out twice"
            if self.mode == "ordered":
                assert self.last.get(place[:2], place[2] - 1) == place[2] - 1, "out of order"
                self.last[place[:2]] = place[2]
            if topic == RETRY:
                assert (body, int(attempt) - 1) in self.refused
            else:
                assert attempt == "1"
            self.out.add(place)
        else:
            self.out.discard(place)
            if word == "ack":
                self.acknowledged.add(body)
            else:
                self.refused.add((body, int(attempt)))

    def look(self) -> None:
        """Read, beside nobody, what the group has committed and what came back."""
        with reput.open(self.store, mode="r") as store:
            found = store.plugin(ConsumerPlugin).offsets().get("g", {})
            for key, floor in found.items():
                assert floor >= self.floors.get(key, 0)
            self.floors = found
            for view in store.read(RETRY, 0, 0, 100_000):
                assert (view.body.decode(), view.reconsume_times) in self.refused


@pytest.mark.parametrize("mode", ["concurrent", "ordered"])
@pytest.mark.costly
def test_processes_that_are_killed_with_1000_messages_out_lose_none(tmp_path, mode):
    lives, chance, count = Lives(tmp_path, mode), random.Random(30), 8_000
    with reput.open(lives.store, plugins=PLUGINS) as store:
        store.put_many(
            [reput.Message("orders", b"%d" % n, n % popwriter.QUEUES) for n in range(count)]
        )

    out = [lives.live(chance.randrange(1_300, 3_000)) for _ in range(kill_count(3))]
    lives.live(None)

    assert mode == "ordered" or max(out) >= 1_000
    assert lives.acknowledged == {str(number) for number in range(count)}
