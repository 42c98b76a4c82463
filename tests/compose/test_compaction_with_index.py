"""A compacted topic beside queues and index: searches are the log's, reads are the topic's."""

from __future__ import annotations

import numpy as np
import pytest
from openstores import bodies_in

import reput
from reput_testing import ManualClock, QuickDisk

pytestmark = pytest.mark.sizes(compaction={"log_file_size": 1200, "queue_file_size": 200})

PLUGINS = ["consumequeue", "index", "compaction"]
CONFIG = {
    "commitlog": {"file_size": 4096},
    "index": {"slots_per_file": 100, "items_per_file": 400},
    "consumequeue": {"units_per_file": 10},
    "compaction": {"topics": ["prices"]},
}


def open_store(root):
    return reput.open(
        root,
        plugins=PLUGINS,
        config=CONFIG,
        clock=ManualClock(),
        disk=QuickDisk(),
        threads=False,
    )


def put(store, numbers):
    for number in numbers:
        store.put(reput.Message("prices", b"%d" % number, keys=f"k{number % 4}"))
        store.put(reput.Message("orders", b"o%d" % number, keys=f"k{number % 4}"))
    store.wait_dispatched()
    store.flush()


def bodies(store, topic="prices"):
    return bodies_in(store, topic)


def found_by_key(store, topic, key):
    return [view.body for view in store.query(topic, key, oldest_first=True)]


def test_searches_find_what_the_log_has_before_and_after_a_compaction(tmp_path):
    with open_store(tmp_path) as store:
        put(store, range(40))
        expected = [b"%d" % number for number in range(1, 40, 4)]
        assert found_by_key(store, "prices", "k1") == expected
        assert bodies(store) == [b"%d" % number for number in range(40)]

        store.plugin("compaction").compact()

        assert found_by_key(store, "prices", "k1") == expected
        assert bodies(store) == [b"36", b"37", b"38", b"39"]
        assert bodies(store, "orders") == [b"o%d" % number for number in range(40)]


def test_when_the_log_has_lost_its_head_reads_go_on_and_searches_find_the_rest(tmp_path):
    with open_store(tmp_path) as store:
        put(store, range(8))
        store.put(reput.Message("prices", b"old", keys="seldom"))
        put(store, range(8, 60))
        store.plugin("compaction").compact()
    files = sorted((tmp_path / "commitlog").iterdir())
    for path in files[:-2]:
        path.unlink()

    with open_store(tmp_path) as store:
        store.wait_dispatched()
        assert bodies(store) == [b"old", b"56", b"57", b"58", b"59"]
        assert found_by_key(store, "prices", "seldom") == []
        assert found_by_key(store, "prices", "k3")[-1] == b"59"
        assert store.read("orders", 0, 0).min_queue_offset > 0

        put(store, range(60, 63))
        store.plugin("compaction").compact()

        assert bodies(store) == [b"old", b"59", b"60", b"61", b"62"]
        assert found_by_key(store, "prices", "k2")[-1] == b"62"


def test_every_queue_is_listed_once_and_offsets_go_on(tmp_path):
    with open_store(tmp_path) as store:
        put(store, range(5))
        store.plugin("compaction").compact()
        assert [(info.topic, info.queue_id) for info in store.queues()] == [
            ("orders", 0),
            ("prices", 0),
        ]

    with open_store(tmp_path) as store:
        receipt = store.put(reput.Message("prices", b"next", keys="k"))
        assert receipt.queue_offset == 5


def test_a_filter_selects_of_what_is_kept(tmp_path):
    with open_store(tmp_path) as store:
        for number, tag in enumerate(["a", "b", "a", "b"]):
            store.put(reput.Message("prices", b"%d" % number, tags=tag, keys=f"k{number % 3}"))
        store.wait_dispatched()
        store.plugin("compaction").compact()

        result = store.read("prices", 0, 0, filter=TaggedA())

        assert [view.body for view in result] == [b"2"]
        assert result.next_queue_offset == 4


class TaggedA:
    """Selects messages with the tag ``a``."""

    def matches(self, message):
        return message.tags == "a"

    def matches_batch(self, batch):
        return np.array([self.matches(batch.message(row)) for row in range(len(batch))])

    def may_match(self, tags_codes, bit_maps, store_timestamps):
        return np.ones(len(tags_codes), bool)
