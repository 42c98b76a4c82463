"""What a broker counts: by topic and group, in minutes, hours and days; times, days, waits."""

from __future__ import annotations

import datetime as dt
import threading

import pytest
import wirescript
from hypothesis import given
from hypothesis import strategies as st
from wirepeer import message

import reput
from reput_client.remoting import (
    ConsumerData,
    ConsumeStatsOf,
    Heartbeat,
    QueueName,
    RequestCode,
    ResponseCode,
    SendBack,
    StatsOf,
    Subscription,
    TopicOf,
    UpdateGroupOffset,
    parse_body,
)
from reput_server.broker.statistics.brokerstatistics import BrokerStatistics
from reput_server.broker.statistics.daytotals import DayTotals
from reput_server.broker.statistics.latencies import Latencies, PutTimes
from reput_server.broker.statistics.slidingwindows import SlidingWindows
from reput_server.broker.statistics.watchedpool import WatchedPool

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def body_of(answer):
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return parse_body(answer.body, "answer")


# --------------------------------------------------------------------------- windows


def test_what_is_new_has_the_rate_of_a_slice():
    windows = SlidingWindows(5_000)
    windows.add(30, 3, 5_000)

    minute, hour, day = windows.data(5_000)

    assert minute == (30, 3.0, 10.0)
    assert (hour.sum, day.sum) == (30, 30)
    assert hour.rate == 30 / 600
    assert windows.total == 30


