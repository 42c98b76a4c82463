"""Broadcasting with local offsets (sections 4, 6), and consumers that are polled (section 12)."""

from __future__ import annotations

import logging

import pytest
from groupstores import bodies

from reput.errors import OffsetOutOfRangeError
from reput_consumer import MessageQueue
from reput_consumer.errors import GroupDisabledError, NotAssignedError
from reput_consumer.metadata.subscriptiongroups import GroupSettings

QUEUE = MessageQueue("orders", "broker-a", 0)


def test_each_broadcasting_member_reads_everything_section_4(at):
    at.put("1", queue=0)
    at.put("2", queue=1)

    with at.consumer(broadcast=True, name="a") as a, at.consumer(broadcast=True, name="b") as b:
        assert sorted(bodies(a)) == sorted(bodies(b)) == ["1", "2"]


def test_broadcasting_members_keep_offsets_of_their_own_section_6(at):
    at.put("1")
    with at.consumer(broadcast=True) as consumer:
        assert bodies(consumer) == ["1"]
    at.reopen()
    at.put("2")

    with at.consumer(broadcast=True) as consumer:
        assert consumer.member == "127.0.0.1@DEFAULT"
        assert bodies(consumer) == ["2"]
    found = at.root.glob("**/.rocketmq_offsets/127.0.0.1@DEFAULT/g/offsets.json")
    assert ['"queueId":0' in path.read_text() for path in found] == [True]
    assert at.offset() is None


def test_local_offsets_may_stand_where_the_java_client_has_them_section_6(steps, tmp_path):
    at = steps(local_offsets=str(tmp_path / "home"))
    at.put("1")

    with at.consumer(broadcast=True) as consumer:
        bodies(consumer)

    assert (tmp_path / "home/.rocketmq_offsets/127.0.0.1@DEFAULT/g/offsets.json").is_file()


def test_what_fails_while_broadcasting_is_only_logged_section_9(at, caplog):
    at.put("1")

    with caplog.at_level(logging.WARNING), at.consumer(broadcast=True) as consumer:
        consumer.next(0).retry()
        at.work_for(60_000)
        assert bodies(consumer) == []

    assert "messages failed, no retry, as the group broadcasts" in caplog.text
    assert {queue.topic for queue in at.store.queues()} == {"orders"}


def test_a_group_that_may_not_broadcast_is_refused(at):
    at.plugin.subscription_groups.put(GroupSettings(group="g", consume_broadcast_enable=False))

    with pytest.raises(GroupDisabledError, match="consumeBroadcastEnable"):
        at.consumer(broadcast=True)


# ------------------------------------------------------------------ section 12


def test_what_a_poll_returns_counts_as_consumed_section_12(at):
    at.put("1", "2", "3")

    with at.plugin.pull_consumer("g", "orders", start="earliest") as consumer:
        assert bodies(consumer.poll(0, max_count=2)) == ["1", "2"]
        assert consumer.committed(QUEUE) == 2
    assert at.offset() == 2


def test_queues_may_be_assigned_whatever_others_read_section_12(at):
    at.put("1", queue=0)
    at.put("2", queue=1)

    with at.consumer() as other, at.plugin.pull_consumer("g", start="earliest") as consumer:
        consumer.assign([QUEUE])
        assert consumer.queues == [QUEUE]
        assert bodies(consumer.poll(0)) == ["1"]
        assert consumer.poll(0) == []
        assert sorted(queue.topic for queue in other.queues) == ["%RETRY%g", "orders", "orders"]


def test_a_consumer_seeks_forward_and_back_section_12(at):
    at.put("1", "2", "3")

    with at.plugin.pull_consumer("g", "orders", start="earliest") as consumer:
        assert bodies(consumer.poll(0, max_count=1)) == ["1"]
        consumer.seek(QUEUE, 2)
        assert bodies(consumer.poll(0)) == ["3"]
        consumer.seek_to_begin(QUEUE)
        assert bodies(consumer.poll(0)) == ["1", "2", "3"]
        consumer.seek_to_end(QUEUE)
        at.put("4")
        assert bodies(consumer.poll(0)) == ["4"]
        consumer.seek(QUEUE, consumer.offset_by_time(QUEUE, 0))
        assert len(consumer.poll(0)) == 4


def test_a_place_that_the_queue_has_not_is_refused_section_12(at):
    at.put("1")

    with at.plugin.pull_consumer("g", "orders", start="earliest") as consumer:
        with pytest.raises(OffsetOutOfRangeError, match="orders/0"):
            consumer.seek(QUEUE, 2)
        with pytest.raises(NotAssignedError, match="property queues"):
            consumer.seek(MessageQueue("orders", "broker-a", 7), 0)


def test_a_paused_queue_is_not_fetched_from_until_it_is_resumed_section_12(at):
    at.put("1", "2", queue=0)
    at.put("3", queue=1)

    with at.plugin.pull_consumer("g", "orders", start="earliest") as consumer:
        consumer.pause(QUEUE)
        assert bodies(consumer.poll(0)) == ["3"]
        assert consumer.poll(0) == []
        consumer.resume(QUEUE)
        assert bodies(consumer.poll(0)) == ["1", "2"]


def test_without_auto_commit_only_a_commit_counts_section_12(at):
    at.put("1", "2")

    with at.plugin.pull_consumer("g", "orders", start="earliest", auto_commit=False) as consumer:
        consumer.poll(0, max_count=1)
        consumer.commit()
        consumer.poll(0)
        at.work_for(10_000)
    assert at.offset() == 1
