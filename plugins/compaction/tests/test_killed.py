"""Writers are killed while their topics are compacted all the time."""

from __future__ import annotations

from typing import ClassVar

import attrs
import pytest

from reput_compaction import CompactionPlugin
from reput_testing import KillLoop
from reput_testing.casebudget import is_whole
from reput_testing.crashes.expectedstate import messages_of
from reput_testing.crashes.killloop import kill_count
from reput_testing.crashes.killplan import PluginSource

pytestmark = pytest.mark.proof

SECTION = {
    "topics": ["orders", "payments", "%RETRY%orders-group"],
    "interval_ms": 1,
    "roll_ms": 1,
}


@attrs.define(eq=False)
class QuietPlugin(CompactionPlugin):
    """Lets messages without keys pass, which the kit puts; the kit reads nothing through it."""

    reput_put = None
    reput_read = None
    reput_queues = None
    log_file_size: ClassVar[int] = 1 << 16
    queue_file_size: ClassVar[int] = 1 << 10


@pytest.mark.costly
def test_whenever_a_writer_is_killed_the_latest_value_of_every_key_is_there(tmp_path):
    runs = []

    def check(store):
        plugin = store.plugin_objects["compaction"]
        runs.extend(queue.checkpoint for queue in plugin.queues.values())
        assert_latest(store, plugin)
        store.flush()
        store.plugin("compaction").compact()
        assert_latest(store, plugin)
        assert plugin.worker.failures == {}

    source = PluginSource.of("compaction", QuietPlugin, SECTION)

    KillLoop(tmp_path, [source], config={"compaction": SECTION}, check=check).run(kill_count(25))

    # Chance decides whether a writer compacts before it dies.
    compacted = sum(checkpoint > 0 for checkpoint in runs)
    assert compacted > 3 or not is_whole(), "nothing was compacted before a kill"


def assert_latest(store, plugin):
    expected, stored = {}, {}
    for view in messages_of(store):
        if view.properties.get("KEYS") and view.transaction in (0, 8):
            queue = view.topic, view.queue_id
            expected.setdefault(queue, {})[view.properties["KEYS"]] = view.queue_offset
            stored[queue, view.queue_offset] = view.record
    found = {}
    for info in plugin.extents():
        queue, at = (info.topic, info.queue_id), info.min_queue_offset
        while at < info.max_queue_offset:
            result = CompactionPlugin.reput_read(plugin, *queue, at, 50, 1 << 20)
            assert result.holes == ()
            for view in result:
                found.setdefault(queue, {})[view.properties["KEYS"]] = view.queue_offset
                assert view.record[36:] == stored[queue, view.queue_offset][36:]
            at = result.next_queue_offset
    assert found == expected
