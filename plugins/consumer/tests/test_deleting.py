"""Topics and groups that are deleted do not come back by themselves."""

from __future__ import annotations

import shutil

import pytest
from groupstores import bodies

import reput
from reput.errors import ReadOnlyStoreError
from reput.files import Disk
from reput_consumer import MessageQueue, RequestMode, TopicSettings, retry_topic
from reput_consumer.metadata.deletedtopics import DeletedTopics
from reput_consumer.metadata.topicsettings import Topics
from reput_testing import SimulatedDisk
from reput_tools.brokerfiles import BrokerDocument

FORM = """{
	"dataVersion":{
		"counter":1,
		"stateVersion":0,
		"timestamp":1700000000000
	},
	"offsetTable":{
		"orders":{1:10,12:0
		}
	}
}"""


def consume(at, group="g"):
    with at.consumer(group) as consumer:
        return bodies(consumer)


def test_a_deleted_topic_has_no_message_for_groups_until_new_ones_come(at):
    at.plugin.topics.put(TopicSettings(topic="orders", write_queue_nums=4))
    at.put("old 1", "old 2")
    at.put("old 3", queue=3)
    consume(at)

    was_there = at.plugin.delete_topic("orders")

    assert was_there
    assert at.plugin.topics.get("orders") is None
    assert at.plugin.port.queues("orders") == ()
    assert at.offset() is None
    at.put("new 1")
    assert consume(at) == consume(at, "other") == ["new 1"]
    assert [each.queue_id for each in at.plugin.port.queues("orders")] == [0]
    assert bodies(at.read("orders")) == ["old 1", "old 2", "new 1"]  # the store itself has all


def test_a_deleted_topic_stays_deleted_when_queues_are_built_again(at):
    at.put("old 1", "old 2")
    at.plugin.delete_topic("orders")
    at.store.close()
    shutil.rmtree(at.root / "consumequeue")

    at.open()
    at.store.wait_dispatched()

    assert bodies(at.read("orders")) == ["old 1", "old 2"]
    assert at.plugin.port.queues("orders") == ()
    assert at.plugin.port.bounds(MessageQueue("orders", "broker-a", 0)) == (2, 2)


def test_offsets_that_members_commit_late_do_not_bring_a_topic_back(at):
    at.put("old")
    with at.consumer(explicit=True) as consumer:
        for message in consumer:
            at.plugin.delete_topic("orders")
            message.ack()
        consumer.commit(durable=True)

    at.reopen()

    assert at.plugin.topics.get("orders") is None
    assert at.plugin.port.offsets.groups_of("orders") == []


def test_the_start_of_a_member_in_a_topic_that_came_back_is_saved(at):
    at.put("old 1", "old 2")
    with at.consumer(start="latest", explicit=True) as consumer:
        at.plugin.delete_topic("orders")
        at.put("new 1", "new 2")
        at.store.work()
        assert consumer.next(0).body == b"new 1"  # and is not finished

        found = at.plugin.port.committed("g", MessageQueue("orders", "broker-a", 0))
        assert found is not None
        assert found <= 2


def test_a_running_member_goes_on_with_what_comes_later(at):
    at.put("old 1", "old 2")
    with at.consumer(explicit=True, until=None) as consumer:
        first = next(iter(consumer))
        at.plugin.delete_topic("orders")
        at.work_for(1_000)
        at.put("new")
        at.work_for(40_000)
        found = bodies(consumer)

    assert (first.body, found) == (b"old 1", ["new"])


def test_a_place_below_the_deleted_messages_is_moved_to_the_next_one(at):
    at.put("old 1", "old 2")
    at.plugin.delete_topic("orders")
    at.put("new")
    port, queue = at.plugin.port, MessageQueue("orders", "broker-a", 0)

    below = port.read("orders", 0, 1, 32)
    there = port.read("orders", 0, 2, 32)

    assert (below.status.name, below.next_queue_offset, len(below)) == ("OFFSET_TOO_SMALL", 2, 0)
    assert (there.min_queue_offset, bodies(there.messages)) == (2, ["new"])
    assert port.offset_by_time(queue, 0) == 2
    assert port.bounds(queue) == (2, 3)


def test_what_there_is_not_cannot_be_deleted(at):
    assert not at.plugin.delete_topic("none")
    assert not at.plugin.delete_group("none")
    assert "none" not in at.plugin.deleted
    at.put("x")
    at.plugin.delete_topic("orders")
    assert not at.plugin.delete_topic("orders")


def test_a_topic_without_a_message_is_deleted_too(at):
    at.plugin.topics.put(TopicSettings(topic="empty"))

    assert at.plugin.delete_topic("empty")
    assert at.plugin.topics.names() == []


