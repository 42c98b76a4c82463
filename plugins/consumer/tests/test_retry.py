"""What becomes of messages that fail: retry topic, delay levels, dead letters, expiry."""

from __future__ import annotations

import itertools
import logging

import pytest
from groupstores import bodies

import reput
from reput.errors import PutError
from reput_consumer import Limits, Retry
from reput_consumer.metadata.subscriptiongroups import GroupSettings
from reput_consumer.metadata.topicsettings import TopicSettings

LEVELS_S = (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
"""Delays of levels 3 to 18."""


def test_a_message_that_always_fails_comes_17_times_and_is_a_dead_letter_then_section_9(at):
    at.put("1", tags="paid", keys=["k"], properties={"own": "kept"})
    (original,) = at.read("orders")
    arrivals = []

    with at.consumer("g", {"orders": "paid"}, explicit=True) as consumer:
        while len(arrivals) < 17:
            for message in consumer:
                arrivals.append((at.clock.now, message.reconsume_times, message.topic))
                message.retry()
            assert at.store.work() is not None
            at.work_until(at.store.work())
        at.work_for(8_000_000)
        assert bodies(consumer) == []

    waits = [(later[0] - before[0]) / 1_000 for before, later in itertools.pairwise(arrivals)]
    assert all(
        expected <= found <= expected + 2 for found, expected in zip(waits, LEVELS_S, strict=True)
    )
    assert [times for _, times, _ in arrivals] == list(range(17))
    assert {topic for _, _, topic in arrivals} == {"orders"}
    (dead,) = at.read("%DLQ%g")
    assert (dead.body, dead.tags, dead.keys, dead.reconsume_times) == (b"1", "paid", ("k",), 17)
    assert dead.born_timestamp == original.born_timestamp
    assert dead.properties["RETRY_TOPIC"] == "orders"
    assert dead.properties["ORIGIN_MESSAGE_ID"] == original.msg_id
    assert dead.properties["DELAY"] == "0"
    assert dead.properties["own"] == "kept"
    assert at.plugin.progress("g").dead_letter_count == 1
    assert at.plugin.topics.get("%RETRY%g").read_queue_nums == 1
    assert at.plugin.topics.get("%DLQ%g").read_queue_nums == 1


@pytest.mark.parametrize(("level", "seconds"), [(1, 1), (2, 5), (5, 60)])
def test_a_level_may_be_asked_for_section_9(at, level, seconds):
    at.put("1")

    with at.consumer(explicit=True) as consumer:
        next(iter(consumer)).retry(level)
        at.work_for(seconds * 1_000 - 1)
        assert bodies(consumer) == []
        at.work_for(1_100)
        assert bodies(consumer) == ["1"]


@pytest.mark.parametrize("group", ["g", "g" * 248])
def test_a_message_may_be_given_up_at_once_section_9(at, group):
    at.put("1")

    with at.consumer(group, explicit=True) as consumer:
        next(iter(consumer)).retry(-1)

    assert bodies(at.read(f"%DLQ%{group}")) == ["1"]
    assert at.plugin.progress(group).lag == 0


@pytest.mark.parametrize("by", ["settings", "option"])
def test_how_often_a_message_comes_again_can_be_set_section_36(at, by):
    at.put("1")
    if by == "settings":
        at.plugin.subscription_groups.put(GroupSettings(group="g", retry_max_times=1))
    options = {"max_reconsume_times": 1} if by == "option" else {}
    count = 0

    with at.consumer(explicit=True, **options) as consumer:
        for _ in range(3):
            for message in consumer:
                count += 1
                message.retry(1)
            at.work_for(2_000)

    assert count == 2
    assert bodies(at.read("%DLQ%g")) == ["1"]


def test_a_group_without_retry_queues_drops_what_fails_section_36(at):
    at.put("1")
    at.plugin.subscription_groups.put(GroupSettings(group="g", retry_queue_nums=0))

    with at.consumer(explicit=True) as consumer:
        next(iter(consumer)).retry()

    assert at.offset() == 1
    assert {queue.topic for queue in at.store.queues()} == {"orders"}


def test_a_failed_message_does_not_hold_the_offset_section_9(at):
    at.put("1", "2")

    with at.consumer(explicit=True) as consumer:
        first, second = list(consumer)
        first.retry()
        second.ack()
        assert at.offset() == 2


def test_without_the_plugin_schedule_retries_come_at_once_which_is_said(steps, caplog):
    at = steps(plugins=("consumequeue", "consumer"))
    at.put("1")

    with caplog.at_level(logging.WARNING), at.consumer(explicit=True) as consumer:
        next(iter(consumer)).retry()
        at.store.work()
        assert bodies(consumer) == ["1"]

    assert 'add_plugin("schedule")' in caplog.text
    assert at.plugin.reput_report()["are_retries_late"] is False


def test_a_message_that_cannot_be_sent_back_comes_again_here_after_5_s_section_9(at, monkeypatch):
    at.put("1", "2")

    def fail(*_):
        raise PutError("body", None, None, "no room")

    with at.consumer(explicit=True) as consumer:
        first, second = list(consumer)
        monkeypatch.setattr(type(at.plugin.port), "send_back", fail)
        first.retry()
        second.ack()
        assert at.offset() == 0
        at.work_for(4_999)
        assert bodies(consumer) == []
        at.work_for(1)
        (again,) = consumer
        assert (again.body, again.reconsume_times) == (b"1", 1)
        again.ack()
        assert at.offset() == 2


def test_a_message_that_takes_over_15_minutes_is_sent_back_section_9(at):
    at.put("1", "2")

    with at.consumer(explicit=True) as consumer:
        first, _ = list(consumer)
        at.work_for(1_850_000)
        assert at.offset() == 2
        assert sorted(bodies(consumer)) == ["1", "2"]
        first.ack()  # too late: it means nothing
        first_copies = at.read("%RETRY%g")
        assert [copy.properties["DELAY"] for copy in first_copies] == ["3", "3"]


def test_a_member_does_not_fetch_more_than_its_limits_section_8(at):
    at.put(*map(str, range(100)))

    with at.consumer(explicit=True, fetch_count=8, limits=Limits(message_count=20)) as consumer:
        taken = list(consumer)
        assert 20 < len(taken) <= 28
        for message in taken:
            message.ack()
        assert len(taken) + len(list(consumer)) > 40


def test_a_message_far_ahead_of_the_oldest_one_is_not_fetched_section_8(at):
    at.put(*map(str, range(100)))

    with at.consumer(explicit=True, fetch_count=8, limits=Limits(span=20)) as consumer:
        oldest, *others = consumer
        for message in others:
            message.ack()
        assert 0 < len(list(consumer)) <= 28
        oldest.ack()


# ------------------------------------------------------------------ functions


def test_a_function_decides_by_what_it_returns_or_raises_section_9(at):
    at.put("fine", "false", "raises", "level", "given up")

    def handle(message):
        if message.body == b"raises" and not message.reconsume_times:
            raise RuntimeError("no")
        if message.body == b"false" and not message.reconsume_times:
            return False
        if message.body == b"level" and not message.reconsume_times:
            return Retry(level=1)
        return Retry(level=-1) if message.body == b"given up" else None

    with at.consumer() as consumer:
        assert consumer.run(handle, threads=1) == 1
        at.work_for(2_000)
        assert consumer.run(handle, threads=1) == 1
        at.work_for(20_000)
        assert consumer.run(handle, threads=1) == 2

    assert bodies(at.read("%DLQ%g")) == ["given up"]


def test_a_batch_is_consumed_up_to_where_the_function_says_section_9(at):
    at.put(*map(str, range(6)))
    seen = []

    def handle(messages):
        seen.append(bodies(messages))
        return Retry(level=1, done=2) if len(seen) == 1 else None

    with at.consumer() as consumer:
        assert consumer.run(handle, threads=1, batch=4) == 4
        at.work_for(2_000)
        consumer.run(handle, threads=1, batch=4)

    assert seen[:2] == [["0", "1", "2", "3"], ["4", "5"]]
    assert sorted(itertools.chain(*seen[2:])) == ["2", "3"]


def test_an_error_of_the_store_ends_a_run(at, monkeypatch):
    at.put("1")

    def fail(*_):
        raise reput.ReputError("broken")

    with at.consumer() as consumer:
        monkeypatch.setattr(type(at.plugin.port), "fetch", fail)
        with pytest.raises(reput.ReputError, match="broken"):
            consumer.run(print, threads=2)


def test_a_run_needs_a_thread_and_a_message(at):
    with at.consumer() as consumer:
        with pytest.raises(ValueError, match="threads=0"):
            consumer.run(print, threads=0)
        with pytest.raises(ValueError, match="batch=0"):
            consumer.run(print, batch=0)


def test_many_threads_consume_each_message_once(tmp_path):
    seen = []
    with reput.open(tmp_path, plugins=["consumequeue", "consumer"]) as store:
        store.put_many([reput.Message("orders", b"%d" % n, n % 4) for n in range(500)])
        store.wait_dispatched()
        with store.consumer("g", "orders", start="earliest", until="end") as consumer:
            count = consumer.run(lambda message: seen.append(message.body), threads=8)

    assert count == 500
    assert sorted(seen) == sorted(b"%d" % n for n in range(500))


def test_stop_ends_a_run_from_another_thread(tmp_path):
    with reput.open(tmp_path, plugins=["consumequeue", "consumer"]) as store:
        store.put(reput.Message("orders", b"1"))
        with store.consumer("g", "orders", start="earliest") as consumer:
            assert consumer.run(lambda message: consumer.stop(), threads=3) == 1


# --------------------------------------------------------------------------- log lines


def raise_always(message):
    raise ValueError("no such customer")


def warnings_of(caplog):
    found = [each for each in caplog.records if each.name.startswith("reput_consumer")]
    return [each for each in found if each.levelno >= logging.WARNING]


def test_a_failed_call_is_one_warning_with_all_that_an_operator_needs(at, caplog):
    at.put("1", keys=["k", "l"])

    with at.consumer(max_reconsume_times=2, idle=0) as consumer:
        for _ in range(3):
            consumer.run(raise_always, threads=1)
            at.work_for(60_000)

    lines = [each.getMessage() for each in warnings_of(caplog)]
    assert [line.split(" group=")[0] for line in lines] == [
        "handler failed, retry at delay level 3",
        "handler failed, retry at delay level 4",
        "handler failed, dead letter in %DLQ%g",
    ]
    for attempt, line in enumerate(lines, 1):
        queue = "orders/0" if attempt == 1 else "%RETRY%g/0"
        assert f" group=g topic=orders broker=broker-a queue={queue} offset=" in line
        assert f" keys='k l' attempt={attempt} error=ValueError('no such customer')" in line
    assert [each.exc_info is not None for each in warnings_of(caplog)] == [True, False, False]


def test_the_traceback_of_an_error_is_logged_once_for_each_place(at, caplog):
    at.put("1", "2", "3", "4")

    def fail(message):
        if message.body in (b"1", b"2"):
            raise_always(message)
        raise KeyError("another")

    with at.consumer(idle=0) as consumer:
        consumer.run(fail, threads=1)

    shown = [each.exc_info is not None for each in warnings_of(caplog)]
    assert shown == [True, False, True, False]


def test_a_failed_batch_is_one_line_with_a_count(at, caplog):
    at.put("1", "2", "3")

    with at.consumer(idle=0) as consumer:
        consumer.run(raise_always, threads=1, batch=32)

    (line,) = [each.getMessage() for each in warnings_of(caplog)]
    assert "offset=0 " in line
    assert "attempt=1 count=3" in line


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        ({"ordered": True, "max_reconsume_times": 0}, "dead letter in %DLQ%g"),
        ({"broadcast": True}, "no retry, as the group broadcasts"),
    ],
)
def test_what_happens_next_is_that_of_the_kind_of_consumer(at, caplog, options, outcome):
    at.put("1")

    with at.consumer(idle=0, start="earliest", **options) as consumer:
        consumer.run(raise_always, threads=1)

    (line,) = [each.getMessage() for each in warnings_of(caplog)]
    assert line.startswith(f"handler failed, {outcome} group=g")


