"""The power goes while files are exchanged: the latest value of every key is still there."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from openstores import reads

import reput
from reput_compaction import CompactionPlugin
from reput_testing import ExpectedState, PowerCuts, QuickDisk, snapshot
from reput_testing.crashes.expectedstate import messages_of
from reput_tools.offline import LocalEngine

pytestmark = [
    pytest.mark.proof,
    pytest.mark.sizes(compaction={"log_file_size": 1200, "queue_file_size": 200}),
]


@attrs.define(eq=False)
class QuietPlugin(CompactionPlugin):
    """Lets messages without keys pass, which the witness puts."""

    reput_put = None


def options_for(**more: Any) -> dict[str, Any]:
    log = {"file_size": 16_384, "flush": "async"}
    config = {"commitlog": log, "compaction": {"topics": ["t"], **more}}

    def plugins():
        return [QuietPlugin.from_section("compaction", config["compaction"])]

    return {"plugins": plugins, "config": config}


def message(number, key, body=b"value"):
    return reput.Message("t", b"%s %d" % (body, number) if body else b"", keys=f"k{key}")


def compacted(witness, root):
    witness.open(root)
    witness.put(*(message(number, number % 3) for number in range(12)))
    witness.dispatched()
    witness.flush()
    witness.store.plugin("compaction").compact()
    witness.put(message(20, 0), message(21, 1, b""), message(22, 5))
    witness.dispatched()
    witness.close()


def compacted_again(witness, root):
    witness.open(root)
    witness.put(*(message(number, number % 4) for number in range(9)))
    witness.dispatched()
    witness.store.plugin("compaction").compact()
    witness.put(*(message(number, number % 2) for number in range(20, 26)))
    witness.dispatched()
    witness.store.plugin("compaction").compact()
    witness.put(message(30, 7))
    witness.dispatched()
    witness.flush()
    witness.store.plugin("compaction").compact()
    witness.close()


def cut_in_the_middle(witness, root):
    """Messages come, and are not flushed, while older ones are compacted."""
    witness.open(root)
    witness.put(*(message(number, number % 3) for number in range(8)))
    witness.dispatched()
    witness.flush()
    plugin = witness.store.plugin_objects["compaction"]
    queue = plugin.queues["t", 0]
    queue.close_last()
    run = plugin.worker._begin(queue, 0)
    assert run is not None
    for number, _ in enumerate(run.steps()):
        if number % 2:
            witness.put(message(40 + number, number % 3, b"meanwhile"))
            witness.dispatched()
    witness.close()


def compacted_by_tasks(witness, root):
    """A job over two old pairs, in the fewest tasks: every file of theirs is many states more."""
    witness.open(root)
    witness.put(*(message(number, number % 2) for number in range(5)), message(5, 0, b""))
    witness.dispatched()
    witness.store.plugin("compaction").compact(engine=LocalEngine(1))
    witness.close()


WORKLOADS = {
    each.__name__: each
    for each in (compacted, compacted_again, cut_in_the_middle, compacted_by_tasks)
}


def check(witness, point, root):
    witness.check(root, point.note)
    options = witness.arguments()
    with reput.open(root, "r", **options) as store:
        assert_latest(store)
    with reput.open(root, threads=False, disk=QuickDisk(), **witness.arguments()) as store:
        store.wait_dispatched()
        assert_latest(store)
        store.flush()
        before = latest_of(read_all(store))
        store.plugin("compaction").compact()
        assert latest_of(read_all(store)) == before
        assert_latest(store)
    names = snapshot(root, [f"{root}/compaction", f"{root}/reput/compaction"])
    logs = sorted(name.split("/")[-1] for name in names if "/compactionLog/" in name)
    queues = sorted(name.split("/")[-1] for name in names if "/compactionCq/" in name)
    assert logs == queues
    assert not any("compacting" in name or "replacing" in name for name in names)


def assert_latest(store):
    """What is read says of every key what the log says, as far as it has come."""
    found = read_all(store)
    end = found[-1].queue_offset + 1 if found else 0
    wanted = [
        view
        for view in messages_of(store)
        if view.topic == "t" and view.properties.get("KEYS") and view.queue_offset < end
    ]
    assert latest_of(found) == latest_of(wanted)
    for view in found:
        (original,) = (each for each in wanted if each.queue_offset == view.queue_offset)
        assert view.record[36:] == original.record[36:]


def latest_of(views):
    latest = {view.properties["KEYS"]: view.body for view in views}
    return {key: body for key, body in latest.items() if body}


def read_all(store):
    results = list(reads(store, "t", 0, 0, 3))
    assert all(result.holes == () for result in results)
    return [view for result in results for view in result]


@pytest.mark.shows("compaction")
@pytest.mark.parametrize("retention", [0, 10**9])
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.costly
def test_whatever_a_power_cut_leaves_has_the_latest_value_of_every_key(
    tmp_path, workload, retention, record_property
):
    cuts = PowerCuts(tmp_path, tries=60)
    witness = ExpectedState(options_for(tombstone_retention_ms=retention))

    cuts.live(witness, WORKLOADS[workload], check)

    record_property("crash states", cuts.tried_count)


@pytest.mark.shows("compaction")
@pytest.mark.costly
def test_a_crash_while_an_exchange_is_finished_costs_nothing(tmp_path, record_property):
    cuts = PowerCuts(tmp_path, tries=10)

    cuts.live(ExpectedState(options_for()), compacted, check, again=(4, 1))

    record_property("crash states", cuts.tried_count)