@pytest.mark.parametrize("with_offsets", [True, False])
def test_a_group_is_deleted_with_or_without_its_offsets(at, with_offsets):
    at.put("1", "2")
    consume(at)
    consume(at, "other")

    assert at.plugin.delete_group("g", with_offsets=with_offsets)

    at.reopen()
    assert at.plugin.subscription_groups.names() == ["other"]
    assert at.offset("other") == 2
    assert at.offset("g") == (None if with_offsets else 2)
    assert consume(at) == (["1", "2"] if with_offsets else [])
    assert at.plugin.topics.get(retry_topic("g")) is not None  # an operator deletes it as a topic


def test_the_mode_of_a_group_ends_with_the_topic_or_the_group(at):
    modes = at.plugin.popper.modes
    kinds = {("orders", "g"), ("orders", "other"), ("kept", "g"), ("kept", "other")}
    for topic, group in kinds:
        modes.put(topic, group, RequestMode(pops=True))

    at.plugin.delete_topic("orders")
    at.plugin.delete_group("g", with_offsets=False)

    assert {each for each in kinds if modes.get(*each).pops} == {("kept", "other")}
    at.reopen()
    read = at.plugin.popper.modes
    assert {each for each in kinds if read.get(*each).pops} == {("kept", "other")}


def test_notes_of_topics_that_the_log_has_lost_are_dropped(at):
    at.put("x")
    at.plugin.delete_topic("orders")
    at.plugin.deleted.note("gone", {0: 5})

    assert at.plugin.forget_gone_topics() == ["gone"]
    assert at.plugin.deleted.names() == ["orders"]
    assert at.plugin.forget_gone_topics() == []


def test_the_note_of_a_topic_whose_queue_offsets_go_on_is_kept(at):
    at.plugin.deleted.note("gone", {0: 5})
    at.plugin.port.context.queue_floors.keep({("gone", 0): 5})

    assert at.plugin.forget_gone_topics() == []
    assert at.plugin.deleted.floor("gone", 0) == 5


def test_a_store_for_reading_is_not_changed(at):
    at.put("x")
    at.store.close()
    at.open("r")

    for change in (
        lambda: at.plugin.delete_topic("orders"),
        lambda: at.plugin.delete_group("g"),
        lambda: at.plugin.forget_gone_topics(),
    ):
        with pytest.raises(ReadOnlyStoreError):
            change()


def test_a_group_is_moved_to_given_places(at):
    at.put("1", "2", "3")
    queue = MessageQueue("orders", "broker-a", 0)
    with at.consumer(explicit=True) as consumer:
        first = next(iter(consumer))
        at.plugin.move_group("g", {queue: 2})
        found = next(iter(consumer))

    assert (first.body, found.body) == (b"1", b"3")


# ------------------------------------------------------------------ messages that come later


def test_messages_that_were_in_no_queue_yet_are_deleted_too(at):
    at.store.put_many([reput.Message("orders", b"old", queue_id=n % 2) for n in range(200)])

    at.plugin.delete_topic("orders")

    at.work_for(10)
    assert consume(at) == []
    assert at.plugin.port.queues("orders") == ()
    at.store.close()
    at.open()
    assert (consume(at, "other"), at.plugin.port.queues("orders")) == ([], ())
    at.put("new 1")
    at.put("new 2", queue=1)
    assert sorted(consume(at)) == sorted(consume(at, "third")) == ["new 1", "new 2"]


def test_new_messages_behind_those_in_no_queue_yet_are_seen(at):
    at.store.put_many([reput.Message("orders", b"old")] * 3)
    at.plugin.delete_topic("orders")
    at.store.put_many([reput.Message("orders", b"new")] * 2)
    at.store.wait_dispatched()

    assert consume(at) == ["new", "new"]
    assert at.plugin.progress("g").lag == 0


def fail(at, group="g", topics="orders", count=1):
    """Have a group fail with messages; they wait for 10 s."""
    with at.consumer(group, topics, explicit=True) as consumer:
        for _ in range(count):
            next(iter(consumer)).retry()


def test_failed_messages_of_a_deleted_topic_do_not_come_again(at):
    at.put("old 1", "old 2")
    at.put("other", topic="bills")
    fail(at, topics=["orders", "bills"], count=3)

    at.plugin.delete_topic("orders")
    at.put("new")
    at.work_for(60_000)

    with at.consumer("g", ["orders", "bills"]) as consumer:
        assert sorted(bodies(consumer)) == ["new", "other"]


def test_a_member_that_fails_later_brings_no_message_back(at):
    at.put("old")
    with at.consumer(explicit=True) as consumer:
        message = next(iter(consumer))
        at.plugin.delete_topic("orders")
        message.retry()
        at.put("new")
        at.work_for(60_000)

        assert bodies(consumer) == ["new"]


def test_new_messages_of_a_topic_that_came_back_are_retried(at):
    at.put("old")
    fail(at)
    at.plugin.delete_topic("orders")
    at.put("new")
    fail(at)

    at.work_for(60_000)

    assert consume(at) == ["new"]


def popped(at, group, topic, **options):
    with at.store.pop_consumer(group, topic, start="earliest", **options) as consumer:
        return sorted(message.body.decode() for message in consumer.receive(32, 0))


