"""A power cut while queues are rebuilt: the next opening has all of them, old or new."""

from __future__ import annotations

import shutil

import pytest
from openstores import bodies_in

import reput
from reput_testing import QuickDisk, snapshot
from reput_testing.casebudget import is_soak
from reput_testing.disks.simulateddisk import SimulatedDisk
from reput_tools.offline import rebuild

pytestmark = pytest.mark.proof

CONFIG = {
    "commitlog": {"file_size": 8192},
    "consumequeue": {"units_per_file": 5},
}


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.costly
def test_whatever_is_left_opens_with_the_queues_of_its_log(tmp_path, is_there, record_property):
    live = tmp_path / "live"
    with reput.open(live, plugins=["consumequeue"], config=CONFIG, threads=False) as store:
        for number in range(40):
            store.put(reput.Message(f"T{number % 3}", b"%d" % number))
    wanted = snapshot(live / "consumequeue")
    if not is_there:
        shutil.rmtree(live / "consumequeue")
    disk = SimulatedDisk(live)

    rebuild(live, jobs=1, disk=disk)

    states = [state for point in disk.points for state in point.states(most=6, random_count=2)]
    # All of them in a soak; else some of them, evenly spread.
    tried = states if is_soak() else states[:: max(len(states) // 60, 1)]
    for number, state in enumerate(tried):
        root = tmp_path / f"state {number}"
        state.materialize(root)
        assert_opens_with(root, wanted, str(state))
        shutil.rmtree(root)
    record_property("crash states", len(states))


def assert_opens_with(root, wanted, state):
    with reput.open(root, config=CONFIG, threads=False, disk=QuickDisk()) as store:
        store.wait_dispatched()
        found = [
            int(body)
            for info in store.queues()
            for body in bodies_in(store, info.topic, info.queue_id)
        ]
    assert sorted(found) == list(range(40)), state
    assert snapshot(root / "consumequeue") == wanted, state
