"""How messages that were fetched together are handed out one by one, and settled together."""

from __future__ import annotations

import threading

import pytest
from groupstores import bodies

import reput
from reput_consumer import Limits


def numbered(count):
    return [str(number) for number in range(count)]


def test_what_was_consumed_is_saved_every_5_s_also_in_the_middle_of_a_fetch(at):
    at.put(*numbered(10))
    path = at.root / "config" / "consumerOffset.json"

    with at.consumer() as consumer:
        iterator = iter(consumer)
        for _ in range(4):
            next(iterator)
        at.work_for(10_000)
        assert '"orders@g":{0:3\n' in path.read_text()
        next(iterator)
        next(iterator)
        at.work_for(10_000)
        assert '"orders@g":{0:5\n' in path.read_text()


def test_what_one_face_has_left_another_one_gets(at):
    at.put(*numbered(10))
    seen = []

    with at.consumer() as consumer:
        for message in consumer:
            if message.body == b"2":
                break
        assert consumer.next().body == b"3"
        consumer.run(lambda messages: seen.append(bodies(messages)), threads=1, batch=4)

    assert seen == [["4", "5", "6", "7"], ["8", "9"]]
    assert at.offset() == 10


@pytest.mark.parametrize("ordered", [False, True])
def test_what_a_stopped_run_has_left_the_next_one_gets(at, ordered):
    at.put(*numbered(10))
    seen = []

    with at.consumer(ordered=ordered) as consumer:

        def handle(message):
            seen.append(message.body.decode())
            if len(seen) == 3:
                consumer.stop()

        assert consumer.run(handle, threads=1) == 3
        assert at.offset() == 3
        assert consumer.run(handle, threads=1) == 7

    assert seen == numbered(10)


@pytest.mark.parametrize("ordered", [False, True])
def test_nothing_beyond_the_end_is_handed_out_however_much_was_fetched(at, ordered):
    at.put(*numbered(5))
    seen = []

    with at.consumer(until="end", idle=None, ordered=ordered) as consumer:
        at.put("later")
        at.put("later", queue=1)
        at.store.work()
        assert consumer.run(lambda messages: seen.extend(bodies(messages)), batch=32) == 5

    assert seen == numbered(5)
    assert at.offset() == 5


def test_threads_share_what_was_fetched_together(tmp_path):
    together = threading.Barrier(4, timeout=30)
    with reput.open(tmp_path, plugins=["consumequeue", "consumer"]) as store:
        store.put_many([reput.Message("orders", b"x") for _ in range(4)])
        store.wait_dispatched()
        with store.consumer("g", "orders", start="earliest", until="end") as consumer:
            # Each of the four waits until three others are being handled, too.
            assert consumer.run(lambda message: together.wait() and None, threads=4) == 4


def test_an_acknowledgement_makes_room_for_a_consumer_that_waits_for_it(tmp_path):
    with reput.open(tmp_path, plugins=["consumequeue", "consumer"]) as store:
        store.put_many([reput.Message("orders", b"%d" % n) for n in range(30)])
        store.wait_dispatched()
        options = {"fetch_count": 10, "limits": Limits(message_count=10), "explicit": True}
        with store.consumer("g", "orders", start="earliest", **options) as consumer:
            taken = [consumer.next(0) for _ in range(20)]
            assert consumer.next(0) is None  # 20 are unfinished
            found = []
            waiting = threading.Thread(target=lambda: found.append(consumer.next(30)))
            waiting.start()
            for message in taken:
                message.ack()
            waiting.join(30)

    assert bodies(found) == ["20"]


def test_of_a_queue_in_order_what_comes_after_a_failure_comes_again_after_it_section_10(at):
    at.put(*numbered(6))
    seen = []

    with at.consumer(ordered=True) as consumer:
        for message in consumer:
            seen.append(message.body.decode())
            if seen == ["0", "1", "2"]:
                message.retry()
        assert at.offset() == 2
        at.work_for(1_000)
        seen += bodies(consumer)

    assert seen == ["0", "1", "2", "2", "3", "4", "5"]
    assert at.offset() == 6


def test_a_queue_in_order_goes_to_another_member_after_the_message_at_hand_section_4(at):
    at.put(*numbered(5), queue=0)
    at.put("other", queue=1)

    with at.consumer(ordered=True, name="b") as old:
        iterator = iter(old)
        found = [next(iterator).body.decode()]
        assert found == ["0"]
        with at.consumer(ordered=True, name="a") as new:  # gets queue 0
            assert bodies(new) == []
            assert bodies(iterator) == ["other"]  # which finishes the one at hand
            at.work_for(1_000)
            at.work_for(1_000)
            assert bodies(new) == ["1", "2", "3", "4"]


def test_a_lost_lock_stops_a_queue_after_the_message_at_hand_section_10(at, monkeypatch):
    at.put(*numbered(5))

    with at.consumer(ordered=True) as consumer:
        iterator = iter(consumer)
        next(iterator)
        with monkeypatch.context() as patched:
            patched.setattr(type(at.plugin.port), "lock", lambda *_: set())
            at.work_for(20_000)
            assert bodies(iterator) == []
            assert at.offset() == 1
        at.work_for(3_000)
        assert bodies(consumer) == ["1", "2", "3", "4"]


def test_only_a_message_that_was_handed_out_takes_too_long_section_9(at):
    at.put(*numbered(3))

    with at.consumer() as consumer:
        iterator = iter(consumer)
        slow = next(iterator)
        at.work_for(1_900_000)
        assert slow.is_done
        assert bodies(at.read("%RETRY%g")) == ["0"]
        assert sorted(bodies(iterator)) == ["0", "1", "2"]


def test_what_is_finished_does_not_stay_in_memory_beside_what_is_not(at):
    at.put(*numbered(3))

    with at.consumer(explicit=True) as consumer:
        first, second, third = list(consumer)
        second.ack()
        consumer.commit()
        (delivery,) = consumer._engine.in_flight
        assert [message is None for message in delivery.messages] == [False, True, False]
        first.ack()
        third.ack()
        consumer.commit()
        assert not consumer._engine.in_flight


def test_what_a_handler_says_of_one_message_counts_more_than_what_it_returns(at):
    at.put(*numbered(4))

    def handle(messages):
        messages[0].ack()
        messages[1].retry(-1)
        return False

    with at.consumer() as consumer:
        assert consumer.run(handle, threads=1, batch=4) == 0

    assert bodies(at.read("%DLQ%g")) == ["1"]
    at.work_for(20_000)
    assert bodies(at.read("%RETRY%g")) == ["2", "3"]


def test_in_order_an_acknowledgement_lets_the_next_message_out_however_many_were_opened(at):
    at.put(*numbered(20), queue=0)
    at.put("other", queue=1)

    with at.consumer(ordered=True, explicit=True) as consumer:
        for number in range(12):
            message = consumer.next(0)
            assert message.body == b"%d" % number
            message.ack()
        held = consumer.next(0)
        assert bodies([held, *consumer]) == ["12", "other"]
        assert at.offset() == 12
        held.ack()
        seen = []
        for message in consumer:
            seen.append(message.body.decode())
            message.ack()
        assert seen == [str(number) for number in range(13, 20)]
        assert at.offset() == 20
