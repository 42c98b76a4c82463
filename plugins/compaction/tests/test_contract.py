"""Compacted topics keep what every plugin promises; none of these tests compacts."""

from __future__ import annotations

import os
from typing import ClassVar

import attrs
import pytest

from reput.plugin import MissingMessage
from reput_compaction import CompactionPlugin
from reput_testing import (
    CrashContract,
    KillContract,
    PluginContract,
    SmallLog,
    sample_log,
)

TOPICS = ["orders", "payments", "%RETRY%orders-group", "T"]
CONFIG = {"topics": TOPICS}
pytestmark = pytest.mark.sizes(compaction={"log_file_size": 1200, "queue_file_size": 200})


@attrs.define(eq=False)
class QuietPlugin(CompactionPlugin):
    """Takes messages without keys, and leaves them out as those that were in the log before it.

    Nor does it answer reads: what the kit puts and reads has keys or none, as it comes.
    """

    reput_put = None
    reput_read = None
    reput_queues = None


class LargerQuietPlugin(QuietPlugin):
    """Of larger files, also in the process that is killed."""

    log_file_size: ClassVar[int] = 1 << 16
    queue_file_size: ClassVar[int] = 1 << 12


class Compacted:
    """How the tests see the plugin."""

    plugin_name = "compaction"
    config: ClassVar = CONFIG

    def files_of(self, root):
        return [os.path.join(root, "compaction"), os.path.join(root, "reput", "compaction")]

    def state(self, plugin):
        """Messages of all queues, as their readers see them."""
        return {
            (info.topic, info.queue_id): facts
            for info in plugin.extents()
            if (facts := [facts_of(each) for each in messages_of(plugin, info)])
        }


def messages_of(plugin, info):
    at = info.min_queue_offset
    while at < info.max_queue_offset:
        result = CompactionPlugin.reput_read(plugin, info.topic, info.queue_id, at, 2, 1 << 20)
        yield from result.holes
        yield from result
        assert result.next_queue_offset > at
        at = result.next_queue_offset


def with_key(message, number):
    return {"properties": (message.properties or b"") + b"KEYS\x01key-%d\x02" % (number % 5)}


def facts_of(view):
    if isinstance(view, MissingMessage):
        return view.queue_offset, view.reason
    return view.queue_offset, view.properties["KEYS"], view.body, view.store_timestamp


def ends_of(plugin):
    """Queue offset to physical offset behind the record, by queue."""
    found = {}
    for key, queue in plugin.queues.items():
        for pair in queue.pairs:
            notes = queue.files.read_notes(pair, 0, pair.count).tolist()
            found.setdefault(key, {}).update(notes)
    return found


class TestContract(Compacted, PluginContract):
    # RocketMQ's units have no checksum, and neither have our notes. What a changed byte says is
    # believed where it leads to a record; records have checksums for their bodies only.
    undetectable = frozenset({"garbled"})
    # Nothing says how many files there should be, and where the last one should end: it may be one
    # that the writer has just made.
    undetectable_to_readers = frozenset({"removed", "zeroed", "emptied", "torn"})

    def log(self):
        """The sample, all messages with keys, or of a topic that is not compacted."""
        log = SmallLog()
        for number, view in enumerate(sample_log().messages()):
            message = view.to_message()
            if not view.properties.get("KEYS"):
                message = attrs.evolve(
                    message, **({"topic": "plain"} if number % 3 else with_key(message, number))
                )
            log.append(message, after_ms=1 + number % 7 * 1_200_000)
        return log

    def trimmed_state(self, plugin):
        """What was stored in the part of the log that is left; the rest stays, as it should."""
        begins, ends = plugin.context.log.min_physical_offset, ends_of(plugin)
        kept = {
            key: [each for each in facts if ends[key][each[0]] > begins]
            for key, facts in self.state(plugin).items()
        }
        return {key: facts for key, facts in kept.items() if facts}

    def test_messages_with_keys_are_kept_and_no_others(self, tmp_path):
        with self.driver(tmp_path, self.log()) as driver:
            driver.catch_up()
            found = self.state(driver.plugin)

        expected = {}
        for view in self.log().messages():
            if view.transaction in (0, 8) and view.properties.get("KEYS", "").strip():
                expected.setdefault((view.topic, view.queue_id), []).append(facts_of(view))
        assert sum(map(len, expected.values())) > 20
        assert found == expected


@pytest.mark.proof
class TestCrashes(Compacted, CrashContract):
    plugin_type = QuietPlugin


@pytest.mark.proof
class TestKilled(Compacted, KillContract):
    plugin_type = LargerQuietPlugin
