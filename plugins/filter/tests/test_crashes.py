"""Bit maps and registered filters after power cuts, failing disks and killed writers."""

from __future__ import annotations

from typing import ClassVar

import pytest
from fixed_filters import FixedFilters, extend_units, with_bit_maps
from openstores import messages_in

import reput
import reput_filter
from reput_filter import RegisteredFilter
from reput_testing import (
    CrashContract,
    ExpectedState,
    KillContract,
    PowerCuts,
    QuickDisk,
    SimulatedDisk,
)
from reput_testing.crashes.killplan import PluginSource

pytest.importorskip("reput_consumequeue")

from reput_consumequeue import ConsumeQueuePlugin

pytestmark = [pytest.mark.proof, pytest.mark.sizes(consumequeue={"extend_file_size": 128})]
FORGETFUL = pytest.mark.sizes(filter={"forget_after_ms": 5_000})

SMALL = {"units_per_file": 3, "extend": True}


class QueuesWithBitMaps:
    """What the contracts compare: queues and extend files, built with the filter plugin beside."""

    plugin_name = "consumequeue"

    def files_of(self, root):
        return [f"{root}/consumequeue", f"{root}/consumequeue_ext"]

    def state(self, plugin):
        found = extend_units(plugin)
        maps = {bit_map for _, units in found.values() for *_, bit_map in units}
        assert None not in maps, "each message has a bit map"
        return found


class TestCrashes(QueuesWithBitMaps, CrashContract):
    config: ClassVar = SMALL

    def plugins(self):
        return ["consumequeue", with_bit_maps()]


class SmallQueues(ConsumeQueuePlugin):
    """Of small extend files, also in the process that is killed."""

    extend_file_size: ClassVar[int] = 1024


class TestKilled(QueuesWithBitMaps, KillContract):
    config: ClassVar = {"units_per_file": 30, "extend": True}
    kills = 15

    def sources(self):
        filters = PluginSource.of("filter", FixedFilters, {"bit_maps": True})
        return [PluginSource.of("consumequeue", SmallQueues, self.config), filters]


# --------------------------------------------------------------------------- filters that change

OPTIONS = {
    "plugins": ["consumequeue", "filter"],
    "config": {
        "commitlog": {"file_size": 4096},
        "consumequeue": SMALL,
        "filter": {"bit_maps": True},
    },
}
CONDITIONS = ("a > 5", "a < 3", "a <> 4")


def put_some(witness):
    messages = [
        reput.Message("T", b"%d" % number, properties={"a": str(number)}) for number in range(9)
    ]
    witness.put(*messages[:3])
    witness.put_many(messages[3:])
    witness.dispatched()


def changing(witness, root):
    """Filters come, change, leave, are forgotten and come back; messages in between."""
    plugin = witness.open(root).plugin_objects["filter"]
    plugin.register("g", "T", CONDITIONS[0], version=1)
    plugin.register("h", "T", CONDITIONS[2], version=1)
    put_some(witness)
    witness.flush()
    plugin.register("g", "T", CONDITIONS[1], version=2)
    put_some(witness)
    plugin.unregister("h")
    witness.flush()
    witness.close()
    plugin = witness.open(root).plugin_objects["filter"]
    plugin.register("g", "T", CONDITIONS[1], version=2)
    put_some(witness)
    witness.flush()  # h is forgotten
    put_some(witness)
    plugin.register("h", "T", CONDITIONS[0], version=3)
    put_some(witness)
    witness.close()


def check(witness, point, root):
    """Registered filters select what their conditions select."""
    witness.check(root, point.note)
    with reput.open(root, threads=False, disk=QuickDisk(), **witness.arguments()) as store:
        assert store.wait_dispatched(60)
        assert_filtered_reads_are_right(store)


def assert_filtered_reads_are_right(store):
    registered = 0
    for info in store.queues():
        messages = messages_in(store, info.topic, info.queue_id)
        for condition in CONDITIONS:
            chosen = store.filter(condition, topic=info.topic)
            registered += isinstance(chosen, RegisteredFilter)
            plain = reput_filter.compile(condition)
            assert messages_in(store, info.topic, info.queue_id, filter=chosen) == [
                message for message in messages if plain.matches(message)
            ]
    return registered


@FORGETFUL
def test_without_a_crash_the_bit_maps_of_that_life_decide(tmp_path):
    witness = ExpectedState(OPTIONS)
    changing(witness, str(tmp_path / "store"))

    with reput.open(tmp_path / "store", threads=False, **OPTIONS) as store:
        assert assert_filtered_reads_are_right(store) == 2
        chosen = store.filter(CONDITIONS[1], topic="T")
        queue = store.plugin_objects["consumequeue"].queues["T", 0]
        units = queue.extend.read(queue.files.read(30, 3)["tags_code"].astype("i8"))
        left = chosen.may_match(units.tags_codes, units.bit_maps, units.store_timestamps)

    assert not left.all()


@FORGETFUL
@pytest.mark.parametrize("again", [(), (3,)])
@pytest.mark.costly
def test_whatever_a_power_cut_leaves_registered_filters_lose_no_message(
    tmp_path, again, record_property
):
    cuts = PowerCuts(tmp_path, tries=8 if again else 30)

    cuts.live(ExpectedState(OPTIONS), changing, check, again=again)

    record_property("crash states", cuts.tried_count)


def test_a_filter_is_registered_durably_in_a_store_without_a_directory_config(tmp_path):
    root = tmp_path / "disk"
    root.mkdir()
    disk = SimulatedDisk(root)
    with reput.open(
        root / "store", plugins=["consumequeue", "filter"], disk=disk, threads=False
    ) as store:
        store.plugin("filter").register_group("g", {"orders": "a > 1"})
        # Nothing lost, then everything that is not on disk: one state, where all is.
        everything_lost = list(disk.crash_states(most=0, random_count=0))[:2][-1]

    assert "store/config/consumerFilter.json" in everything_lost.image()
