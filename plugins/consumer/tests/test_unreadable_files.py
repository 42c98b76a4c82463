"""A store whose configuration cannot be read: nothing is lost, and nobody reads what he may not."""

from __future__ import annotations

import attrs
import pytest

import reput
from reput_tools.brokerfiles import UnreadableDocumentError

SIZES = {"commitlog": {"file_size": 1 << 20}}
PLUGINS = ["consumequeue", "consumer"]


@pytest.fixture
def root(tmp_path):
    """A store of ten messages, three groups that have read two each, and one that may not read."""
    path = tmp_path / "store"
    with reput.open(path, plugins=PLUGINS, config=SIZES) as store:
        for number in range(10):
            store.put(reput.Message("t", b"%d" % number))
        store.wait_dispatched()
        for group in ("red", "green", "blue"):
            with store.consumer(group, "t", start="earliest", until="end", explicit=True) as member:
                for _ in range(2):
                    member.next(5).ack()
        plugin = store.plugin("consumer")
        groups = plugin.subscription_groups
        groups.put(attrs.evolve(groups.get("red"), consume_enable=False))
        plugin.delete_topic("gone")
        store.put(reput.Message("gone", b"x"))
        store.wait_dispatched()
        plugin.delete_topic("gone")
    return path


def tear(path):
    """Leave the first half of a file, and no backup."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    path.with_name(f"{path.name}.bak").unlink(missing_ok=True)
    return data[: len(data) // 2]


def bodies(store, group, **options):
    with store.consumer(group, "t", until="end", **options) as member:
        return [message.body for message in member]


def test_a_group_without_its_offset_misses_no_message(root, caplog):
    torn = tear(root / "config" / "consumerOffset.json")

    with reput.open(root) as store:
        assert len(bodies(store, "new")) == 10
    assert "; a group without an offset begins at the first message that is there" in caplog.text
    assert (root / "config" / "consumerOffset.json.unreadable").read_bytes() == torn

    with reput.open(root) as store:  # the file is valid by now, and has the one group
        assert len(bodies(store, "blue")) == 10
    for each in (root / "config").glob("consumerOffset.json.unreadable*"):
        each.unlink()

    with reput.open(root) as store:
        assert bodies(store, "green") == []  # as it asked for the latest


@pytest.mark.parametrize(
    "name",
    ["config/subscriptionGroup.json", "config/topics.json", "reput/consumer/deletedTopics.json"],
)
def test_nobody_reads_where_settings_are_not_known(root, name):
    torn = tear(root / name)

    with reput.open(root) as store:
        for group in ("red", "green", "new"):
            with pytest.raises(UnreadableDocumentError, match=name.rpartition("/")[2]):
                store.consumer(group, "t")
            with pytest.raises(UnreadableDocumentError):
                store.pop_consumer(group, "t")
            with pytest.raises(UnreadableDocumentError):
                store.consumer(group, "t", broadcast=True)

    assert (root / name).read_bytes() == torn


def test_groups_read_again_once_the_file_was_corrected(root):
    path = root / "config" / "subscriptionGroup.json"
    whole = path.read_bytes()
    tear(path)
    with reput.open(root) as store:
        with pytest.raises(UnreadableDocumentError):
            store.consumer("green", "t")

        path.write_bytes(whole)

        assert len(bodies(store, "green")) == 8
        with pytest.raises(reput.ReputError, match="consumeEnable is false"):
            store.consumer("red", "t")


def test_a_file_that_was_renamed_counts_as_missing(root):
    path = root / "config" / "subscriptionGroup.json"
    tear(path)
    path.rename(path.with_name("old.json"))

    with reput.open(root) as store:
        assert len(bodies(store, "red")) == 8


@pytest.mark.parametrize("other", [b'{"topicConfigTable":{}}', b'{"a":{"a":1}}'])
def test_a_file_with_the_content_of_another_counts_as_unreadable(root, other):
    for name in ("consumerOffset.json", "subscriptionGroup.json"):
        (root / "config" / name).write_bytes(other)
        (root / "config" / f"{name}.bak").unlink(missing_ok=True)

    with reput.open(root) as store:
        with pytest.raises(UnreadableDocumentError, match="forbiddenTable"):
            store.consumer("red", "t")
        (root / "config" / "subscriptionGroup.json").unlink()
        assert len(bodies(store, "blue")) == 10

    assert (root / "config" / "consumerOffset.json.unreadable").read_bytes() == other


def test_a_number_that_no_count_of_queues_can_be_leaves_what_is_beside_it(root):
    for name, member in (("subscriptionGroup", "retryQueueNums"), ("topics", "readQueueNums")):
        path = root / "config" / f"{name}.json"
        text = path.read_text().replace(f'"{member}":1', f'"{member}":1000000')
        path.write_text(text.replace('"perm":6', '"perm":2'))

    with reput.open(root) as store:
        plugin = store.plugin("consumer")
        plugin.subscription_groups.ensure("red")

        assert plugin.topics.get("%RETRY%red").read_queue_nums == 65_536
        assert plugin.topics.get("t").perm == 2
        assert plugin.subscription_groups.get("red").consume_enable is False


@pytest.mark.parametrize("name", ["topics.json", "subscriptionGroup.json"])
def test_settings_are_not_changed_where_the_others_cannot_be_read(root, name):
    torn = tear(root / "config" / name)

    with reput.open(root) as store:
        plugin = store.plugin("consumer")
        table = plugin.topics if name == "topics.json" else plugin.subscription_groups
        with pytest.raises(UnreadableDocumentError):
            table.put(table.default_of("another"))
        with pytest.raises(UnreadableDocumentError):
            table.remove("t")

    assert (root / "config" / name).read_bytes() == torn


def test_request_modes_are_not_changed_where_the_others_cannot_be_read(root):
    path = root / "config" / "messageRequestMode.json"
    path.write_bytes(b'{"messageRequestModeMap":{"t":{"g":{"mode":"POP"')

    with reput.open(root) as store:
        modes = store.plugin("consumer").popper.modes
        with pytest.raises(UnreadableDocumentError):
            modes.put("t", "green", modes.get("t", "red"))

    assert path.read_bytes() == b'{"messageRequestModeMap":{"t":{"g":{"mode":"POP"'


def test_what_an_open_store_knows_is_written_again_where_a_file_was_removed(root):
    with reput.open(root) as store:
        for name in ("consumerOffset.json", "subscriptionGroup.json"):
            for suffix in ("", ".bak"):
                (root / "config" / f"{name}{suffix}").unlink(missing_ok=True)
        plugin = store.plugin("consumer")
        assert not plugin.subscription_groups.remove("nobody")  # although it writes the file
        plugin.subscription_groups.put(attrs.evolve(plugin.subscription_groups.get("blue")))
        assert bodies(store, "green") == [b"%d" % number for number in range(2, 10)]

    with reput.open(root) as store:
        plugin = store.plugin("consumer")
        assert plugin.offsets()["blue"]["t", 0] == 2
        assert not plugin.subscription_groups.get("red").consume_enable


@pytest.mark.parametrize("has_light", [False, True])
def test_offsets_are_kept_in_the_backup_while_a_directory_is_the_file(root, has_light):
    names = ["consumerOffset.json", *["lmqConsumerOffset.json"] * has_light]
    files = [root / "config" / name for name in names]
    if has_light:
        files[1].write_bytes(files[0].read_bytes())
    with reput.open(root) as store:
        for file in files:
            file.unlink()
            file.with_name(f"{file.name}.bak").unlink(missing_ok=True)
            file.mkdir()
        with store.consumer("blue", "t", until="end", explicit=True) as member:
            for _ in range(3):
                member.next(5).ack()

    for _ in range(2):  # also once the directory is gone
        with reput.open(root) as store:
            offsets = store.plugin("consumer").offsets()
            assert (offsets["blue"]["t", 0], offsets["green"]["t", 0]) == (5, 2)
        for file in files:
            if file.is_dir():
                file.rmdir()