@given(
    st.lists(st.tuples(st.integers(0, 2 * HOUR), st.integers(1, 9)), max_size=30),
    st.integers(0, 2 * DAY),
)
def test_windows_count_as_a_list_of_all_does(steps, later):
    now, windows, all_of = 7_777, SlidingWindows(7_777), []
    for step, value in steps:
        now += step
        windows.add(value, 1, now)
        all_of.append((now, value))
    now += later

    found = windows.data(now)

    for (length, count), each in zip(((10_000, 6), (600_000, 6), (HOUR, 24)), found, strict=True):
        first = (now // length - count + 1) * length
        assert each.sum == sum(value for at, value in all_of if at >= first)


def test_a_clock_that_goes_back_loses_nothing():
    windows = SlidingWindows(DAY)
    windows.add(1, 1, DAY)
    windows.add(1, 1, 5)

    assert [each.sum for each in windows.data(7)] == [2, 2, 2]


# --------------------------------------------------------------------------- days and times


def test_days_begin_at_midnight():
    def at(day, hour):
        return int(dt.datetime(2026, 5, day, hour).timestamp() * 1000)  # noqa: DTZ001

    totals = DayTotals()
    totals.add(5, at(1, 22))
    totals.add(7, at(2, 1))
    totals.turn(at(2, 23))
    second = totals.yesterday_morning, totals.today_morning, totals.total
    totals.turn(at(3, 0))
    third = totals.yesterday_morning, totals.today_morning, totals.total
    totals.add(1, at(9, 4))

    assert second == (0, 5, 12)
    assert third == (5, 12, 12)
    assert (totals.yesterday_morning, totals.today_morning, totals.total) == (12, 12, 13)


def test_times_are_counted_by_bounds():
    times = Latencies()
    for seconds in (0.0001, 0.0005, 0.004, 20.0):
        times.add(seconds)

    assert (times.counts[0], times.counts[3], times.counts[-1], sum(times.counts)) == (2, 1, 1, 4)
    assert [times.quantile(part) for part in (0.5, 0.75, 1.0)] == [0.0005, 0.005, 20.0]
    assert Latencies().quantile(0.99) == 0.0
    assert times.longest == 20.0


def test_times_of_puts_are_told_of_the_minute_before():
    times = PutTimes()
    times.begin(100.0)
    times.end(100.02)
    times.answered([99.9, 99.98], 100.02, failed_count=1)
    times.begin(101.0)
    times.end(101.0)
    times.answered([101.0], 101.0, failed_count=0)

    before = times.text(102.0)
    after = times.text(165.0)

    assert times.failed_count == 1
    assert sum(times.puts.counts) == 2
    assert set(dict(word.split("]:") for word in before.split()).values()) == {"0"}
    assert after.startswith("[<=0ms]:1 [0~10ms]:0 [10~50ms]:1 [50~100ms]:0 [100~200ms]:1 ")
    assert times.text(500.0).count(":0") == 13


def test_a_pool_says_what_waits_for_it():
    now = [50.0]
    goes_on, has_begun = threading.Event(), threading.Event()

    def work():
        has_begun.set()
        goes_on.wait(20)
        return "done"

    with WatchedPool(1, "test", lambda: now[0]) as pool:
        first = pool.submit(work)
        has_begun.wait(20)
        others = [pool.submit(str, number) for number in range(3)]
        now[0] = 50.25
        busy = pool.waiting_count, pool.head_wait_ms
        others[0].cancel()
        less = pool.waiting_count
        goes_on.set()
        found = first.result(20), [each.result(20) for each in others[1:]]

    assert (busy, less) == ((3, 250), 2)
    assert found == ("done", ["1", "2"])
    assert (pool.waiting_count, pool.head_wait_ms) == (0, 0)
    with pytest.raises(RuntimeError):
        pool.submit(str)
    assert pool.waiting_count == 0


# --------------------------------------------------------------------------- the table


def test_messages_are_counted_by_batches_and_topics(tmp_path):
    tick = [1_000]
    statistics = BrokerStatistics("c", ticks=lambda: tick[0], clock=lambda: 0)
    topics = ["orders", "bills", "orders", "RMQ_SYS_TRACE_TOPIC"] * 10
    with reput.open(tmp_path / "s", plugins=["consumequeue"]) as store:
        receipts = store.put_many([reput.Message(topic, b"x") for topic in topics])
        receipts = [*receipts, store.put(reput.Message("lone", b"x"))]
        store.flush()
        for batch in store.scan():
            statistics.arrived(batch)

    sizes = sum(each.size for each in receipts if each.topic == "orders")
    assert statistics.totals("TOPIC_PUT_NUMS") == {
        "orders": 20,
        "bills": 10,
        "RMQ_SYS_TRACE_TOPIC": 10,
        "lone": 1,
    }
    assert statistics.data("TOPIC_PUT_SIZE", "orders")[0].sum == sizes
    assert statistics.data("BROKER_PUT_NUMS", "c")[0].sum == 41
    assert statistics.puts_today.total == 31
    assert statistics.put_rate_of("orders") == 2.0
    assert statistics.put_rate_of("none") == 0.0
    assert statistics.put_totals()[0] == 41
    tick[0] += DAY
    assert statistics.put_rate_of("orders") == 0.0


def test_what_was_in_the_log_before_is_not_counted(tmp_path):
    with reput.open(tmp_path / "s", plugins=["consumequeue"]) as store:
        store.put_many([reput.Message("orders", b"x") for _ in range(4)])
        (batch,) = store.scan()
        statistics = BrokerStatistics("c", int(batch.physical_offset[3]))
        statistics.arrived(batch)
        statistics.arrived(batch)

    assert statistics.totals("TOPIC_PUT_NUMS") == {"orders": 1}


def test_the_number_of_keys_is_bounded():
    statistics = BrokerStatistics("c", keys_max=3)
    for number in (0, 1, 2, 0, 3):
        statistics.pulled(f"g{number}", "t", 0, count=1, size=9, seconds=0.0, behind=0, stored=1)

    assert [*statistics.totals("GROUP_GET_NUMS")] == ["t@g2", "t@g0", "t@g3"]
    assert statistics.data("GROUP_GET_FALL_SIZE", "0@t@g1") is None
    assert statistics.data("GROUP_GET_FALL_SIZE", "0@t@g3") is not None


# --------------------------------------------------------------------------- over the wire


def stats(peer, name, key):
    return peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, StatsOf(stats_name=name, stats_key=key))


