"""The key index keeps what every plugin promises."""

from __future__ import annotations

from typing import Any, ClassVar

from reput_testing import PluginContract


class TestContract(PluginContract):
    plugin_name = "index"
    config: ClassVar = {"slots_per_file": 7, "items_per_file": 40}
    # RocketMQ's items have no checksum. What a changed byte says of one is believed, as long as
    # slots, chains and order agree with it.
    undetectable = frozenset({"garbled"})
    # Nothing says how many files there should be; and a file without items looks like one that the
    # writer has just made.
    undetectable_to_readers = frozenset({"removed", "zeroed"})

    def state(self, plugin: Any) -> object:
        """Where the messages of every key stand."""
        return {
            (topic, key): offsets
            for topic, key in keys_of_log(plugin.context.log)
            if (offsets := offsets_of(plugin, topic, key))
        }

    def test_every_message_of_the_sample_is_found_by_each_of_its_keys(self, tmp_path):
        with self.driver(tmp_path, self.log()) as driver:
            driver.catch_up()
            found = self.state(driver.plugin)

        expected: dict[tuple[str, str], list[int]] = {}
        for view in reversed(list(self.log().messages())):
            if view.transaction != 12:
                for key in dict.fromkeys(keys_of(view)):
                    expected.setdefault((view.topic, key), []).append(view.physical_offset)
        assert len(expected) > 10
        assert found == expected


class TestContractWithTags(TestContract):
    """The same of an index with items of tags."""

    config: ClassVar = {**TestContract.config, "tags": True}

    def state(self, plugin: Any) -> object:
        """Where the messages of every key and of all tags stand."""
        found = {}
        for batch in plugin.context.log.scan():
            for view in map(batch.message, range(len(batch))):
                if tags := view.properties.get("TAGS"):
                    answer = plugin.query_by_tag(view.topic, tags, -(1 << 63))
                    found[view.topic, tags] = [each.physical_offset for each in answer]
        return super().state(plugin), found

    def test_every_message_of_the_sample_is_found_by_each_of_its_keys(self, tmp_path):
        with self.driver(tmp_path, self.log()) as driver:
            driver.catch_up()
            _, found = self.state(driver.plugin)

        expected: dict[tuple[str, str], list[int]] = {}
        for view in reversed(list(self.log().messages())):
            tags = view.properties.get("TAGS")
            if tags and view.transaction != 12:
                expected.setdefault((view.topic, tags), []).append(view.physical_offset)
        assert len(expected) > 2
        assert {each: offsets for each, offsets in found.items() if offsets} == expected


def keys_of(view: Any) -> list[str]:
    """The unique key and the keys of a message, as RocketMQ splits them."""
    properties = view.properties
    words = properties.get("KEYS", "").split(" ")
    return [key for key in [properties.get("UNIQ_KEY"), *words] if key]


def keys_of_log(log: Any) -> list[tuple[str, str]]:
    """Topic and key of all messages, each pair once."""
    found = {}
    for batch in log.scan():
        for row in range(len(batch)):
            view = batch.message(row)
            found.update(dict.fromkeys((view.topic, key) for key in keys_of(view)))
    return list(found)


def offsets_of(plugin: Any, topic: str, key: str, **options: Any) -> list[int]:
    """Physical offsets of the messages that a plugin finds, the newest first."""
    question = {
        "begin": -(1 << 63),
        "end": (1 << 63) - 1,
        "limit": None,
        "oldest_first": False,
        "after": None,
        **options,
    }
    return [each.physical_offset for each in plugin.reput_query(topic=topic, key=key, **question)]
