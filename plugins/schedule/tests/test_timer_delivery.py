"""What the timer delivers, when, and what it does not."""

from __future__ import annotations

import numpy as np
import pytest
from timerstores import DAY, TimerStore

from reput.errors import PropertiesSizeError
from reput.record import Message
from reput.status import PutStatus
from reput_schedule import ScheduleConfig
from reput_schedule.timerwheel.timer import TimerIllegalError
from reput_testing.logs.clock import ManualClock


@pytest.fixture
def store(tmp_path):
    with TimerStore(tmp_path / "store") as opened:
        yield opened


@pytest.mark.parametrize("precision", [10, 1000])
def test_messages_come_in_their_precision_and_never_early(tmp_path, precision):
    with TimerStore(tmp_path / "store", precision_ms=precision) as store:
        begin = store.clock()
        delays = [1, precision - 1, precision, precision + 1, 7 * precision, 7 * precision + 1]
        for delay in delays:
            store.put_in(str(delay), delay)
        store.run_until(begin + 10 * precision)

        late = [m.store_timestamp - begin - int(m.body) for m in store.messages()]
        assert len(late) == len(delays)
        assert all(0 <= each < precision for each in late)


def test_a_delivered_message_keeps_what_it_was_put_with(store):
    message = Message(
        "Topic",
        b"body",
        queue_id=3,
        tags="blue",
        keys="k1 k2",
        flag=7,
        born_timestamp=12_345,
        born_host=("10.1.2.3", 4567),
        reconsume_times=2,
        properties={"mine": "x", "TIMER_DELAY_SEC": "5"},
    )
    now = store.clock()
    store.store.put(message)
    store.run_until(now + 10_000)

    (found,) = store.store.read("Topic", 3, 0)
    assert (found.body, found.tags, found.keys) == (b"body", "blue", ("k1", "k2"))
    assert (found.flag, found.born_timestamp, found.reconsume_times) == (7, 12_345, 2)
    assert found.born_host == ("10.1.2.3", 4567)
    assert found.prepared_transaction_offset == 0
    added = {name: found.properties[name] for name in found.properties if name not in "TAGSKEYS"}
    assert added == {
        "mine": "x",
        "TIMER_DELAY_SEC": "5",
        "TIMER_OUT_MS": str(now + 4000),
        "REAL_TOPIC": "Topic",
        "REAL_QID": "3",
        "TIMER_ENQUEUE_MS": str(now),
        "TIMER_DEQUEUE_MS": str(now + 5000),
    }


def test_the_first_of_three_properties_decides(store):
    now = store.clock()
    store.put("sec", TIMER_DELAY_SEC=2, TIMER_DELAY_MS=9000, TIMER_DELIVER_MS=now + 20_000)
    store.put("ms", TIMER_DELAY_MS=4000, TIMER_DELIVER_MS=now + 20_000)
    store.put("at", TIMER_DELIVER_MS=now + 6000)
    store.run_until(now + 10_000)

    times = {m.body.decode(): m.store_timestamp - now for m in store.messages()}
    assert times == {"sec": 2000, "ms": 4000, "at": 6000}


@pytest.mark.parametrize("properties", [{}, {"TIMER_OUT_MS": 5, "TIMER_DELAY_SEC": 5}])
def test_what_asks_for_no_timer_is_stored_at_once(store, properties):
    store.put("now", **properties)
    store.put("over", TIMER_DELIVER_MS=store.clock())

    assert store.bodies() == ["now", "over"]


@pytest.mark.parametrize("text", ["soon", "1.5", "9" * 19, "0x10", "٣"])
def test_a_time_that_is_no_number_is_refused(store, text):
    with pytest.raises(TimerIllegalError, match="TIMER_DELIVER_MS") as caught:
        store.put("never", TIMER_DELIVER_MS=text)
    assert caught.value.status is PutStatus.WHEEL_TIMER_MSG_ILLEGAL


def test_cancelling_what_is_due_is_refused(store):
    with pytest.raises(TimerIllegalError, match="cancelled"):
        store.cancel("gone", store.clock())


def test_a_message_without_room_for_what_delivery_adds_is_refused(store):
    with pytest.raises(PropertiesSizeError):
        store.put_in("large", 5000, filling="x" * 32_500)


@pytest.mark.costly
def test_there_is_no_horizon(store):
    now = store.clock()
    for days in (1, 3, 10, 20, 400):
        store.put_in(str(days), days * DAY + 500)
    store.run_until(now + 401 * DAY)

    times = {m.body.decode(): m.store_timestamp - now for m in store.messages()}
    assert times == {str(days): days * DAY + 1000 for days in (1, 3, 10, 20, 400)}
    assert store.timer.report()["rolled"] > 200