# ------------------------------------------------------------------ queues that no client knows


def topic_queues(at, topic):
    found = at.plugin.topics.get(topic)
    return found.read_queue_nums, found.write_queue_nums


def test_the_retry_topic_grows_with_the_setting_of_its_queues(at):
    groups = at.plugin.subscription_groups
    groups.ensure("g")
    assert topic_queues(at, "%RETRY%g") == (1, 1)

    groups.put(GroupSettings(group="g", retry_queue_nums=3))
    assert topic_queues(at, "%RETRY%g") == (3, 3)
    groups.put(GroupSettings(group="g", retry_queue_nums=2))
    assert topic_queues(at, "%RETRY%g") == (3, 3)  # it may hold messages


def test_a_setting_before_the_first_failure_makes_no_topic(at):
    at.plugin.subscription_groups.put(GroupSettings(group="g", retry_queue_nums=3))

    assert at.plugin.topics.get("%RETRY%g") is None


def test_an_older_retry_topic_grows_when_a_message_fails(at):
    at.plugin.topics.put(TopicSettings(topic="%RETRY%g", read_queue_nums=1, write_queue_nums=1))
    settings = at.plugin.subscription_groups
    settings.document.change(
        lambda found: bool(
            found.setdefault("subscriptionGroupTable", {}).update(g={"retryQueueNums": 4}) or 1
        )
    )
    settings.load()  # as a broker has left both files
    at.put(*"abcdefgh")

    with at.consumer(explicit=True) as consumer:
        for message in consumer:
            message.retry()

    assert topic_queues(at, "%RETRY%g") == (4, 4)


