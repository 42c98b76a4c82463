"""Members that come, go and fail, queues that grow: section 4, against a plain model."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from weakref import WeakSet

import pytest
from groupstores import Steps, bodies
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import reput
from reput_consumer import (
    Average,
    Circle,
    ConsistentHash,
    MessageQueue,
    SubscriptionMismatchError,
)
from reput_consumer.allocation import share
from reput_consumer.backend import topicqueues
from reput_consumer.backend.queuelocks import QueueLocks
from reput_consumer.consumption import ownedqueues
from reput_testing import ManualClock


def owned(consumer, topic="orders"):
    return [queue.queue_id for queue in consumer.queues if queue.topic == topic]


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


def test_who_takes_a_queue_over_knows_what_was_finished_whoever_is_told_first_section_4_1(at):
    for queue in (0, 1, 3, 4):
        at.put("1", "2", queue=queue)
    members = [at.consumer(name=name, explicit=True) for name in "abcd"]
    assert [owned(each) for each in members] == [[0], [1], [3], [4]]
    for message in members[2]:
        message.ack()

    at.put("1", queue=5)  # now queue 3 is given to b, which is told of that before c
    at.store.work()
    assert [owned(each) for each in members] == [[0, 1], [3], [4], [5]]
    assert [message.queue.queue_id for message in members[1]] == []


def test_members_that_join_and_leave_list_the_queues_once(at, monkeypatch):
    listed = []

    def queues_of(topic, *rest):
        listed.append(topic)
        return real(topic, *rest)

    real = topicqueues._queues_of
    monkeypatch.setattr(topicqueues, "_queues_of", queues_of)
    for queue in range(8):
        at.put("1", queue=queue)

    members = [at.consumer(name=f"m{number}") for number in range(8)]
    shares = [owned(each) for each in members]
    asked = listed.count("orders")
    at.put("2", queue=8)
    at.store.work()
    members.pop(3).close()

    assert shares == [[number] for number in range(8)]
    assert asked < 4  # of 36 times that a member looked at the queues
    assert listed.count("orders") == asked + 1
    assert sorted(number for each in members for number in owned(each)) == [*range(9)]


def test_members_whose_share_stays_the_same_look_no_further(at, monkeypatch):
    changed = []
    real = ownedqueues.OwnedQueues._apply

    def apply(self, *queues):
        changed.append(self.settings.member)
        real(self, *queues)

    monkeypatch.setattr(ownedqueues.OwnedQueues, "_apply", apply)
    for queue in range(4):
        at.put("1", queue=queue)
    members = [at.consumer(name=f"m{number}") for number in range(4)]
    changed.clear()

    late = [at.consumer(name=f"z{number}") for number in range(3)]
    shares = [owned(each) for each in (*members, *late)]
    members.pop().close()

    assert shares == [[0], [1], [2], [3], [], [], []]
    assert changed == ["z0", "z1", "z2", "z0"]
    assert [owned(each) for each in (*members, *late)] == [[0], [1], [2], [3], [], []]


def test_a_member_that_fetches_nothing_forgets_queues_that_it_gave_up(at):
    for queue in range(4):
        at.put("1", queue=queue)
    first = at.consumer(name="a")
    known = WeakSet(first._engine.assignments.values())

    for _ in range(5):
        at.consumer(name="b").close()
        known.update(first._engine.assignments.values())
    gc.collect()

    assert len(owned(first)) == 4
    assert len(known) == len(first._engine.assignments)
    assert [message.body for message in first] == [b"1"] * 4


class Members(RuleBasedStateMachine):
    """The model: who must own which queue, and which offsets of it may still be handed out.

    A queue's next owner begins at the oldest message that the last one has not finished. What was
    finished behind that may come again then, and for no other reason.
    """

    ordered = False

    def __init__(self):
        super().__init__()
        base = "/dev/shm" if Path("/dev/shm").is_dir() else None
        self.root = Path(tempfile.mkdtemp(dir=base))
        self.at = Steps(self.root / "store")
        self.at.open()
        self.strategy = Average()
        self.members = {}
        self.next_member = 0
        self.put_bodies = []
        self.finished_bodies = set()
        self.owners = {}
        """Name of the member by (topic, queue id), as all members must see it."""
        self.begins = defaultdict(int)
        """Queue offset at which the queue's owner has begun, by queue."""
        self.finished = defaultdict(set)
        """Queue offsets that were finished since, by queue."""
        self.kept = []
        """Messages that were handed out and neither finished nor failed."""

    @initialize(strategy=st.sampled_from([Average(), Circle(), ConsistentHash()]))
    def choose(self, strategy):
        self.strategy = strategy

    def teardown(self):
        try:
            self.drain()
        finally:
            self.at.store.close()
            shutil.rmtree(self.root)

    # ---------------------------------------------------------------- what happens

    @rule(queue=st.integers(0, 5), count=st.integers(1, 3))
    def put(self, queue, count):
        # One after the other: a topic grows with its highest queue, and has those below it, too.
        queue = min(queue, len(self.queues()))
        for _ in range(count):
            body = f"{queue}:{len(self.put_bodies)}"
            self.at.put(body, queue=queue)
            self.put_bodies.append(body)
        self.at.store.work()
        self.share_out()

    @precondition(lambda self: len(self.members) < 4)
    @rule()
    def join(self):
        name = f"m{self.next_member}"
        self.next_member += 1
        self.members[name] = self.at.consumer(
            name=name, explicit=True, ordered=self.ordered, strategy=self.strategy
        )
        self.share_out()

    @precondition(lambda self: self.members)
    @rule(data=st.data(), breaks=st.booleans())
    def leave(self, data, breaks):
        name = data.draw(st.sampled_from(sorted(self.members)))
        error = RuntimeError("the program of this member breaks") if breaks else None
        self.members.pop(name).__exit__(error and RuntimeError, error, None)
        self.kept = [kept for kept in self.kept if kept[0] != name]
        self.share_out()

    @precondition(lambda self: self.members)
    @rule(data=st.data(), outcome=st.sampled_from(["ack", "fail", "keep"]))
    def consume(self, data, outcome):
        name = data.draw(st.sampled_from(sorted(self.members)))
        message = self.members[name].next(0)
        if message is None:
            return
        assert message.body.decode() in self.put_bodies
        self.check_handed_out(name, message)
        if outcome == "keep":
            self.kept.append((name, message))
        elif outcome == "fail":
            message.retry(1)
            if not self.ordered:  # a copy of it comes again
                self.finished[place_of(message)].add(message.queue_offset)
        else:
            self.finish(name, message)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def finish_late(self, data):
        number = data.draw(st.integers(0, len(self.kept) - 1))
        self.finish(*self.kept.pop(number))

    @rule(milliseconds=st.sampled_from([10, 1_000, 6_000]))
    def work(self, milliseconds):
        self.at.work_for(milliseconds)

    @rule()
    def reopen(self):
        self.members.clear()
        self.kept.clear()
        self.at.reopen()
        self.share_out()

    # ---------------------------------------------------------------- the model

    def queues(self):
        return {int(body.partition(":")[0]) for body in self.put_bodies}

    def share_out(self):
        """Who owns what now; of queues that have changed hands, where their owners begin."""
        queues = self.queues()
        owners = {}
        for topic in ("orders", "%RETRY%g"):
            found = [MessageQueue("orders", "broker-a", number) for number in queues]
            if topic != "orders":
                found = [MessageQueue(topic, "broker-a", 0)]
            for member in self.members:
                for queue in share(self.strategy, member, found, self.members):
                    assert (topic, queue.queue_id) not in owners
                    owners[topic, queue.queue_id] = member
        for place in self.owners.keys() | owners.keys():
            if not self.ordered and self.owners.get(place) != owners.get(place):
                self.change_hands(place)
        self.owners = owners

    def change_hands(self, place):
        while self.begins[place] in self.finished[place]:
            self.begins[place] += 1
        self.finished[place].clear()
        self.kept = [kept for kept in self.kept if place_of(kept[1]) != place]

    def check_handed_out(self, name, message):
        place, offset = place_of(message), message.queue_offset
        assert offset >= self.begins[place]
        assert offset not in self.finished[place], "finished already"
        if self.ordered:
            assert self.finished[place].issuperset(range(offset)), "before an earlier one"
        else:
            assert self.owners[place] == name

    def finish(self, name, message):
        message.ack()
        self.finished[place_of(message)].add(message.queue_offset)
        self.finished_bodies.add(message.body.decode())

    @invariant()
    def each_queue_has_the_owner_that_all_members_expect(self):
        if self.members and not self.ordered:
            self.check_owners()

    @precondition(lambda self: self.members and not self.kept)
    @rule()
    def become_steady(self):
        """In order a queue changes hands between two messages, when its lock is free."""
        self.at.work_for(10_000)
        self.check_owners()

    def check_owners(self):
        found = {
            (queue.topic, queue.queue_id): name
            for name, member in self.members.items()
            for queue in member.queues
        }
        assert found == self.owners
        assert sum(len(member.queues) for member in self.members.values()) == len(found)

    def drain(self):
        """In the end every message was finished: nothing is lost."""
        for member in self.members.values():
            member.close()
        with self.at.consumer(name="last", ordered=self.ordered) as last:
            for _ in range(50):
                self.finished_bodies.update(bodies(last))
                self.at.work_for(5_000)
        assert self.finished_bodies == set(self.put_bodies)


