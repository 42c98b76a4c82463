"""Consumers as a program uses them: iterated, awaited, closed, opened again."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import threading

import pytest
from groupstores import bodies

import reput
from reput.errors import NoReaderError, PluginError, ReadOnlyStoreError
from reput_consumer import MessageQueue, Selector, sql
from reput_consumer.errors import ConsumerClosedError, GroupDisabledError, MemberExistsError
from reput_consumer.metadata.subscriptiongroups import GroupSettings
from reput_consumer.metadata.topicsettings import TopicSettings


def test_a_message_counts_as_consumed_when_the_next_one_is_asked_for(at):
    at.put("1", "2", "3")

    with at.consumer() as consumer:
        iterator = iter(consumer)
        assert (next(iterator).body, next(iterator).body) == (b"1", b"2")
        assert at.offset() == 1
        assert next(iterator).body == b"3"
        assert at.offset() == 2
        assert list(iterator) == []
    assert at.offset() == 3


def test_a_block_that_is_left_by_an_exception_acknowledges_nothing_further(at):
    at.put("1", "2", "3")

    def fail():
        with at.consumer() as consumer:
            for message in consumer:
                assert message.body != b"2" or 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()

    with at.consumer() as consumer:
        assert bodies(consumer) == ["2", "3"]


def test_a_block_that_is_left_in_peace_acknowledges_the_message_at_hand(at):
    at.put("1", "2", "3")

    with at.consumer() as consumer:
        for message in consumer:
            if message.body == b"2":
                break

    with at.consumer() as consumer:
        assert bodies(consumer) == ["3"]


def test_in_explicit_mode_only_an_ack_counts_and_the_oldest_holds_the_offset_section_7(at):
    at.put("1", "2", "3")

    with at.consumer(explicit=True) as consumer:
        first, second, third = list(consumer)
        second.ack()
        third.ack()
        third.ack()  # once more is no error
        assert at.offset() == 0
        assert (first.is_done, second.is_done) == (False, True)

    with at.consumer() as consumer:
        assert bodies(consumer) == ["1", "2", "3"]


def test_groups_go_on_where_they_stopped_also_after_the_store_was_closed(at):
    at.put("1", "2")
    with at.consumer("one") as consumer:
        assert bodies(consumer) == ["1", "2"]
    with at.consumer("other", explicit=True) as consumer:
        next(iter(consumer)).ack()

    at.reopen()
    at.put("3")

    with at.consumer("one") as one, at.consumer("other") as other:
        assert (bodies(one), bodies(other)) == (["3"], ["2", "3"])


def test_what_is_committed_durably_is_in_the_file_at_once_and_all_else_after_5_s(at):
    at.put("1", "2")
    path = at.root / "config" / "consumerOffset.json"

    with at.consumer(explicit=True) as consumer:
        first, second = list(consumer)
        first.ack()
        consumer.commit(durable=True)
        assert '"orders@g":{0:1\n' in path.read_text()
        second.ack()
        at.work_for(4_999)
        assert '"orders@g":{0:1\n' in path.read_text()
        at.work_for(5_001)
        assert '"orders@g":{0:2\n' in path.read_text()


def test_an_idle_consumer_has_nothing_to_do(at):
    at.put("1")
    with at.consumer() as consumer:
        assert bodies(consumer) == ["1"]
        consumer.commit()
        at.work_for(1_000_000)  # the offset is saved, and 15 minutes for the message are over
        assert at.plugin.reput_work() is None


# ------------------------------------------------------------------ what is selected


def test_tags_select_messages_without_the_plugin_filter(at):
    for tag in ("paid", "new", "refunded", None):
        at.put(str(tag), tags=tag)

    with at.consumer("some", {"orders": "paid || refunded"}) as some:
        assert bodies(some) == ["paid", "refunded"]
    with at.consumer("all", {"orders": "*"}) as everything:
        assert bodies(everything) == ["paid", "new", "refunded", "None"]
    # What was passed over at the end counts as consumed, too.
    assert at.offset("some") == 4


def test_tags_of_equal_hash_are_told_apart_section_8(at):
    at.put("1", tags="Aa")
    at.put("2", tags="BB")  # Java's hash of both is 2112

    with at.consumer("g", {"orders": "BB"}) as consumer:
        assert bodies(consumer) == ["2"]


def test_conditions_are_sql_by_the_plugin_filter(steps):
    at = steps(plugins=("consumequeue", "schedule", "filter", "consumer"))
    for amount in (3, 7):
        at.put(str(amount), properties={"amount": str(amount)})

    with at.consumer("g", {"orders": sql("amount > 5")}) as consumer:
        assert bodies(consumer) == ["7"]
    with pytest.raises(ValueError, match="amount >"):
        at.consumer("h", {"orders": sql("amount >")})


def test_a_condition_without_the_plugin_filter_is_an_error_that_says_how_to_open(at):
    at.put("1")

    with pytest.raises(reput.ReputError, match=r"open the store with plugins=\[.*'filter'"):
        at.consumer("g", {"orders": sql("amount > 5")})


@pytest.mark.parametrize(
    ("topics", "error"),
    [
        ({}, ValueError),
        ([], ValueError),
        ({"a/b": "*"}, ValueError),
        ("", ValueError),
        ({"orders": 5}, TypeError),
        ({"orders": "||"}, ValueError),
        *(
            ({"orders": each}, ValueError)
            for each in ("amount > 5", "a||b=1", "f(x)", "'a'", "a b")
        ),
        (5, TypeError),
        (b"orders", TypeError),
        (None, TypeError),
    ],
)
@pytest.mark.parametrize("method", ["consumer", "pop_consumer"])
def test_what_is_no_subscription_is_refused(at, topics, error, method):
    with pytest.raises(error):
        getattr(at.store, method)("g", topics)


def test_seconds_and_counts_that_are_none_are_refused_before_anything_is_read(at):
    for method in ("consumer", "pop_consumer"):
        with pytest.raises(TypeError, match=r"^idle: a number of seconds expected, found '1s'"):
            getattr(at.store, method)("g", "orders", idle="1s")
        with pytest.raises(ValueError, match=r"^idle: a number of seconds expected, found nan"):
            getattr(at.store, method)("g", "orders", idle=math.nan)
    for method in ("pull_consumer", "pop_consumer"):
        with getattr(at.store.plugin("consumer"), method)(method, "orders") as consumer:
            call = consumer.poll if method == "pull_consumer" else consumer.receive
            with pytest.raises(ValueError, match=r"^seconds: "):
                call(seconds=math.nan)
    with at.consumer("g") as consumer:
        with pytest.raises(TypeError, match=r"^seconds: "):
            consumer.next("1s")
        with pytest.raises(TypeError, match=r"^threads: an integer expected"):
            consumer.run(print, threads="2")


@pytest.mark.parametrize("method", ["consumer", "pop_consumer"])
def test_a_topic_with_a_mistyped_name_is_reported_and_a_new_one_is_not(at, caplog, method):
    at.put("1")

    with getattr(at.store, method)("g", ["ordres", "invoices"]):
        pass

    assert "'ordres' does not exist yet; did you mean 'orders'?" in caplog.text
    assert "invoices" not in caplog.text


def test_texts_of_tags_are_read_as_section_3_says():
    assert Selector.of(" a||b  || ").tags == {"a", "b"}
    assert Selector.of(Selector("a b")).tags == {"a b"}
    assert Selector.of("").selects_all
    assert Selector.of(None).selects_all


# ------------------------------------------------------------------ where it begins: section 5


def test_latest_begins_at_the_end_and_earliest_at_0_section_5(at):
    at.put("1", "2")

    with at.consumer("late", start="latest") as late, at.consumer("early") as early:
        at.put("3")
        assert (bodies(late), bodies(early)) == (["3"], ["1", "2", "3"])


def test_a_queue_offset_begins_there_and_one_that_the_queue_has_not_is_corrected_section_8(at):
    at.put("1", "2")

    with at.consumer("g", start=1) as consumer:
        assert bodies(consumer) == ["2"]
    with at.consumer("h", start=99) as consumer:
        assert bodies(consumer) == []
        at.put("3")
        assert bodies(consumer) == ["3"]


@pytest.mark.parametrize("start", ["first", -1, dt.datetime(2026, 1, 1), 1.5, None])  # noqa: DTZ001
def test_what_is_no_start_is_refused(at, start):
    with pytest.raises((ValueError, TypeError), match="start"):
        at.consumer(start=start)


# ------------------------------------------------------------------ where it ends


def test_until_the_end_reads_what_was_there(at):
    at.put("1", "2")

    with at.consumer(until="end", idle=None) as consumer:
        at.put("3")
        assert bodies(consumer) == ["1", "2"]


def test_until_a_time_reads_what_was_stored_before(at):
    at.put("1")
    at.clock.now += 1_000
    when = dt.datetime.fromtimestamp(at.clock.now / 1000, dt.UTC)
    at.put("2")

    with at.consumer(until=when, idle=None, fetch_count=1) as consumer:
        assert bodies(consumer) == ["1"]


@pytest.mark.parametrize(
    "until",
    ["later", 5, dt.datetime(2999, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1)],  # noqa: DTZ001
)
def test_what_is_no_end_is_refused(at, until):
    with pytest.raises((ValueError, TypeError), match="until"):
        at.consumer(until=until)


# ------------------------------------------------------------------ waiting


def test_an_arrival_wakes_a_waiting_consumer(tmp_path):
    with reput.open(tmp_path, plugins=["consumequeue", "consumer"]) as store:
        with store.consumer("g", "orders", start="earliest") as consumer:
            found = []

            def wait():
                found.append(consumer.next(30))

            thread = threading.Thread(target=wait)
            thread.start()
            store.put(reput.Message("orders", b"1"))
            thread.join(30)

            assert bodies(found) == ["1"]


def test_a_consumer_is_awaited_while_other_tasks_run(tmp_path):
    async def consume(store):
        found = []
        async with store.consumer("g", "orders", start="earliest", idle=10) as consumer:
            asyncio.get_running_loop().call_later(
                0.01, lambda: store.put_many([reput.Message("orders", b"%d" % n) for n in range(3)])
            )
            async for message in consumer:
                found.append(message.body)
                if len(found) == 3:
                    break
        return found

    with reput.open(tmp_path, plugins=["consumequeue", "consumer"]) as store:
        assert asyncio.run(consume(store)) == [b"0", b"1", b"2"]


def test_the_last_acknowledgement_ends_a_consumer_that_is_awaited(at):
    at.put("1")

    async def consume():
        async with at.consumer(explicit=True, idle=None, until="end") as consumer:
            messages = aiter(consumer)
            message = await anext(messages)
            following = asyncio.create_task(anext(messages, None))
            while consumer._engine._listener is None:
                await asyncio.sleep(0)
            message.ack()
            return await asyncio.wait_for(following, 30)

    assert asyncio.run(consume()) is None


def test_all_threads_end_where_the_selector_skips_the_last_messages(at):
    at.put("1", "2")

    with at.consumer("g", {"orders": "other"}, idle=None, until="end") as consumer:
        engine, asleep = consumer._engine, threading.Semaphore(0)
        fetch, wait = engine._fetch, engine.lock.wait

        def fall_asleep(seconds):
            asleep.release()  # the lock is free once this thread waits
            return wait(seconds)

        def fetch_while_others_sleep(assignment):
            for _ in range(3):
                asleep.acquire()
            fetch(assignment)

        engine.lock.wait, engine._fetch = fall_asleep, fetch_while_others_sleep
        run = threading.Thread(target=consumer.run, args=(bodies,), kwargs={"threads": 4})
        run.start()
        run.join(30)
        is_ended = not run.is_alive()
        consumer.stop()
        run.join()
    assert is_ended


def test_closing_the_store_ends_a_waiting_consumer(tmp_path):
    with reput.open(tmp_path, plugins=["consumequeue", "consumer"]) as store:
        consumer = store.consumer("g", "orders")
        found = []
        thread = threading.Thread(target=lambda: found.extend(consumer))
        thread.start()

    thread.join(30)
    assert not thread.is_alive()
    with pytest.raises(ConsumerClosedError, match="'g' is closed"):
        consumer.next(0)


# ------------------------------------------------------------------ who may


def test_members_of_one_name_are_refused(at):
    with at.consumer(name="me"), pytest.raises(MemberExistsError, match="'me' already"):
        at.consumer(name="me")


def test_a_group_that_the_operator_has_disabled_is_refused_section_9_of_remoting(at):
    at.plugin.subscription_groups.put(GroupSettings(group="g", consume_enable=False))

    with pytest.raises(GroupDisabledError, match="consumeEnable is false"):
        at.consumer()


def settings_off(at, what, *, off):
    if what == "group":
        at.plugin.subscription_groups.put(GroupSettings(group="g", consume_enable=not off))
    else:
        at.plugin.topics.put(TopicSettings(topic="orders", perm=2 if off else 6))


@pytest.mark.parametrize("what", ["group", "topic"])
@pytest.mark.parametrize("ordered", [False, True])
def test_members_stop_while_their_group_or_topic_may_not_be_read(at, what, ordered):
    at.put("1")

    with at.consumer(ordered=ordered) as consumer:
        assert bodies(consumer) == ["1"]
        settings_off(at, what, off=True)
        at.put("2", "3")
        assert bodies(consumer) == []

        settings_off(at, what, off=False)
        assert bodies(consumer) == ["2", "3"]


def test_members_that_wait_are_logged_once_until_they_may_read(at, caplog):
    at.put("1")
    at.put("2", queue=1)
    with at.consumer() as consumer:
        for waits in (1, 2):
            assert len(bodies(consumer)) == 2
            settings_off(at, "group", off=True)
            at.put("3")
            at.put("4", queue=1)
            for number in range(4):
                at.plugin.topics.put(TopicSettings(topic=f"other-{number}", order=waits == 1))
                assert bodies(consumer) == []
            assert caplog.text.count("they may not read group=g topic=orders") == waits
            settings_off(at, "group", off=False)


def test_a_topic_that_may_not_be_read_has_no_queues_until_it_may(at):
    at.put("1")
    at.plugin.topics.put(TopicSettings(topic="orders", perm=2))

    with at.consumer() as consumer:
        assert bodies(consumer) == []
        at.plugin.topics.put(TopicSettings(topic="orders", perm=6))
        at.work_for(1)
        assert bodies(consumer) == ["1"]
        at.plugin.topics.put(TopicSettings(topic="orders", perm=2))
        with at.consumer():  # queues are shared out, and this one has none
            at.put("2")
        assert bodies(consumer) == []
        at.plugin.topics.put(TopicSettings(topic="orders", perm=6))
        at.work_for(1)
        assert bodies(consumer) == ["2"]


def test_a_read_only_store_shows_progress_and_has_no_consumers(at):
    at.put("1", "2")
    with at.consumer(explicit=True) as consumer:
        next(iter(consumer)).ack()
    at.store.close()

    at.open("r")

    progress = at.plugin.progress("g")
    assert (progress.lag, at.plugin.groups()) == (1, ["g"])
    assert at.plugin.offsets()["g"]["orders", 0] == 1
    with pytest.raises(ReadOnlyStoreError, match="client of `reput serve`"):
        at.consumer()


def test_the_store_has_the_method_without_a_warning_and_only_with_the_plugin(at, tmp_path):
    assert at.store.consumer == at.plugin.consumer
    with reput.open(tmp_path / "other", plugins=["consumequeue"]) as store:
        with pytest.raises(AttributeError, match="has 'consumer'"):
            store.consumer("g", "orders")
        with pytest.raises(PluginError):
            store.plugin("consumer")


# ------------------------------------------------------------------ brokers' files


def test_offsets_that_a_broker_wrote_are_gone_on_from(at):
    at.put("1", "2", "3")
    at.store.close()
    config = at.root / "config"
    config.mkdir(exist_ok=True)
    (config / "consumerOffset.json").write_text('{"offsetTable":{"orders@g":{0:2}}}')

    at.open()

    with at.consumer() as consumer:
        assert bodies(consumer) == ["3"]


def test_offsets_of_transactions_and_of_groups_stand_in_one_file(steps):
    at = steps(plugins=("consumequeue", "schedule", "transaction", "consumer"))
    with at.store.plugin("transaction").transaction() as transaction:
        transaction.put(reput.Message("orders", b"1"))
    at.store.wait_dispatched()
    with at.consumer() as consumer:
        assert bodies(consumer) == ["1"]
    at.work_for(10_000)
    at.store.close()

    text = (at.root / "config" / "consumerOffset.json").read_text()
    assert '"orders@g":{0:1\n' in text
    assert '"RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS":{0:1\n' in text
    at.open()


def test_offsets_can_be_reset_by_time_with_members_and_without_section_11(at):
    at.put("1")
    at.clock.now += 1_000
    when = dt.datetime.fromtimestamp(at.clock.now / 1000, dt.UTC)
    at.put("2", "3")

    with at.consumer() as consumer:
        assert bodies(consumer) == ["1", "2", "3"]
        (change,) = at.plugin.reset_offsets("g", "orders", when)
        assert (change.before, change.after) == (3, 1)
        assert change.queue == MessageQueue("orders", "broker-a", 0)
        assert bodies(consumer) == ["2", "3"]
    at.plugin.reset_offsets("g", "orders", "latest")
    with at.consumer() as consumer:
        assert bodies(consumer) == []
    at.plugin.reset_offsets("g", "orders", 99)
    assert at.offset() == 3


def test_a_result_for_a_message_from_before_a_reset_means_nothing_section_11(at):
    at.put("1", "2")

    with at.consumer(explicit=True) as consumer:
        first, second = list(consumer)
        at.plugin.reset_offsets("g", "orders", "earliest")
        second.ack()
        first.ack()
        assert at.offset() == 0
        assert bodies(consumer) == ["1", "2"]


def test_without_a_plugin_that_reads_queues_the_error_says_how_to_open(tmp_path):
    with reput.open(tmp_path, plugins=["consumer"], threads=False) as store:
        with pytest.raises(NoReaderError, match=r"plugins=\['consumer', 'consumequeue'"):
            store.consumer("g", "orders")
        assert store.plugin("consumer").reput_report()["member_count"] == 0