def test_messages_that_a_group_has_popped_do_not_come_again(at):
    at.put("old 1", "old 2")
    assert popped(at, "g", "orders", invisible=1) == ["old 1", "old 2"]
    at.work_for(5_000)
    assert at.plugin.topics.get("%RETRY%g_orders") is not None

    at.plugin.delete_topic("orders")

    assert at.plugin.topics.get("%RETRY%g_orders") is None
    at.put("new")
    assert popped(at, "g", "orders", invisible=30) == ["new"]


def test_a_retry_topic_that_two_groups_share_by_its_name_keeps_the_messages_of_the_other(at):
    at.put("old", topic="orders")
    at.put("kept", topic="x_orders")
    popped(at, "g_x", "orders", invisible=1)
    popped(at, "g", "x_orders", invisible=1)
    at.work_for(5_000)

    at.plugin.delete_topic("orders")

    assert at.plugin.topics.get("%RETRY%g_x_orders") is not None
    assert popped(at, "g", "x_orders", invisible=30) == ["kept"]


@pytest.mark.parametrize(("with_offsets", "expected"), [(True, ["new"]), (False, ["new", "old"])])
def test_what_has_failed_for_a_deleted_group_goes_with_its_offsets(at, with_offsets, expected):
    at.put("old")
    fail(at)

    at.plugin.delete_group("g", with_offsets=with_offsets)
    at.work_for(60_000)
    with at.consumer("g", start="latest") as consumer:
        at.put("new")
        assert sorted(bodies(consumer)) == expected


def test_a_dead_letter_of_a_deleted_topic_can_be_given_again(at):
    at.put("old")
    with at.consumer(explicit=True) as consumer:
        next(iter(consumer)).retry(level=-1)
    at.plugin.delete_topic("orders")
    (dead,) = at.read("%DLQ%g")

    at.plugin.resend("g", [dead])
    at.store.wait_dispatched()

    assert consume(at) == ["old"]


# ------------------------------------------------------------------ the file


def notes(directory, disk=None) -> DeletedTopics:
    document = BrokerDocument(
        str(directory), "deletedTopics.json", disk or Disk(), lambda: 1_700_000_000_000
    )
    found = DeletedTopics(document)
    found.load()
    return found


def test_notes_have_the_form_of_the_brokers_files(tmp_path):
    notes(tmp_path).note("orders", {12: 0, 1: 10})

    assert (tmp_path / "deletedTopics.json").read_text() == FORM
    found = notes(tmp_path)
    assert (found.floor("orders", 1), found.floor("orders", 2), found.floor("x", 0)) == (10, 0, 0)
    assert found.hides("orders", 1, 10)
    assert not found.hides("orders", 1, 11)
    assert not found.hides("other", 0, 0)


@pytest.mark.parametrize(
    "text", ["", "[", '{"offsetTable":5}', '{"offsetTable":{"orders":{"a":1,"0":-1,"1":"x"}}}']
)
def test_notes_that_say_nothing_hide_nothing(tmp_path, text):
    (tmp_path / "deletedTopics.json").write_text(text)

    assert notes(tmp_path).floor("orders", 0) == 0


def test_a_note_has_the_end_of_the_log(tmp_path):
    notes(tmp_path).note("orders", {1: 10, 12: 0}, 4_096)

    expected = FORM[:-2] + ',\n\t"positionTable":{\n\t\t"orders":4096\n\t}\n}'
    assert (tmp_path / "deletedTopics.json").read_text() == expected
    found = notes(tmp_path)
    assert found.positions == {"orders": 4_096}
    found.forget({"orders"})
    assert notes(tmp_path).positions == {}


def test_a_note_and_a_removal_survive_a_power_cut_at_every_operation(tmp_path):
    done = [0]
    root = tmp_path / "store"
    root.mkdir()
    disk = SimulatedDisk(root, lambda: done[-1])
    topics = Topics(BrokerDocument(str(root / "config"), "topics.json", disk, lambda: 1))
    topics.put_many([TopicSettings(topic="orders"), TopicSettings(topic="bills")])
    done.append(1)
    notes(root / "reput", disk).note("orders", {0: 7})
    done.append(2)
    topics.remove("orders")
    done.append(3)

    points = [*disk.points, disk.now()]
    for number, point in enumerate(points):
        for other, state in enumerate(point.states()):
            cut = tmp_path / f"cut {number} {other}"
            state.materialize(cut)
            found = Topics(BrokerDocument(str(cut / "config"), "topics.json", Disk(), lambda: 1))
            found.load()
            assert "bills" in found.names() or point.note < 1
            assert ("orders" not in found.names()) or point.note < 3
            assert notes(cut / "reput").floor("orders", 0) == 7 or point.note < 2
            if point.note >= 1 and "orders" not in found.names():
                assert notes(cut / "reput").floor("orders", 0) == 7  # never removed without a note
    assert points[-1].note == 3
