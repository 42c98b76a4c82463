"""Consumers in another process beside a writer that recovers, backfills or rebuilds, at any moment.

Every message is sound all the time. So nobody may be told of a loss, nor be sent past a message.
"""

from __future__ import annotations

import pytest
from besidewriters import check_queue, killed, look_between, open_still

import reput
from reput.log import Progress, ProgressEntry, StateFile
from reput_tools.offline import rebuild

PLUGINS = ["consumequeue"]
UNITS = 4
COUNT = 11

pytestmark = [
    pytest.mark.sizes(consumequeue={"extend_file_size": 100}),
    pytest.mark.shows("readers-beside"),
]


def config(*, extend):
    return {
        "commitlog": {"file_size": 1 << 16},
        "consumequeue": {"units_per_file": UNITS, "extend": extend},
    }


class Life:
    """A store with two queues, and what each of them has."""

    def __init__(self, tmp_path, *, extend):
        self.tmp_path = tmp_path
        self.config = config(extend=extend)
        self.ends = {"A": [], "B": []}

    def put(self, count):
        def work(store):
            for _ in range(count):
                for topic, ends in self.ends.items():
                    message = reput.Message(topic, self.body(len(ends)), tags="t")
                    ends.append(store.put(message).end_offset)

        return work

    def body(self, place):
        return b"%d" % place

    def check(self, reader):
        for topic, ends in self.ends.items():
            check_queue(reader, topic, 0, ends, self.body)
            for boundary in ("lower", "upper"):
                reader.offset_by_time(topic, 0, 0, boundary)
        for info in reader.queues():
            assert 0 <= info.min_queue_offset <= info.max_queue_offset <= COUNT
            assert info.min_queue_offset == 0

    def look_between(self, root, work):
        return look_between(root, self.tmp_path / "copies", PLUGINS, work, self.check)


@pytest.mark.proof
@pytest.mark.parametrize(("flushed", "extend"), [(0, False), (8, False), (3, True)])
@pytest.mark.costly
def test_beside_a_writer_that_mends_what_a_kill_has_left(tmp_path, flushed, extend):
    life = Life(tmp_path, extend=extend)
    root = killed(
        tmp_path / "store",
        tmp_path / "killed",
        life.config,
        PLUGINS,
        life.put(flushed),
        life.put(COUNT - flushed),
    )

    def mend(disk):
        with open_still(root, life.config, PLUGINS, disk) as store:
            store.wait_dispatched()

    assert life.look_between(root, mend) > 15


@pytest.fixture
def closed(tmp_path):
    life = Life(tmp_path, extend=False)
    with open_still(tmp_path / "store", life.config, PLUGINS) as store:
        life.put(COUNT)(store)
    return life, tmp_path / "store"


@pytest.mark.costly
def test_beside_a_backfill_from_the_start(closed):
    life, root = closed

    def backfill(disk):
        file = ProgressEntry(StateFile.of(str(root), disk), "consumequeue")
        file.load()
        file.save(Progress(0, -1, 1))
        file.save(Progress(0))
        with open_still(root, life.config, PLUGINS, disk) as store:
            store.wait_dispatched()

    assert life.look_between(root, backfill) > 20


@pytest.mark.proof
@pytest.mark.costly
def test_beside_a_rebuild(closed):
    life, root = closed

    assert life.look_between(root, lambda disk: rebuild(root, jobs=1, disk=disk)) > 20
