"""A power cut at any moment: queues are what the log that is left says, byte for byte."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import ClassVar

import crashlives
import pytest
from crashlives import message, one
from openstores import messages_in
from statefiles import put_value, value_of

import reput
from reput_testing import CrashContract, ExpectedState, PowerCuts, QuickDisk, place, snapshot
from reput_testing.crashes.expectedstate import messages_of

pytestmark = [pytest.mark.proof, pytest.mark.shows("power-cut")]


options_for = functools.partial(
    crashlives.options_for, plugins=["consumequeue"], consumequeue={"units_per_file": 3}
)


def several(witness, root):
    witness.open(root)
    witness.put(*map(message, range(4)))
    witness.dispatched()
    witness.flush()
    witness.put(message(4), message(6))
    witness.dispatched()
    witness.put(message(8))
    witness.close()


def rolling(witness, root):
    witness.open(root)
    witness.put_many([message(2 * n, 600) for n in range(8)])
    witness.dispatched()
    witness.put_many([message(n, 600) for n in range(16, 20)])
    witness.flush()
    witness.put(message(30, 1200))
    witness.close()


def reopened(witness, root):
    witness.open(root)
    witness.put(message(0), message(1, 3000))
    witness.close()
    witness.open(root)
    witness.put(message(2, 3000), message(4))
    witness.dispatched()
    witness.flush()
    witness.put(message(6), message(7))
    witness.close()


WORKLOADS = {each.__name__: each for each in (one, several, rolling, reopened)}


def check(witness, point, root):
    """What is there can be read through its queues, and those are what the log says."""
    witness.check(root, point.note)
    assert_queues_are_the_logs(Path(root), witness.options)


def assert_queues_are_the_logs(root, options):
    with reput.open(root, "r", **options) as store:
        wanted = [view for view in messages_of(store) if view.transaction in (0, 8)]
        found = [
            facts_of(message)
            for info in store.queues()
            for message in messages_in(store, info.topic, info.queue_id)
        ]
        assert sorted(found) == sorted(map(facts_of, wanted))
    assert snapshot(root / "consumequeue") == built_anew(root, options)


def facts_of(view):
    return view.physical_offset, view.topic, view.queue_id, view.queue_offset, view.body


_built = {}


def built_anew(root, options):
    """Files of queues that are built from a store's log and the list of what that lost."""
    log, losses = snapshot(root, [root / "commitlog"]), value_of(root, ".losses")
    key = hashlib.sha256(repr((sorted(log.items()), losses)).encode()).digest()
    if key not in _built:
        anew = root.with_name("anew")
        place(log, anew)
        if losses:
            put_value(anew, ".losses", losses)
        with reput.open(anew, threads=False, disk=QuickDisk(), **options) as store:
            store.wait_dispatched()
        _built[key] = snapshot(anew / "consumequeue")
    return _built[key]


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_whatever_a_power_cut_leaves_has_the_queues_of_its_log(
    tmp_path, workload, flush, record_property
):
    cuts = PowerCuts(tmp_path, tries=20)

    cuts.live(ExpectedState(options_for(flush)), WORKLOADS[workload], check)

    record_property("crash states", cuts.tried_count)


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.costly
def test_a_crash_while_a_crash_is_recovered_from_costs_no_unit(tmp_path, flush, record_property):
    cuts = PowerCuts(tmp_path, tries=8)

    cuts.live(ExpectedState(options_for(flush)), rolling, check, again=(4, 1))

    record_property("crash states", cuts.tried_count)


class TestCrashes(CrashContract):
    plugin_name = "consumequeue"
    config: ClassVar = {"units_per_file": 3}

    def state(self, plugin):
        """All queues' units, as their readers see them."""
        return {
            (info.topic, info.queue_id): (info.min_queue_offset, list(units_of(plugin, info)))
            for info in plugin.reput_queues()
            if info.max_queue_offset > 0  # a crash may leave the directory of a queue without any
        }


def units_of(plugin, info):
    for at in range(info.min_queue_offset, info.max_queue_offset):
        result = plugin.reput_read(info.topic, info.queue_id, at, 1, 1 << 20)
        yield result.status, [view.physical_offset for view in result.messages]
