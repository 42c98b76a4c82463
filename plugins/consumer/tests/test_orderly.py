"""Consuming in order: one at a time per queue, pauses, locks. Section 10."""

from __future__ import annotations

import os
import threading

import pytest
from groupstores import bodies

import reput


def test_a_queue_waits_until_its_message_is_finished_and_others_go_on_section_10(at):
    at.put("a1", "a2", queue=0)
    at.put("b1", "b2", queue=1)

    with at.consumer(ordered=True, explicit=True) as consumer:
        first = list(consumer)
        assert sorted(bodies(first)) == ["a1", "b1"]
        next(each for each in first if each.body == b"a1").ack()
        assert bodies(consumer) == ["a2"]


def test_a_message_that_fails_comes_again_after_a_pause_and_none_before_it_section_10(at):
    at.put("1", "2")

    with at.consumer(ordered=True) as consumer:
        (first,) = [consumer.next(0)]
        first.retry()
        assert bodies(consumer) == []
        at.work_for(999)
        assert bodies(consumer) == []
        at.work_for(1)
        again = consumer.next(0)
        assert (again.body, again.reconsume_times) == (b"1", 1)
        assert bodies(consumer) == ["2"]
        assert at.offset() == 2


def test_what_has_failed_too_often_becomes_a_dead_letter_and_the_queue_goes_on_section_10(at):
    at.put("1", "2")
    seen = []

    def handle(message):
        seen.append(message.body.decode())
        return message.body != b"1"

    with at.consumer(ordered=True, max_reconsume_times=2) as consumer:
        for _ in range(5):
            consumer.run(handle, threads=1)
            at.work_for(1_000)

    assert seen == ["1", "1", "1", "2"]
    (dead,) = at.read("%DLQ%g")
    assert dead.properties["RETRY_TOPIC"] == "orders"


def test_without_a_limit_a_message_comes_again_for_ever_section_10(at):
    at.put("1")
    count = 0

    with at.consumer(ordered=True, explicit=True) as consumer:
        for _ in range(40):
            for message in consumer:
                count += 1
                message.retry()
            at.work_for(1_000)

    assert count == 40


def test_pauses_are_at_most_30_s_section_10(at):
    at.put("1")

    with at.consumer(ordered=True, explicit=True, suspend_ms=90_000) as consumer:
        consumer.next(0).retry()
        at.work_for(29_999)
        assert bodies(consumer) == []
        at.work_for(1)
        assert bodies(consumer) == ["1"]


def test_a_batch_that_fails_is_put_back_as_a_whole_section_10(at):
    at.put(*map(str, range(5)))
    seen = []

    def handle(messages):
        seen.append(bodies(messages))
        return len(seen) > 1

    with at.consumer(ordered=True) as consumer:
        consumer.run(handle, threads=1, batch=3)
        at.work_for(1_000)
        consumer.run(handle, threads=1, batch=3)

    assert seen == [["0", "1", "2"], ["0", "1", "2"], ["3", "4"]]


@pytest.mark.costly
def test_the_lock_of_a_message_that_takes_long_is_kept_section_10(at):
    at.put("1", "2")

    with at.consumer(ordered=True, explicit=True, name="b") as old:
        held = old.next(0)
        with at.consumer(ordered=True, explicit=True, name="a") as new:
            at.work_for(600_000)
            assert bodies(new) == []
            held.ack()
            at.work_for(1_000)
            at.work_for(1_000)
            assert bodies(new) == ["2"]


def test_a_lock_that_is_not_extended_may_be_taken_after_60_s_section_41(at):
    at.put("1")
    port = at.plugin.port
    queues = port.queues("orders")

    assert port.lock("g", "a", queues) == set(queues)
    assert port.lock("g", "b", queues) == set()
    at.clock.now += 60_000
    assert port.lock("g", "b", queues) == set()
    at.clock.now += 1
    assert port.lock("g", "b", queues) == set(queues)
    assert port.lock("other", "a", queues) == set(queues)
    port.unlock("g", "a", queues)  # not its own any more
    assert port.lock("g", "a", queues) == set()
    port.unlock("g", "b", queues)
    assert port.lock("g", "a", queues) == set(queues)


def test_many_threads_never_see_a_later_message_of_a_queue_first(tmp_path):
    seen = {number: [] for number in range(4)}
    working = set()
    lock = threading.Lock()

    def handle(message):
        with lock:
            assert message.queue_id not in working
            working.add(message.queue_id)
        seen[message.queue_id].append(int(message.body))
        os.sched_yield()  # another thread may run in the middle
        with lock:
            working.remove(message.queue_id)

    with reput.open(tmp_path, plugins=["consumequeue", "consumer"]) as store:
        store.put_many([reput.Message("orders", b"%d" % n, n % 4) for n in range(400)])
        store.wait_dispatched()
        options = {"start": "earliest", "ordered": True, "until": "end"}
        with store.consumer("g", "orders", **options) as consumer:
            assert consumer.run(handle, threads=8) == 400

    assert all(found == sorted(found) for found in seen.values())