def test_what_was_sent_and_pulled_is_told_by_name(served):
    peer = served.peer()
    for _ in range(3):
        peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders", 0), body=b"x")
    served.wait_counted()
    answer = peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull())

    put = body_of(stats(peer, "TOPIC_PUT_NUMS", "orders"))
    got = body_of(stats(peer, "GROUP_GET_NUMS", "orders@billing"))
    size = body_of(stats(peer, "GROUP_GET_SIZE", "orders@billing"))
    behind = body_of(stats(peer, "GROUP_GET_FALL_SIZE", "0@orders@billing"))

    assert put["statsMinute"]["sum"] == put["statsDay"]["sum"] == 3
    assert put["statsMinute"]["tps"] == pytest.approx(0.3)
    assert got["statsHour"] == {"sum": 3, "avgpt": 3.0, "tps": 3 / 600}
    assert size["statsMinute"]["sum"] == len(answer.body)
    assert behind["statsMinute"]["sum"] == 0
    asked = ConsumeStatsOf(consumer_group="billing")
    peer.ask(
        RequestCode.UPDATE_CONSUMER_OFFSET,
        UpdateGroupOffset(consumer_group="billing", topic="orders", queue_id=0, commit_offset=3),
    )
    progress = body_of(peer.ask(RequestCode.GET_CONSUME_STATS, asked))
    assert progress["consumeTps"] == pytest.approx(0.3)
    topic = body_of(peer.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicOf(topic="orders")))
    assert topic["topicPutTps"] == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("name", "key"), [("TOPIC_PUT_NUMS", "none"), ("NO_SUCH_NAME", "orders"), ("x" * 9_999, "")]
)
def test_what_was_never_counted_is_told_so(served, name, key):
    answer = stats(served.peer(), name, key)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"The stats <{name[:200]}> <{key}> not exist"


def test_what_consumers_give_back_is_counted(served):
    peer = served.peer()
    data = ConsumerData(group="billing", subscriptions=(Subscription(topic="orders"),))
    peer.ask(RequestCode.HEART_BEAT, body=Heartbeat(client_id="me", consumers=(data,)).encode())
    receipt = served.store.put(reput.Message("orders", b"x"))
    back = SendBack(
        offset=receipt.physical_offset, group="billing", delay_level=0, origin_topic="orders"
    )

    assert peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back).code == ResponseCode.SUCCESS

    assert body_of(stats(peer, "SNDBCK_PUT_NUMS", "orders@billing"))["statsMinute"]["sum"] == 1


def test_how_far_all_groups_are_is_told_at_once(served):
    peer = served.peer()
    for queue_id in (0, 0, 1):
        peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders", queue_id), body=b"x")
    served.wait_counted()
    peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull())
    update = UpdateGroupOffset(
        consumer_group="billing", topic="orders", queue_id=0, commit_offset=1
    )
    peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)

    def ask(is_order):
        request = RequestCode.GET_BROKER_CONSUME_STATS
        return body_of(peer.ask(request, more={"isOrder": is_order}))

    found = ask("false")
    (table,) = [each["billing"] for each in found["consumeStatsList"] if "billing" in each]
    (topic,) = table
    first = served.store.read("orders", 0, 0).messages[0]
    assert topic["consumeTps"] > 0
    assert topic["offsetTable"][QueueName("orders", "broker-a", 0)] == {
        "brokerOffset": 2,
        "consumerOffset": 1,
        "lastTimestamp": first.store_timestamp,
        "pullOffset": 1,
    }
    assert topic["offsetTable"][QueueName("orders", "broker-a", 1)]["lastTimestamp"] == 0
    assert (found["totalDiff"], found["totalInflightDiff"]) == (2, 0)
    assert found["brokerAddr"] == "{}:{}".format(*served.server.address)
    assert ask("true")["totalDiff"] == 0


def test_delays_and_what_the_program_puts_are_counted(served):
    peer = served.peer()
    served.store.put_many([reput.Message("orders", b"x")] * 5)
    peer.ask(
        RequestCode.SEND_MESSAGE_V2, message("orders", properties="DELAY\x0118\x02"), body=b"x"
    )
    served.wait_counted()

    table = body_of(peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]

    assert body_of(stats(peer, "TOPIC_PUT_NUMS", "orders"))["statsMinute"]["sum"] == 5
    assert body_of(stats(peer, "TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX"))["statsMinute"]["sum"] == 1
    assert table["msgPutTotalTodayNow"] == "5"
    assert table["putMessageTimesTotal"] == "6"
    assert table["scheduleMessageOffset_18"] == "0,1"
    assert table["dispatchBehindBytes"] == "0"
