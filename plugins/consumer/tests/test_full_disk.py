"""A disk that is full for some operations, then has space: groups go on, and lose no message."""

from __future__ import annotations

import contextlib

import pytest
from groupstores import Steps, bodies

from reput.errors import ReputError
from reput_consumer import PopRequest
from reput_consumer.group.membersettings import Start
from reput_testing import FaultyDisk
from reput_testing.casebudget import is_soak, part
from reput_testing.crashes.faultsweep import no_pauses
from reput_testing.disks.failingdisk import CHANGING

pytestmark = pytest.mark.proof

WRITING = CHANGING - {"flush", "flush_directory", "remove"}
"""Operations that find a disk full, and lose nothing then."""
EVERY = 1 if is_soak() else 5
COUNTS = (1, 3, 40)
"""Operations for which the disk is full."""
POPPED = PopRequest(
    group="popping", topic="orders", max_count=3, invisible_ms=10_000, start=Start("earliest")
)


def tried(call):
    """Return what a call returns, or None: a program that gets the error goes on."""
    with contextlib.suppress(ReputError, OSError):
        return call()
    return None


class Life:
    """A store whose messages two groups consume, one of them by pop."""

    def __init__(self, root, disk):
        self.at, self.disk = Steps(root), disk
        self.put = set()
        """Messages that are acknowledged to their producer."""
        self.seen = {"pulling": set(), "popping": set()}
        """By group, the messages that it has acknowledged."""

    def live(self):
        while tried(lambda: self.at.open(disk=self.disk)) is None:
            pass
        for number in range(4):
            tried(lambda number=number: self.some(f"{number}"))
            tried(self.pull)
            tried(self.pop)
            tried(lambda: self.at.work_for(11_000))
            tried(self.at.store.flush)

    def some(self, name):
        for body in (f"{name}a", f"{name}b", f"{name}c", f"{name}d"):
            if tried(lambda body=body: self.at.put(body)) is None and self.is_there(body):
                self.put.add(body)

    def is_there(self, body):
        return any(body == found for found in bodies(self.at.read("orders")))

    def pull(self):
        with self.at.consumer("pulling", explicit=True) as consumer:
            for number, message in enumerate(consumer):
                if number % 3 == 1:
                    message.retry(1)
                else:
                    message.ack()
                    self.seen["pulling"].add(message.body.decode())
            consumer.commit(durable=True)

    def pop(self):
        popper = self.at.plugin.popper
        for number, each in enumerate(popper.pop(POPPED)):
            if number % 3 == 1:
                popper.give_back("popping", "orders", [each.handle])
            elif popper.ack("popping", "orders", each.handle):
                self.seen["popping"].add(each.view.body.decode())

    def drain(self):
        for _ in range(40):
            self.pull()
            self.pop()
            self.at.work_for(11_000)
            self.at.store.wait_dispatched()


@pytest.mark.shows("full-disk")
def test_groups_go_on_after_a_full_disk(tmp_path, record_property):
    disk = FaultyDisk(operations=WRITING)
    with no_pauses():
        Life(tmp_path / "counted", disk).live()
    numbers = part(range(1, len(disk.calls), EVERY))
    assert len(disk.calls) > 100

    for number in numbers:
        disk = FaultyDisk(number, count=COUNTS[number % len(COUNTS)], operations=WRITING)
        life = Life(tmp_path / str(number), disk)
        with no_pauses():
            life.live()
            disk.mend()
            life.at.store._parts.writing().members.tick()
            assert life.at.store.wait_dispatched(60), number
            life.some("after")
            life.at.store.flush()
            states = {each.name: (each.state, each.last_error) for each in life.at.store.plugins()}
            assert {state for state, _ in states.values()} == {"running"}, (number, states)
            life.at.reopen()
            life.drain()
        assert {"aftera", "afterd"} <= life.put
        for group, seen in life.seen.items():
            assert life.put <= seen, (number, group, disk.calls[number - 1 : number])
            progress = life.at.plugin.progress(group)
            assert progress.lag == 0, (number, group, progress)
        life.at.store.close()

    record_property("full disks", len(numbers))
