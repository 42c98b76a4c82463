"""A store that RocketMQ wrote, with all transaction bits in it: read, and built again."""

from __future__ import annotations

import shutil

import pytest

import reput
from reput_testing import snapshot

PLUGINS = ["consumequeue", "transaction"]


@pytest.mark.parametrize("mode", ["r", "w"])
def test_every_queue_is_read_as_java_reads_it(mode, golden_store, golden_rows):
    with reput.open(golden_store("transaction"), mode, plugins=PLUGINS, threads=False) as store:
        for row in golden_rows("transaction", "get"):
            answer = store.read(row["topic"], row["queue_id"], row["offset"], row["max_count"])
            found = [message.physical_offset for message in answer]
            assert found == row["physical_offsets"], row
        # Links that lead to no half message end nothing, and nothing was parked.
        assert store.plugin("transaction").dangling() == []


def test_built_again_beside_the_plugin_the_queues_are_javas_byte_for_byte(golden_store):
    root = golden_store("transaction")
    javas = snapshot(root / "consumequeue")
    shutil.rmtree(root / "consumequeue")

    config = {"consumequeue": {"units_per_file": 100}}
    with reput.open(root, plugins=PLUGINS, config=config, threads=False) as store:
        end = store.log.max_physical_offset
        store.wait_dispatched()
        store.work()
        assert store.log.max_physical_offset == end, "opening it has put something"

    assert snapshot(root / "consumequeue") == javas


def test_records_put_again_are_javas_but_for_time_and_place(golden_store, golden_rows, tmp_path):
    rows = golden_rows("transaction", "put")
    assert {row["sys_flag"] & 0xC for row in rows} == {0, 4, 8, 12}
    config = {"commitlog": {"file_size": 65_536, "store_address": "192.168.0.7:10911"}}
    clock = iter([row["store_timestamp"] for row in rows] + [0] * 9)

    with (
        reput.open(golden_store("transaction"), "r", plugins=[]) as source,
        reput.open(
            tmp_path / "ours",
            plugins=PLUGINS,
            config=config,
            threads=False,
            clock=lambda: next(clock, 0),
        ) as store,
    ):
        for row in rows:
            record = source.get(row["physical_offset"])
            receipt = store.put(record.to_message())
            assert receipt.topic == row["topic"]
            assert receipt.physical_offset == row["physical_offset"]
            ours = store.get(receipt.physical_offset)
            assert ours.queue_offset == row["queue_offset"]
            assert ours.properties_text == record.properties_text
            assert ours.sys_flag == row["sys_flag"]
            assert ours.prepared_transaction_offset == row["prepared_transaction_offset"]
