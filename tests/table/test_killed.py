"""Each message of the log counts once in a table, over kills of the writer."""

from __future__ import annotations

from collections import Counter

import pytest

from reput_counter import CounterPlugin
from reput_testing import KillLoop
from reput_testing.casebudget import is_whole
from reput_testing.crashes.killloop import kill_count
from reput_testing.crashes.killplan import PluginSource

pytestmark = pytest.mark.shows("table")


class SmallParts(CounterPlugin):
    """Parts of the log of a few messages each."""

    name = "counter"
    part_size = 1_000


@pytest.mark.proof
@pytest.mark.costly
def test_each_message_counts_once_after_every_kill(tmp_path):
    counted = []

    def check(store):
        columns = "topic, tag, minute, sum(messages), sum(body_size)"
        rows = store.plugin("counter").query(f"SELECT {columns} FROM counter GROUP BY 1, 2, 3")
        messages, sizes = Counter(), Counter()
        for batch in store.scan():
            for view in map(batch.message, range(len(batch))):
                key = view.topic, view.tags or "", view.store_timestamp // 60_000
                messages[key] += 1
                sizes[key] += len(view.body)
        assert {row[:3]: row[3:] for row in rows} == {
            key: (count, sizes[key]) for key, count in messages.items()
        }
        counted.append(sum(messages.values()))

    source = PluginSource.of("counter", SmallParts, {})

    loop = KillLoop(tmp_path, [source], config={"counter": {}}, check=check)
    loop.run(kill_count(25))

    assert loop.killed_count >= kill_count(25)
    assert max(counted) > 0 or not is_whole()  # chance decides when a writer dies