def place_of(message):
    """Topic and queue id from which a message was handed out."""
    return message.queue.topic, message.queue.queue_id


class OrderedMembers(Members):
    ordered = True


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=30, stateful_step_count=30)
TestOrderedMembers = OrderedMembers.TestCase
TestOrderedMembers.settings = settings(max_examples=30, stateful_step_count=30)


def test_queues_that_came_while_nobody_read_are_known_to_the_next_member(at):
    at.put("1", queue=0)
    with at.consumer() as consumer:
        assert owned(consumer) == [0]
    at.put("2", queue=1)

    with at.consumer() as consumer:
        assert owned(consumer) == [0, 1]


def test_one_look_at_the_stores_queues_serves_all_topics_of_a_member(at, monkeypatch):
    topics = [f"topic-{number}" for number in range(20)]
    for topic in topics:
        at.put("1", topic=topic)
    store, looks = at.plugin.port.context.store, []
    queues = store.queues

    def count():
        looks.append(None)
        return queues()

    monkeypatch.setattr(type(store), "queues", lambda self: count())
    with at.consumer("g", topics, until="end") as consumer:
        assert len(list(consumer)) == 20
        assert (
            len(looks) <= 3
        )  # is there a reader of queues; which queues; the same for a new group

        at.put("2", topic="topic-7", queue=3)  # a queue of a topic that is read, and of another
        at.put("2", topic="other")
        with at.consumer("others", ["other", "topic-7"]) as others:
            found = [(queue.topic, queue.queue_id) for queue in others.queues]
            assert found == [("%RETRY%others", 0), ("other", 0), ("topic-7", 0), ("topic-7", 3)]


