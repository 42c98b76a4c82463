"""A server that is killed while it is busy: witnesses at the other side know what it owes them.

Each life of the server ends by SIGKILL in the middle of sends, at a random place; then it is
started again on the same store, at the same ports. ``REPUT_KILLS`` is the number of kills, 200 with
``REPUT_SOAK=1``. A kill leaves what the system has got, so nothing that was acknowledged may be
missing with either flush; what a power cut takes is shown by ``tests/core/test_power_cut.py``.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import brokerwitness
import pytest
from serverlives import SenderLives, kill_count, stored_bodies

import reput
from reput_consumer import ConsumerPlugin
from reput_testing.casebudget import is_soak

pytestmark = pytest.mark.shows("killed-server")

QUEUES = brokerwitness.QUEUES
SMALL = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}
PLUGINS = {"consumequeue", "consumer", "index", "schedule"}


class Lives(SenderLives):
    """What producers and consumers beside the server have reported."""

    def __init__(self, store, flush):
        super().__init__(store, flush, brokerwitness.__file__)
        self.got = defaultdict(Counter)
        """How often a body was received, by queue and offset."""
        self.readers = Counter()
        """How many messages each consumer has got."""
        self.refused = Counter()

    def note(self, word, name, *rest):
        """See `ServerLives.note`."""
        super().note(word, name, *rest)
        if word == "refused":
            self.refused[int(rest[1])] += 1
        elif word not in ("acked", "tried"):
            self.got[int(rest[1]), int(rest[2])][rest[0]] += 1
            self.readers[name] += 1


def run(store, flush, kills, chance):
    """Kill the server so often; what witnesses have said, and what is stored."""
    reput.open(store, plugins=PLUGINS, config=SMALL).close()
    with Lives(store, flush) as lives:
        with lives.life():
            for name in ("a", "b"):
                lives.begin("producer", name, lives.broker)
            for kind, name in ("client", "c"), ("consumer", "d"), ("consumer", "e"):
                lives.begin(kind, name)
            lives.hear_more(chance.randrange(50, 200))
            lives.hear(lambda: len(lives.readers) == 2)
        for _ in range(kills - 1):
            with lives.life():
                lives.hear_more(chance.randrange(1, 400))
        with lives.life() as last:
            heard = Counter(lives.readers)
            lives.hear_more(100)
            lives.hear(lambda: all(lives.readers[name] > heard[name] for name in "de"))
            lives.end("a", "b", "c")
            lives.hear(lambda: set(lives.acked.values()) <= lives.got.keys())
            lives.end("d", "e")
            # A member may end while it reads again what a killed server has forgotten that it
            # committed. Who comes next goes on there, through the last message of each queue.
            lives.begin("producer", "g", lives.broker, "0.01")
            lives.hear(lambda: sum(body.startswith("g-") for body in lives.acked) >= QUEUES)
            lives.end("g")
            lives.begin("consumer", "f")
            ends = {at for body, at in lives.acked.items() if body.startswith("g-")}
            lives.hear(lambda: ends <= lives.got.keys())
            lives.end("f")
            lives.stop(last)
    return lives


@pytest.mark.proof
@pytest.mark.parametrize(
    "flush",
    ["sync", pytest.param("async", marks=pytest.mark.skipif(not is_soak(), reason="REPUT_SOAK=1"))],
)
@pytest.mark.costly
def test_a_server_that_is_killed_owes_nobody_what_it_has_acknowledged(tmp_path, flush):
    lives = run(tmp_path / "store", flush, kill_count(2), random.Random(17))

    stored, progress = stored_in(tmp_path / "store")
    assert lives.acked
    # None is lost: each is where its producer was told that it is.
    assert {body: stored.get(place) for body, place in lives.acked.items()} == {
        body: body for body in lives.acked
    }
    # Twice is only what was sent twice, as nobody had answered.
    for body, count in Counter(stored.values()).items():
        if not body.startswith("c-"):  # a client tries again by itself
            assert count <= 1 + lives.tried[body]
    # Consumers got each message, and as it is stored.
    for place, bodies in lives.got.items():
        assert set(bodies) == {stored[place]}
    assert lives.got.keys() >= set(lives.acked.values())
    # The group has gone on, and noted that.
    assert {queue.topic: queue.lag for queue in progress.queues if queue.lag} == {}
    assert "Traceback" not in (tmp_path / "store.log").read_text()


def stored_in(path):
    """Bodies by queue and offset, and how far the group is."""
    with reput.open(path, mode="r") as store:
        progress = store.plugin(ConsumerPlugin).progress(brokerwitness.GROUP)
        return stored_bodies(store, brokerwitness.TOPIC), progress
