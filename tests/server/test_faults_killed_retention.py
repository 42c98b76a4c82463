"""A server whose log loses its oldest files is killed, while producers wait for the disk.

``REPUT_KILLS`` is the number of kills, 200 with ``REPUT_SOAK=1``.
"""

from __future__ import annotations

import random
from collections import Counter

import brokerwitness
import pytest
from brokerwitness import QUEUES, TOPIC
from serverlives import SenderLives, kill_count, stored_bodies

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


class Lives(SenderLives):
    """Of a server that looks for old files all the time."""

    program = ("-c", OFTEN)


@pytest.mark.proof
@pytest.mark.costly
def test_retention_beside_kills_removes_whole_old_files_and_nothing_newer(tmp_path):
    root, chance = tmp_path / "store", random.Random(7)
    reput.open(root, plugins={"consumequeue", "consumer"}, config=CONFIG).close()
    with Lives(root, "sync", brokerwitness.__file__) as lives:
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
        stored = stored_bodies(store, TOPIC)
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
