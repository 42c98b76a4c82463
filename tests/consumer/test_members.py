"""Members that come, go and fail, queues that grow: section 4, against a plain model."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from groupstores import Steps, bodies
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import reput
from reput_consumer import Circle, ConsistentHash


def owned(consumer, topic="orders"):
    return [queue.queue_id for queue in consumer.queues if queue.topic == topic]


def test_queues_are_shared_out_again_when_members_come_and_go_section_4(at):
    for queue in range(4):
        at.put("x", queue=queue)

    with at.consumer(name="a") as a:
        assert owned(a) == [0, 1, 2, 3]
        with at.consumer(name="b") as b:
            assert (owned(a), owned(b)) == ([0, 1], [2, 3])
        assert owned(a) == [0, 1, 2, 3]


def test_members_may_have_another_strategy_section_4_1(at):
    for queue in range(4):
        at.put("x", queue=queue)

    with (
        at.consumer(name="a", strategy=Circle()) as a,
        at.consumer(name="b", strategy=Circle()) as b,
    ):
        assert (owned(a), owned(b)) == ([0, 2], [1, 3])


def test_the_next_owner_goes_on_where_the_last_one_was_section_4(at):
    for queue in range(2):
        at.put("1", "2", queue=queue)

    with at.consumer(name="a", explicit=True) as a:
        for message in a:
            if message.body == b"1":
                message.ack()
        with at.consumer(name="b") as b:
            assert bodies(b) == ["2"]


def test_what_a_former_owner_finishes_means_nothing_section_9(at):
    for queue in range(2):
        at.put("1", queue=queue)

    with at.consumer(name="a", explicit=True) as a:
        taken = list(a)
        with at.consumer(name="b", explicit=True) as b:
            assert bodies(b) == ["1"]
            for message in taken:
                message.ack()
            assert [at.offset(queue=0), at.offset(queue=1)] == [1, 0]


def test_members_beyond_the_queues_wait_and_take_over_section_4_1(at):
    at.put("1")

    with at.consumer(name="a") as a, at.consumer(name="b") as b:
        assert (owned(a), owned(b)) == ([0], [])
        a.close()
        assert owned(b) == [0]


class Members(RuleBasedStateMachine):
    """The model: what was put, and how often each message may be seen."""

    ordered = False

    def __init__(self):
        super().__init__()
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.root = Path(tempfile.mkdtemp(dir=base))
        self.at = Steps(self.root / "store")
        self.at.open()
        self.members = {}
        self.next_member = 0
        self.put_bodies = []
        self.finished = set()
        self.last = {}

    def teardown(self):
        try:
            self.drain()
        finally:
            self.at.store.close()
            shutil.rmtree(self.root)

    @rule(queue=st.integers(0, 5), count=st.integers(1, 3))
    def put(self, queue, count):
        for _ in range(count):
            body = f"{queue}:{len(self.put_bodies)}"
            self.at.put(body, queue=queue)
            self.put_bodies.append(body)
        self.at.store.work()

    @precondition(lambda self: len(self.members) < 4)
    @rule()
    def join(self):
        name = f"m{self.next_member}"
        self.next_member += 1
        self.members[name] = self.at.consumer(
            name=name, explicit=True, ordered=self.ordered, strategy=ConsistentHash()
        )

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data):
        self.members.pop(data.draw(st.sampled_from(sorted(self.members)))).close()

    @precondition(lambda self: self.members)
    @rule(data=st.data(), outcome=st.sampled_from(["ack", "fail", "forget"]))
    def consume(self, data, outcome):
        member = self.members[data.draw(st.sampled_from(sorted(self.members)))]
        message = member.next(0)
        if message is None:
            return
        body = message.body.decode()
        assert body in self.put_bodies
        if self.ordered:
            self.check_order(message, body)
        if outcome == "ack":
            message.ack()
            self.finished.add(body)
        elif outcome == "fail":
            message.retry(1)

    def check_order(self, message, body):
        """No message comes before all earlier ones of its queue were finished."""
        queue = body.partition(":")[0]
        earlier = [each for each in self.put_bodies if each.partition(":")[0] == queue]
        assert self.finished.issuperset(earlier[: earlier.index(body)])

    @rule(milliseconds=st.sampled_from([10, 1_000, 6_000]))
    def work(self, milliseconds):
        self.at.work_for(milliseconds)

    @rule()
    def reopen(self):
        self.members.clear()
        self.at.reopen()

    @invariant()
    def each_queue_has_one_owner(self):
        if not self.members or self.ordered:
            return
        found = sorted(each for member in self.members.values() for each in owned(member))
        assert found == sorted({int(body.partition(":")[0]) for body in self.put_bodies})

    def drain(self):
        """In the end every message was finished: nothing is lost."""
        for member in self.members.values():
            member.close()
        with self.at.consumer(name="last", ordered=self.ordered) as last:
            for _ in range(50):
                self.finished.update(bodies(last))
                self.at.work_for(5_000)
        assert self.finished == set(self.put_bodies)


class OrderedMembers(Members):
    ordered = True


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=25, stateful_step_count=25)
TestOrderedMembers = OrderedMembers.TestCase
TestOrderedMembers.settings = settings(max_examples=25, stateful_step_count=25)


def test_queues_that_came_while_nobody_read_are_known_to_the_next_member(at):
    at.put("1", queue=0)
    with at.consumer() as consumer:
        assert owned(consumer) == [0]
    at.put("2", queue=1)

    with at.consumer() as consumer:
        assert owned(consumer) == [0, 1]


def test_a_thousand_queues_are_given_to_a_new_member_quickly(at):
    for queue in range(1_000):
        at.store.put(reput.Message("orders", b"x", queue))
    at.store.wait_dispatched()

    with at.consumer(name="a") as a:
        start = time.process_time()  # of the processor, as machines are shared
        with at.consumer(name="b") as b:
            seconds = time.process_time() - start
            assert (len(owned(a)), len(owned(b))) == (500, 500)

    assert seconds < 0.2  # both members, and where each of 500 queues begins


def test_a_port_that_cannot_tell_now_is_asked_again_and_ends_nothing(at, monkeypatch, caplog):
    """As a port before a network cannot at times."""
    for queue in range(2):
        at.put("1", "2", queue=queue)
    port = type(at.plugin._port)

    def fail(*_, **__):
        raise reput.ReputError("no answer")

    with at.consumer(ordered=True, name="b") as old:
        assert bodies(old) == ["1", "2", "1", "2"]
        with monkeypatch.context() as broken:
            for method in ("lock", "commit", "committed", "offset_by_time"):
                broken.setattr(port, method, fail)
            new = at.consumer(ordered=True, name="a")
            at.work_for(30_000)
            assert (owned(new), owned(old)) == ([], [1])
        with new:
            at.work_for(30_000)
            assert (owned(new), owned(old)) == ([0], [1])
            at.put("3", queue=0)
            assert bodies(new)[-1:] == ["3"]

    assert "no answer" in caplog.text