@pytest.mark.parametrize("days", [0, 1, 5])
def test_a_cancelled_message_never_comes(store, days):
    now = store.clock()
    time = now + days * DAY + 7_000
    store.put_at("cancelled", time)
    store.put_at("kept", time)
    store.run_until(now + days * DAY // 2)
    store.cancel("cancelled", time)
    store.run_until(time + 5_000)

    assert store.bodies() == ["kept"]
    report = store.timer.report()
    assert (report["cancelled"], report["pending"], report["by_topic"]) == (1, 0, {})


def test_another_topics_message_of_that_key_is_not_cancelled(store):
    now = store.clock()
    store.put_at("same", now + 5000)
    store.put("other", topic="Other", UNIQ_KEY="same", TIMER_DELIVER_MS=now + 5000)
    store.cancel("same", now + 5000)
    store.run_until(now + 9000)

    assert (store.bodies(), store.bodies("Other")) == ([], ["other"])


def test_what_cannot_be_delivered_is_dropped_and_holds_up_nothing(store):
    due = store.clock() + 3000

    def park(body, **properties):
        texts = {"TIMER_OUT_MS": str(due), **properties}
        store.store.put(Message("rmq_sys_wheel_timer", body.encode(), properties=texts))

    park("illegal", REAL_TOPIC="a b/c", REAL_QID="0")
    park("no queue", REAL_TOPIC="Topic", REAL_QID="x")
    park("back again", REAL_TOPIC="rmq_sys_wheel_timer", REAL_QID="0")
    park("no topic", REAL_QID="0")
    park("good", REAL_TOPIC="Topic", REAL_QID="0")
    store.run_until(due + 9000)

    report = store.timer.report()
    assert store.bodies() == ["good"]
    assert (report["dropped"], report["refused"], report["pending"]) == (3, 1, 0)


def test_a_put_that_fails_after_a_message_was_refused_repeats_nothing(store, monkeypatch):
    due = store.clock() + 3000
    for body, topic in [("a", "Topic"), ("b", "Topic"), ("illegal", "a b/c"), ("c", "Topic")]:
        texts = {"TIMER_OUT_MS": str(due), "REAL_TOPIC": topic, "REAL_QID": "0"}
        store.store.put(Message("rmq_sys_wheel_timer", body.encode(), properties=texts))
    store.store.wait_dispatched()
    access = store.plugin.context.store
    real = access.put_many

    def full(self, messages):
        if messages[0].body == b"c":
            raise OSError(28, "disk full")
        return real(messages)

    monkeypatch.setattr(type(access), "put_many", full)
    store.clock.now = due + 9000
    with pytest.raises(OSError, match="disk full"):
        store.timer.work(store.clock())
    monkeypatch.undo()
    store.run_until(due + 9000)

    assert store.bodies() == ["a", "b", "c"]


def test_a_clock_set_back_again_and_again_is_remembered_over_a_restart(store):
    begin = store.clock()
    for number in range(5):
        store.clock.now = begin + 50_000 - 9_000 * number
        store.put_in(str(number), 2000)
        store.run_until(store.clock() + 4_000)
    assert len(store.timer._agenda.reached.marks) > 2
    store.store.flush()
    store.crash().open()

    store.run_until(begin + 100_000)

    assert store.bodies() == ["0", "1", "2", "3", "4"]


def test_a_clock_far_in_the_future_does_not_spoil_the_wheel(store):
    begin = store.clock()
    store.clock.now = begin + 73 * 365 * DAY
    store.put_in("far", 5_000)
    store.run()
    store.clock.now = begin
    store.put_in("near", 5_000)
    store.run_until(begin + 10_000)
    assert store.bodies() == ["near"]

    store.run_until(begin + 73 * 365 * DAY + 10_000)

    assert store.bodies() == ["near", "far"]


def test_two_times_that_share_a_slot_do_not_push_each_other_out(tmp_path):
    clock = ManualClock()
    with TimerStore(tmp_path / "store", clock) as store:
        begin = clock()
        wheel = 1_209_600 * 1000
        store.put_at("first", begin + 50_000)
        store.store.wait_dispatched()
        clock.now = begin + wheel - 10_000  # nobody worked for 14 days
        store.put_at("second", begin + wheel + 50_000)
        store.store.wait_dispatched()
        assert store.timer._files.wheel.aside
        store.run()
        assert store.bodies() == ["first"]
        store.run_until(begin + wheel + 60_000)
        assert store.bodies() == ["first", "second"]


def test_many_messages_of_one_slot_come_in_their_order(store):
    now = store.clock()
    bodies = [str(number) for number in range(7_000)]
    properties = {"TIMER_DELIVER_MS": str(now + 5000)}
    store.store.put_many(
        [Message("Topic", body.encode(), properties=properties) for body in bodies]
    )
    store.clock.advance(5000)

    calls = 0
    while store.store.work() == store.clock():
        calls += 1

    assert store.bodies() == bodies
    assert calls >= 3  # cut into slices


def test_pending_messages_are_counted_by_their_time(store):
    now = store.clock()
    for delay in (5000, 5000, 9000):
        store.put_in(f"m{delay}", delay)
    store.cancel("m9000", now + 9000)
    store.store.wait_dispatched()

    times, counts = store.timer.pending()

    assert (times - now).tolist() == [5000]
    assert counts.tolist() == [2]
    assert times.dtype == counts.dtype == np.int64


def test_the_oldest_message_that_waits_holds_the_log(store):
    assert store.timer.hold() is None
    store.put("at once")
    store.put_in("long", 60_000)
    store.put_in("short", 2_000)
    store.store.wait_dispatched()
    first, second = (m.physical_offset for m in store.messages("rmq_sys_wheel_timer"))
    assert store.timer.hold() == first < second

    store.run_until(store.clock() + 10_000)
    assert store.timer.hold() == first
    store.run_until(store.clock() + 100_000)
    assert store.timer.hold() is None


@pytest.mark.parametrize(
    "options",
    [
        {"precision_ms": 9},
        {"precision_ms": 1.5},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises((ValueError, TypeError)):
        ScheduleConfig(**options)
