"""Transactions, retries and dead letters over kills of the server, and members that come and go.

``REPUT_KILLS`` is the number of kills, 200 with ``REPUT_SOAK=1``.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import brokerwitness
import groupwitness
import pytest
from brokerwitness import TOPIC
from openstores import bodies_in
from serverlives import ServerLives, kill_count

import reput
from reput_consumer import ConsumerPlugin
from reput_testing.casebudget import is_soak
from reput_transaction import TransactionPlugin

pytestmark = pytest.mark.shows("killed-server")

PLUGINS = {"consumequeue", "consumer", "index", "schedule", "transaction"}
CONFIG = {
    "commitlog": {"file_size": 1 << 20},
    "consumequeue": {"units_per_file": 1_000},
    "schedule": {"delay_levels": "1s 1s 1s 1s 1s 1s", "precision_ms": 100},
    "transaction": {
        "timeout_ms": 200,
        "check_interval_ms": 200,
        "check_max": 100_000,
    },
}
LAST_TIMES = groupwitness.MAX_RECONSUME_TIMES


class Lives(ServerLives):
    """What witnesses of groups have reported."""

    def __init__(self, path, flush="async"):
        super().__init__(path / "store", flush, groupwitness.__file__)
        self.halves = set()
        self.quiet = set()
        self.acked = {}
        """Queue and offset by body."""
        self.got = Counter()
        """How often a message came, by body and how often it had failed."""
        self.queues = defaultdict(list)
        """Offsets in the order in which they came, by queue; not those of retries."""
        self.joined = Counter()
        self.dead = set()
        reput.open(self.store, plugins=PLUGINS, config=CONFIG).close()

    def note(self, word, name, *rest):
        """See `ServerLives.note`."""
        if word == "half":
            self.halves.add(int(rest[0]))
        elif word == "quiet":
            self.quiet.add(name)
        elif word == "acked":
            self.acked[f"{name}-{rest[0]}"] = int(rest[1]), int(rest[2])
        elif word == "dead":
            self.dead.add(rest[0])
        elif word == "joined":
            self.joined[name] = int(rest[0])
        elif word == "got":
            body, queue_id, queue_offset, times = rest[0], *map(int, rest[1:])
            self.got[body, times] += 1
            if times == 0:
                self.queues[queue_id].append(queue_offset)

    def produce(self):
        """Begin to send numbered messages, each until it is acknowledged, a hundred a second."""
        self.begin("producer", "p", self.broker, "0.01", script=brokerwitness.__file__)


def bodies_of(store, topic):
    """How often each body is in a topic."""
    found = Counter()
    for queue in store.queues():
        if queue.topic == topic:
            found.update(map(bytes.decode, bodies_in(store, topic, queue.queue_id, 0, 1_000)))
    return found


@pytest.mark.proof
@pytest.mark.costly
def test_transactions_end_once_and_as_they_should_over_kills_of_the_server(tmp_path):
    chance, kills = random.Random(25), kill_count(2)
    with Lives(tmp_path) as lives:
        with lives.life():
            lives.begin("halves", "t")
            lives.hear(lambda: len(lives.halves) >= 12)
        for _ in range(kills - 1):
            with lives.life():
                wanted = len(lives.halves) + chance.randrange(1, 30)
                lives.hear(lambda wanted=wanted: len(lives.halves) >= wanted)
        with lives.life() as last:
            wanted = len(lives.halves) + 10
            lives.hear(lambda: len(lives.halves) >= wanted)
            lives.tell("t", "quiet")
            lives.hear(lambda: "t" in lives.quiet)
            lives.begin("failing", "c")
            committed = {number for number in lives.halves if number % 2 == 0}
            lives.hear(lambda: {int(body) for body, _ in lives.got} >= committed)
            lives.end("t", "c")
            lives.stop(last)

    with reput.open(lives.store, mode="r") as store:
        visible = bodies_of(store, TOPIC)
        open_ones = [message.body for message in store.plugin(TransactionPlugin).dangling()]
    assert len(committed) > 5
    assert {str(number) for number in committed} <= visible.keys()
    assert {body: count for body, count in visible.items() if count > 1} == {}
    assert [body for body in visible if int(body) % 2] == []
    assert [body for body in open_ones if int(body) % 2 == 0 and int(body) in committed] == []
    assert "Traceback" not in (tmp_path / "store.log").read_text()


@pytest.mark.proof
@pytest.mark.costly
def test_retries_and_dead_letters_are_counted_over_kills_of_the_server(tmp_path):
    chance, kills = random.Random(26), kill_count(2)
    with Lives(tmp_path) as lives:
        with lives.life():
            lives.begin("failing", "c")
            lives.produce()
            lives.hear(lambda: len(lives.acked) >= 20 and len(lives.got) >= 5)
        for _ in range(kills - 1):
            with lives.life():
                wanted = len(lives.acked) + chance.randrange(1, 40)
                heard = sum(lives.got.values()) + chance.randrange(1, 20)
                lives.hear(
                    lambda wanted=wanted, heard=heard: (
                        len(lives.acked) >= wanted and sum(lives.got.values()) >= heard
                    )
                )
        with lives.life() as last:
            lives.end("p")
            failing = {body for body in lives.acked if _fails(body)}
            lives.begin("dead", "d")
            lives.hear(lambda: failing <= lives.dead)
            lives.end("c", "d")
            lives.stop(last)

    with reput.open(lives.store, mode="r") as store:
        dead = bodies_of(store, f"%DLQ%{groupwitness.FAILING_GROUP}")
    assert failing
    assert failing <= dead.keys()
    assert [body for body in dead if not _fails(body)] == []
    for body in lives.acked:
        times = {found for each, found in lives.got if each == body}
        # While the server is away a member fails a message again by itself, and counts that.
        assert times >= set(range(LAST_TIMES + 1)) if _fails(body) else times == {0}, body
    # A message dies only after a member had it for the last time; twice, only after two of them.
    for body, count in dead.items():
        had = sum(lives.got[body, times] for times in range(LAST_TIMES, 100))
        assert count <= had, body


@pytest.mark.proof
@pytest.mark.costly
def test_members_of_two_processes_that_come_and_go_read_all_and_in_order(tmp_path):
    rounds = 60 if is_soak() else 4
    with Lives(tmp_path) as lives, lives.life() as server:
        for name in ("x", "y"):
            lives.begin("storm", name)
        lives.produce()
        lives.hear(lambda: min(lives.joined["x"], lives.joined["y"]) >= rounds)
        lives.end("p")
        for name in ("x", "y"):
            lives.tell(name, "quiet")
        lives.hear(lambda: {body for body, _ in lives.got} >= lives.acked.keys())
        lives.end("x", "y")
        lives.stop(server)

    with reput.open(lives.store, mode="r") as store:
        progress = store.plugin(ConsumerPlugin).progress(groupwitness.STORM_GROUP)
    assert len(lives.acked) > rounds
    for queue_id, offsets in lives.queues.items():
        highest = -1
        for offset in offsets:
            assert offset <= highest + 1, f"queue {queue_id}: {offset} came before {highest + 1}"
            highest = max(highest, offset)
    assert {each.queue_id: each.offset for each in progress.queues if each.topic == TOPIC} == {
        queue_id: max(offsets) + 1 for queue_id, offsets in lives.queues.items()
    }


def _fails(body):
    return groupwitness.is_failing(int(body.rpartition("-")[2]))
