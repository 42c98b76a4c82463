"""The consume queues keep what every plugin promises."""

from __future__ import annotations

from typing import Any, ClassVar

from reput_testing import PluginContract


class TestContract(PluginContract):
    plugin_name = "consumequeue"
    config: ClassVar = {"units_per_file": 10}
    # RocketMQ's units have no checksum, and no queue says how long it is: another tags code looks
    # as good as the right one, and zeros look like unused space.
    undetectable = frozenset({"garbled", "zeroed", "removed"})
    # A writer makes a file and then gives it its size.
    undetectable_to_readers = frozenset({"emptied"})

    def state(self, plugin: Any) -> object:
        """All queues' units, as their readers see them."""
        return {
            (info.topic, info.queue_id): (
                info.min_queue_offset,
                info.max_queue_offset,
                list(units_of(plugin, info)),
            )
            for info in plugin.reput_queues()
            if info.max_queue_offset > 0
        }

    def trimmed_state(self, plugin: Any) -> object:
        """Queues with messages: one whose messages were all trimmed keeps its next offset."""
        return {queue: units for queue, units in self.state(plugin).items() if units[2]}

    def test_every_message_of_the_sample_is_read_back(self, tmp_path):
        with self.driver(tmp_path, self.log()) as driver:
            driver.catch_up()
            queues = self.state(driver.plugin)

        found = sorted(
            physical_offset for *_, units in queues.values() for _, physical_offset, _ in units
        )
        listed = [view for view in self.log().messages() if view.transaction in (0, 8)]
        assert found == [view.physical_offset for view in listed]


def units_of(plugin, info):
    """Queue offset, physical offset and size of every message of a queue."""
    at = info.min_queue_offset
    while at < info.max_queue_offset:
        result = plugin.reput_read(
            topic=info.topic,
            queue_id=info.queue_id,
            queue_offset=at,
            max_count=32,
            max_bytes=1 << 20,
        )
        for queue_offset, view in zip(result.queue_offsets, result.messages, strict=True):
            yield queue_offset, view.physical_offset, view.size
        if result.next_queue_offset <= at:
            yield "stuck", at, result.status
            return
        at = result.next_queue_offset
