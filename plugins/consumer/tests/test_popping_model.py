"""Any order of requests, acknowledgements, refusals, expiries and restarts, against a model."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest
from groupstores import FailedError, Failures, Steps
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from reput_consumer import PopRequest
from reput_consumer.group.membersettings import Start
from reput_consumer.metadata.subscriptiongroups import GroupSettings
from reput_testing.casebudget import is_soak

_QUEUES = 2
_INVISIBLE_MS = 10_000


@attrs.define
class Held:
    """What a consumer was handed, and thinks it has."""

    body: str
    handle: Any
    until: int


class Popping(RuleBasedStateMachine):
    """Messages are numbers; the model knows which are acknowledged, and until when others are out.

    * A message is never handed out while another consumer has it and is in time.
    * A message that was acknowledged in time never comes again, but after a restart that forgot it.
    * After a restart a message may be there twice: itself above a floor, and its retry. Each copy
      comes once; neither is a mistake.
    * No message is lost: at the end all come.
    """

    is_ordered = False
    retry_max_times = 1_000_000

    @initialize()
    def open(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.at = Steps(self.root / "store", ("consumequeue", "consumer"))
        self.at.open()
        self.at.plugin.subscription_groups.put(
            GroupSettings(
                group="g",
                consume_message_orderly=self.is_ordered,
                retry_max_times=self.retry_max_times,
            )
        )
        self.next = 0
        self.open_: set[str] = set()
        """Put, and not acknowledged."""
        self.acknowledged: set[str] = set()
        """Acknowledged in this life of the store, or with a floor beyond them."""
        self.held: list[Held] = []
        self.attempts: dict[str, int] = {}
        self.doubled: set[str] = set()
        """There twice since a restart."""

    def teardown(self) -> None:
        if hasattr(self, "at"):
            self.drain()
            self.at.store.close()
            shutil.rmtree(self.root)

    def request(self, count: int, attempt: str = "") -> PopRequest:
        return PopRequest(
            group="g",
            topic="orders",
            max_count=count,
            invisible_ms=_INVISIBLE_MS,
            start=Start("earliest"),
            attempt=attempt,
        )

    def out(self) -> set[str]:
        """What others have, and are in time."""
        now = self.at.clock.now
        return {each.body for each in self.held if each.until > now}

    # ------------------------------------------------------------------ rules

    @rule(queue=st.integers(0, _QUEUES - 1), count=st.integers(1, 4))
    def put(self, queue: int, count: int) -> None:
        for _ in range(count):
            self.at.put(str(self.next), queue=queue)
            self.open_.add(str(self.next))
            self.next += 1

    @rule(count=st.integers(1, 5))
    def pop(self, count: int) -> None:
        out = self.out()
        found = self.popped(count)
        assert len(found) <= count
        until = self.at.clock.now + _INVISIBLE_MS
        by_queue: dict[int, list[int]] = {}
        for each in found:
            body = each.view.body.decode()
            if body not in self.doubled:
                assert body not in out, "handed out twice"
                assert body not in self.acknowledged, "acknowledged, and came again"
                self.held = [held for held in self.held if held.body != body]
            self.held.append(Held(body, each.handle, until))
            by_queue.setdefault(each.view.queue_id, []).append(each.queue_offset)
        if self.is_ordered:
            assert len(by_queue) <= 1
            for offsets in by_queue.values():
                assert offsets == sorted(offsets)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held))
        is_in_time = held.until > self.at.clock.now
        done = self.at.plugin.popper.ack("g", "orders", held.handle)
        assert done or not is_in_time
        self.held.remove(held)
        if done:
            self.open_.discard(held.body)
            self.acknowledged.add(held.body)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), milliseconds=st.integers(0, 2 * _INVISIBLE_MS))
    def renew(self, data: st.DataObject, milliseconds: int) -> None:
        held = data.draw(st.sampled_from(self.held))
        is_in_time = held.until > self.at.clock.now
        popper = self.at.plugin.popper
        handle = popper.renew("g", "orders", held.handle, milliseconds)
        assert handle is not None or not is_in_time
        if handle is None:
            self.held.remove(held)
        else:
            assert not popper.ack("g", "orders", held.handle), "the old handle is void"
            held.handle, held.until = handle, self.at.clock.now + milliseconds

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held))
        self.at.plugin.popper.give_back("g", "orders", [held.handle])
        self.held.remove(held)

    @rule(milliseconds=st.integers(1, 2 * _INVISIBLE_MS))
    def wait(self, milliseconds: int) -> None:
        self.at.work_for(milliseconds)
        self.at.store.wait_dispatched()

    @rule()
    def reopen(self) -> None:
        self.at.clock.now += 1
        self.at.reopen()
        # Offsets are saved at the end; what was acknowledged above a floor comes again.
        self.held.clear()
        floors, there = self.floors(), Counter()
        for topic, queue in [*(("orders", each) for each in range(_QUEUES)), (RETRY, 0)]:
            floor = floors.get((topic, queue), 0)
            there.update(
                view.body.decode()
                for view in self.at.read(topic, queue)
                if view.queue_offset >= floor
            )
        self.acknowledged -= there.keys()
        self.doubled |= {body for body, count in there.items() if count > 1}

    @invariant()
    def floors_count_nothing_that_is_open(self) -> None:
        if not hasattr(self, "at"):
            return
        floors, kept = self.floors(), self.dead()
        for topic, queue in [*(("orders", each) for each in range(_QUEUES)), (RETRY, 0)]:
            floor = floors.get((topic, queue), 0)
            kept |= {
                view.body.decode()
                for view in self.at.read(topic, queue)
                if view.queue_offset >= floor
            }
        assert self.open_ <= kept, "lost"

    # ------------------------------------------------------------------ helpers

    def popped(self, count: int) -> list[Any]:
        return self.at.plugin.popper.pop(self.request(count))

    def dead(self) -> set[str]:
        return {view.body.decode() for view in self.at.read("%DLQ%g")}

    def floors(self) -> dict[tuple[str, int], int]:
        return self.at.plugin.offsets().get("g", {})

    def drain(self) -> None:
        """Everything that is open comes, and everything can be acknowledged."""
        for _ in range(3 * self.next + 20):
            self.at.work_for(3 * _INVISIBLE_MS)
            self.at.store.wait_dispatched()
            found = self.at.plugin.popper.pop(self.request(100))
            for each in found:
                assert self.at.plugin.popper.ack("g", "orders", each.handle)
                self.open_.discard(each.view.body.decode())
            self.open_ -= self.dead()
            if not found and not self.open_:
                break
        assert not self.open_, "lost"
        assert self.at.plugin.progress("g").lag == 0
        assert self.at.plugin.popper.out() == []


RETRY = "%RETRY%g_orders"


class Ordered(Popping):
    """The same in order."""

    is_ordered = True


class FailingDisk(Popping):
    """The same where reads and puts of the store fail at random, and messages are given up.

    A request that fails has taken nothing: what it had taken is not lost until a deadline that
    nobody notes, and a handle is valid until its deadline, whatever has failed meanwhile.
    """

    retry_max_times = 3

    @initialize()
    def open(self) -> None:
        super().open()
        self.failures: Failures = []
        self.at.break_store(self.failures, self.failures)

    def drain(self) -> None:
        self.failures.clear()
        super().drain()

    @rule(failures=st.lists(st.booleans(), min_size=1, max_size=8))
    def fail(self, failures: list[bool]) -> None:
        self.failures[:] = failures

    @rule()
    def reopen(self) -> None:
        self.failures.clear()
        super().reopen()
        self.at.break_store(self.failures, self.failures)

    def popped(self, count: int) -> list[Any]:
        try:
            return super().popped(count)
        except FailedError:
            return []

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held))
        is_in_time = held.until > self.at.clock.now
        try:
            done = self.at.plugin.popper.give_up("g", "orders", held.handle)
        except FailedError:
            return  # the consumer still has it
        assert done or not is_in_time
        self.held.remove(held)
        if done:
            assert held.body in self.dead()
            self.open_.discard(held.body)
            self.acknowledged.add(held.body)


class FailingOrdered(FailingDisk):
    """The same in order."""

    is_ordered = True


_effort = settings(
    max_examples=400 if is_soak() else 10,
    stateful_step_count=30,
    deadline=None,
)
TestPopping = Popping.TestCase
TestPopping.settings = _effort
TestOrdered = Ordered.TestCase
TestOrdered.settings = _effort


@pytest.mark.shows("pop-reads", more="REPUT_SOAK=1")
@pytest.mark.parametrize("part", range(10 if is_soak() else 1))
@pytest.mark.parametrize("machine", [FailingDisk, FailingOrdered])
@pytest.mark.costly
def test_nothing_is_lost_by_a_failing_disk(machine, part):
    effort = settings(_effort, max_examples=200 if is_soak() else 10)
    run_state_machine_as_test(machine, settings=effort)
