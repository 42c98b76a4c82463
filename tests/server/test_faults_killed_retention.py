"""A server whose log loses its oldest files is killed, while producers wait for the disk.

``REPUT_KILLS`` is the number of kills, 200 with ``REPUT_SOAK=1``.
"""

from __future__ import annotations

import random
from collections import Counter

import brokerwitness
import pytest
from brokerwitness import QUEUES, TOPIC
from serverlives import ServerLives, kill_count

import reput

pytestmark = pytest.mark.shows("killed-server")

FILE_SIZE = 1 << 15
CONFIG = {
    "commitlog": {"file_size": FILE_SIZE},
    "consumequeue": {"units_per_file": 50},
    "retention": {"max_bytes": 4 * FILE_SIZE},
}
# Files go all the time, and not every ten seconds.
OFTEN = """
import runpy, reput_retention.plugin
reput_retention.plugin._CHECK_INTERVAL_MS = 20
runpy.run_module("reput", run_name="__main__", alter_sys=True)
"""


class Lives(ServerLives):
    """What producers have been told."""

    program = ("-c", OFTEN)

    def __init__(self, store):
        super().__init__(store, "sync", brokerwitness.__file__)
        self.acked = {}
        """Queue and offset by body."""
        self.tried = Counter()

    def note(self, word, name, *rest):
        """See `ServerLives.note`."""
        if word == "acked":
            self.acked[f"{name}-{rest[0]}"] = int(rest[1]), int(rest[2])
        elif word == "tried":
            self.tried[f"{name}-{rest[0]}"] += 1

    def hear_more(self, count):
        """Listen until so many messages more are acknowledged."""
        wanted = len(self.acked) + count
        self.hear(lambda: len(self.acked) >= wanted)


@pytest.mark.proof
def test_retention_beside_kills_removes_whole_old_files_and_nothing_newer(tmp_path):
    root, chance = tmp_path / "store", random.Random(7)
    reput.open(root, plugins={"consumequeue", "consumer"}, config=CONFIG).close()
    with Lives(root) as lives:
        with lives.life():
            for name in "abc":
                lives.begin("producer", name, lives.broker)
            lives.hear_more(600)
        for _ in range(kill_count(2) - 1):
            with lives.life():
                lives.hear_more(chance.randrange(1, 300))
        with lives.life() as last:
            lives.hear_more(600)
            lives.end(*"abc")
            lives.stop(last)

    with reput.open(root, mode="r") as store:
        queues = [each for each in store.queues() if each.topic == TOPIC]
        first = {each.queue_id: each.min_queue_offset for each in queues}
        stored = {
            (each.queue_id, message.queue_offset): message.body.decode()
            for each in queues
            for message in every_message(store, each)
        }
        begins = store.log.min_physical_offset
        losses = store.losses()
    assert begins > 0, "nothing was removed"
    assert begins % FILE_SIZE == 0
    # What a kill has interrupted was never acknowledged, and is cut; it may be in the ledger.
    assert {(each.reason, each.action) for each in losses} <= {("TORN", "cut")}
    assert set(first) == set(range(QUEUES))
    still = {body: place for body, place in lives.acked.items() if place[1] >= first[place[0]]}
    assert still
    assert {body: stored.get(place) for body, place in still.items()} == {
        body: body for body in still
    }
    # Twice is only what was sent twice, as nobody had answered.
    for body, count in Counter(stored.values()).items():
        assert count <= 1 + lives.tried[body]


def every_message(store, queue):
    at = queue.min_queue_offset
    while at < queue.max_queue_offset:
        result = store.read(queue.topic, queue.queue_id, at, 1_000)
        expected = list(range(at, at + len(result)))
        assert [each.queue_offset for each in result] == expected
        assert expected
        yield from result
        at = result.next_queue_offset
