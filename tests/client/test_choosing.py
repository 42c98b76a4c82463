"""Which queue a message goes to, and which brokers are passed over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_client.producer.brokerlatency import BrokerLatencies
from reput_client.producer.queuechooser import QueueChooser, queue_of_key
from reput_consumer import MessageQueue

QUEUES = [MessageQueue("t", broker, queue_id) for broker in "abc" for queue_id in range(4)]


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


def test_a_slow_broker_is_passed_over_until_its_time_is_over() -> None:
    clock = Clock()
    latencies = BrokerLatencies(clock)
    chooser = QueueChooser(latencies)

    latencies.note("a", 600)

    assert {chooser.choose(QUEUES).broker for _ in range(50)} == {"b", "c"}
    clock.now += 2_000
    assert {chooser.choose(QUEUES).broker for _ in range(50)} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("latency_ms", "passed_over_ms"),
    [
        *((0, 0), (99, 0), (549, 0), (550, 2_000), (1_800, 5_000), (3_000, 6_000)),
        *((5_000, 10_000), (14_999, 10_000), (15_000, 30_000), (10**9, 30_000)),
    ],
)
def test_how_long_a_broker_is_passed_over(latency_ms: int, passed_over_ms: int) -> None:
    clock = Clock()
    latencies = BrokerLatencies(clock)

    latencies.note("a", latency_ms)

    clock.now += passed_over_ms
    assert latencies.is_available("a")
    if passed_over_ms:
        clock.now -= 1
        assert not latencies.is_available("a")


def test_a_broker_that_failed_counts_as_slow_and_is_not_reachable_until_it_answers() -> None:
    clock = Clock()
    latencies = BrokerLatencies(clock)

    latencies.note("a", 1, failed=True)

    assert not latencies.is_reachable("a")
    clock.now += 9_999
    assert not latencies.is_available("a")
    latencies.note("a", 1)
    assert latencies.is_reachable("a")
    assert latencies.is_available("a")


def test_where_all_brokers_are_slow_one_that_answers_is_taken() -> None:
    latencies = BrokerLatencies(Clock())
    for broker in "abc":
        latencies.note(broker, 20_000, failed=broker != "c")

    taken = {QueueChooser(latencies).choose(QUEUES).broker for _ in range(20)}

    assert taken == {"c"}


def test_where_no_broker_answers_any_other_one_is_tried() -> None:
    latencies = BrokerLatencies(Clock())
    for broker in "abc":
        latencies.note(broker, 1, failed=True)
    chooser = QueueChooser(latencies)

    assert {chooser.choose(QUEUES, "a").broker for _ in range(20)} == {"b", "c"}


@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        *(("order-1", -1_207_111_310), ("ä€😀", 16_603_051), ("", 0), (7, 7), (-7, -7)),
        *((1 << 32, 1), (-1 << 40, -256), (-12_345_678_901, -539_222_986)),
    ],
)
def test_a_key_goes_where_java_clients_send_it(key: str | int, java_hash: int) -> None:
    assert queue_of_key(QUEUES, key) == QUEUES[abs(java_hash) % len(QUEUES)]


@given(st.text() | st.integers(-(1 << 70), 1 << 70), st.integers(1, 12))
def test_each_key_has_one_queue(key: str | int, count: int) -> None:
    queues = QUEUES[:count]

    assert queue_of_key(queues, key) is queue_of_key(list(queues), key)