@pytest.mark.parametrize("count", [1, 100])
def test_a_topic_grows_when_messages_come_to_queues_that_it_does_not_have(at, count):
    at.plugin.topics.put(TopicSettings(topic="orders", read_queue_nums=2, write_queue_nums=2))

    at.store.put_many([reput.Message("orders", b"x", queue_id=5) for _ in range(count)])
    at.work_for(10)

    assert topic_queues(at, "orders") == (6, 2)


def test_a_queue_that_an_operator_has_closed_to_readers_stays_closed(at):
    at.plugin.topics.put(TopicSettings(topic="orders", read_queue_nums=2, write_queue_nums=6))

    at.store.put(reput.Message("orders", b"x", queue_id=5))
    at.work_for(10)

    assert topic_queues(at, "orders") == (2, 6)


def test_a_topic_that_only_the_store_knows_needs_no_settings(at):
    at.store.put(reput.Message("orders", b"x", queue_id=5))
    at.work_for(10)

    assert at.plugin.topics.get("orders") is None


def test_growth_that_cannot_be_written_comes_with_the_next_round(at, monkeypatch):
    topics = at.plugin.topics
    topics.put(TopicSettings(topic="orders", read_queue_nums=2, write_queue_nums=2))
    at.store.put(reput.Message("orders", b"x", queue_id=5))

    def fail(self, many):
        raise OSError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(type(topics), "put_many", fail)
        at.work_for(10)
    assert topic_queues(at, "orders") == (2, 2)

    at.work_for(10)
    assert topic_queues(at, "orders") == (6, 2)