def test_a_port_that_cannot_tell_now_is_asked_again_and_ends_nothing(at, monkeypatch, caplog):
    """As a port before a network cannot at times."""
    for queue in range(2):
        at.put("1", "2", queue=queue)
    port = type(at.plugin.port)

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


@pytest.mark.parametrize("method", ["committed", "members"])
def test_until_the_end_waits_for_queues_of_which_nothing_can_be_said_now(at, monkeypatch, method):
    """A broker that was busy for a moment was taken for one that has nothing more."""
    for queue in range(2):
        at.put("1", "2", queue=queue)
    port, failed = type(at.plugin.port), []
    answer = getattr(port, method)

    def fail_once(self, *arguments):
        if not failed:
            failed.append(arguments)
            raise reput.ReputError("busy")
        return answer(self, *arguments)

    monkeypatch.setattr(port, method, fail_once)
    with at.consumer(until="end") as consumer:
        before = bodies(consumer)
        assert len(before) < 4
        assert not consumer._engine.is_over
        at.work_for(4_000)
        assert sorted([*before, *bodies(consumer)]) == ["1", "1", "2", "2"]
        assert consumer._engine.is_over


def test_locks_of_members_that_never_joined_are_forgotten_when_there_are_many():
    clock = ManualClock()
    locks = QueueLocks(clock)
    for number in range(2_000):
        locks.take("g", f"m{number}", [MessageQueue("orders", "broker-a", number)])
        clock.now += 100

    assert len(locks._owners) < 1_001 + 2
    assert locks.take("g", "other", [MessageQueue("orders", "broker-a", 1_999)]) == set()
    assert locks.take("g", "other", [MessageQueue("orders", "broker-a", 0)]) != set()


# ------------------------------------------------------------------ other subscriptions


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("orders", "bills"),
        ("orders", ["orders", "bills"]),
        ({"orders": "A"}, {"orders": "B"}),
        ({"orders": "A"}, "orders"),
    ],
)
def test_a_member_that_subscribes_differently_is_refused(at, one, other):
    with at.consumer("g", one, name="a"):
        with pytest.raises(SubscriptionMismatchError, match="use a group for each"):
            at.consumer("g", other, name="b")

        assert at.plugin.port.members("g") == ("a",)
    with at.consumer("g", other, name="b"):  # after the other has left
        assert not at.plugin.progress("g").is_mixed


@pytest.mark.parametrize(
    ("one", "other"), [({"orders": "A || B"}, {"orders": "B||A"}), ("orders", {"orders": "*"})]
)
def test_the_same_subscription_may_be_written_in_two_ways(at, one, other):
    with at.consumer("g", one, name="a"), at.consumer("g", other, name="b"):
        assert at.plugin.port.members("g") == ("a", "b")


def test_members_that_ask_for_it_may_subscribe_differently_with_a_warning(at, caplog):
    one = at.consumer("g", {"orders": "A"}, name="a")
    with one, at.consumer("g", {"orders": "B"}, name="b", mixed=True):
        assert at.plugin.progress("g").is_mixed

    assert "members of a group subscribe differently" in caplog.text


def test_members_that_read_everything_may_subscribe_as_they_like(at, caplog):
    options = {"broadcast": True}
    with at.consumer("g", {"orders": "A"}, name="a", **options):
        with at.consumer("g", {"orders": "B"}, name="b", **options):
            assert not at.plugin.progress("g").is_mixed

    assert "subscribe differently" not in caplog.text


def test_members_that_pop_may_have_other_topics_but_not_other_tags(at):
    pop = at.store.pop_consumer
    with pop("g", {"orders": "A"}, name="a"), pop("g", "bills", name="b"):
        assert not at.plugin.progress("g").is_mixed
        with pytest.raises(SubscriptionMismatchError):
            pop("g", {"orders": "B"}, name="c")
        with pop("g", {"orders": "B"}, name="c", mixed=True):
            assert at.plugin.progress("g").is_mixed
