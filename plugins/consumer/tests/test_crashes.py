"""Power cuts and kills: what is committed durably stays, and no group is ever ahead of the log."""

from __future__ import annotations

import itertools
import shutil

import pytest
from groupstores import PLUGINS, bodies

import reput
from reput_consumer import ConsumerPlugin
from reput_testing import ManualClock, SimulatedDisk
from reput_testing.casebudget import is_soak, part

pytestmark = pytest.mark.shows("group-offsets")

CONFIG = {"commitlog": {"file_size": 1 << 16}}


def live(path, disk, saved):
    """Put, consume and commit, now durably, now not."""
    options = {"plugins": PLUGINS, "config": CONFIG, "clock": ManualClock(), "threads": False}
    with reput.open(path, disk=disk, **options) as store:
        with store.consumer("g", "orders", start="earliest", idle=0) as consumer:
            for number in range(6):
                store.put(reput.Message("orders", b"%d" % number))
                store.wait_dispatched()
                store.work()  # tells of the first queue
                assert bodies(consumer) == [str(number)]
                if number % 2:
                    consumer.commit(durable=True)
                    saved[0] = number + 1


@pytest.mark.proof
def test_after_a_power_cut_at_any_operation_groups_are_where_they_were_committed(tmp_path):
    saved = [0]
    root = tmp_path / "disk"
    root.mkdir()
    disk = SimulatedDisk(root, lambda: saved[0])

    live(root / "store", disk, saved)

    points = [*disk.points, disk.now()]
    assert points[-1].note == 6
    for number, point in enumerate(part(points if is_soak() else points[::5])):
        states = point.states() if is_soak() else itertools.islice(point.states(), 2)
        for other, state in enumerate(states):  # nothing lost, everything lost
            path = tmp_path / f"cut {number} {other}"
            state.materialize(path)
            check(path / "store", point.note)
            shutil.rmtree(path)


def check(path, note):
    if not (path / "commitlog").is_dir():
        assert note == 0
        return
    with reput.open(path, plugins=PLUGINS, config=CONFIG, threads=False) as store:
        store.wait_dispatched()
        queues = store.plugin(ConsumerPlugin).progress("g").queues
        found = {(each.topic, each.queue_id): each for each in queues}
        orders = found.get(("orders", 0))
        assert (orders.offset if orders else 0) >= note
        for each in found.values():
            assert each.offset <= each.max_offset
