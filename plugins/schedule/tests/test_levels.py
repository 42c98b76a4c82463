"""Delay levels: what they mean, what they do to messages, and when those come."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import attrs
import pytest
from openstores import bodies_in

import reput
from reput.dispatch.runtime.readgroup import ReadGroup
from reput.errors import ConfigError, MessageIllegalError
from reput.record.layout import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from reput_schedule import DelayLevels, delayed
from reput_schedule.propertytext import java_map_order
from reput_testing import ManualClock, QuickDisk

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
HOUR = 3_600_000


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def opened(tmp_path, clock):
    """Opens the store of the test, again and again."""
    stores = []

    def open_it(mode="w", light_queues=0, **options):
        log = {"file_size": 1 << 20, "max_light_queues": light_queues}
        config = {"commitlog": log, "schedule": options}
        store = reput.open(
            tmp_path / "store",
            mode,
            plugins=["consumequeue", "schedule"],
            config=config,
            threads=False,
            clock=clock,
            disk=QuickDisk(),
        )
        stores.append(store)
        return store

    yield open_it
    for store in stores:
        store.close()


def order(body=b"order", **options):
    return reput.Message("orders", body, **options)


def bodies(store, topic="orders", queue_id=0):
    return [view.body for view in store.read(topic, queue_id, 0, 1_000)]


# --------------------------------------------------------------------------- what levels mean


def test_the_default_levels_are_rocketmqs():
    levels = DelayLevels.parse("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")

    assert levels.max_level == 18
    assert [levels.delay_ms(level) for level in (1, 3, 5, 17, 18)] == [
        1_000,
        10_000,
        60_000,
        HOUR,
        2 * HOUR,
    ]
    assert levels.delay_ms(99) == 2 * HOUR


@pytest.mark.parametrize("text", ["", "1s  5s", "1x", "5", "s", "-1s", "1s 2S", "1.5s", " 1s"])
def test_levels_that_are_none_are_a_config_error(text, opened):
    with pytest.raises(ConfigError, match=r"delay_levels.*one of s, m, h, d"):
        opened(delay_levels=text)


# --------------------------------------------------------------------------- parking


def test_a_message_with_a_level_waits_in_the_queue_of_that_level(opened):
    store = opened()

    store.put(delayed(order(tags="paid", keys=["k1"], queue_id=2), level=3))

    (view,) = store.read(SCHEDULE, 2, 0, 10) if store.wait_dispatched() else ()
    assert view.properties == {
        "REAL_TOPIC": "orders",
        "REAL_QID": "2",
        "DELAY": "3",
        "TAGS": "paid",
        "KEYS": "k1",
    }
    assert bodies(store, queue_id=2) == []


@pytest.mark.parametrize("level", ["0", "-1", ""])
def test_a_level_below_the_first_delays_nothing(level, opened):
    store = opened()

    receipt = store.put(order(properties={"DELAY": level}))

    assert receipt.topic == "orders"


@pytest.mark.parametrize("level", ["two", "1.5", "²", "99999999999", " 1"])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_level_that_is_no_number_is_refused(level, encoded, opened):
    properties = f"DELAY\1{level}\2".encode() if encoded else {"DELAY": level}

    with pytest.raises(MessageIllegalError, match="a delay level is an integer"):
        opened().put(order(properties=properties))


@pytest.mark.parametrize("asked", [{"DELAY": "1"}, {"TIMER_DELAY_MS": "5000"}])
@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("topic", {"topic": "a.b"}),
        ("topic", {"topic": "t" * 128}),
        ("queue_id", {"queue_id": -1}),
        ("queue_id", {"queue_id": 1 << 31}),
        ("INNER_MULTI_DISPATCH", {"properties": {"INNER_MULTI_DISPATCH": "%LMQ%a/b"}}),
    ],
)
def test_a_message_that_could_never_be_delivered_is_refused(asked, field, wrong, opened):
    properties = {**asked, **wrong.get("properties", {})}
    message = reput.Message(**{"topic": "orders", "body": b"x", **wrong, "properties": properties})

    with pytest.raises(MessageIllegalError, match=field):
        opened(light_queues=9).put(message)


def test_a_level_goes_before_a_time(opened):
    store = opened()

    receipt = store.put(
        order(properties={"DELAY": "2", "TIMER_DELAY_MS": "1", "TIMER_DELIVER_MS": "1"})
    )

    view = store.get(receipt.physical_offset)
    assert view.topic == SCHEDULE
    assert not any(name.startswith("TIMER") for name in view.properties)


@pytest.mark.parametrize("bits", [TRANSACTION_PREPARED, TRANSACTION_ROLLBACK])
def test_half_messages_are_not_delayed(bits, opened):
    store = opened()

    prepared = store.put(delayed(order(sys_flag=bits), level=1))
    half = attrs.evolve(delayed(order(), level=1), topic="RMQ_SYS_TRANS_HALF_TOPIC")
    parked = store.put(half)

    assert (prepared.topic, parked.topic) == ("orders", "RMQ_SYS_TRANS_HALF_TOPIC")


def test_a_committed_message_is_delayed(opened):
    receipt = opened().put(delayed(order(sys_flag=TRANSACTION_COMMIT), level=1))

    assert receipt.topic == SCHEDULE


def test_properties_that_are_not_utf_8_keep_their_bytes(opened, clock):
    store = opened()

    store.put(order(properties=b"raw\1\xff\xfe\2DELAY\x011\2"))
    clock.advance(1_000)
    store.work()

    (view,) = store.read("orders", 0, 0)
    assert b"raw\1\xff\xfe\2" in view.properties_text


def test_names_come_in_the_order_of_a_java_map():
    # As in stores that RocketMQ 4.8 wrote; a map of 16 buckets, and one of 32.
    assert java_map_order(("UNIQ_KEY", "TAGS", "DELAY", "REAL_QID", "price", "REAL_TOPIC")) == (
        "REAL_TOPIC",
        "price",
        "UNIQ_KEY",
        "DELAY",
        "TAGS",
        "REAL_QID",
    )
    names = tuple("abcdefghijklmnop")
    assert sorted(java_map_order(names)) == list(names)
    assert java_map_order(names)[0] == "p" or java_map_order(names) == names


def test_units_state_the_deliver_time(opened, clock):
    store = opened()
    plugin = store.plugin_objects["schedule"]
    store.put(delayed(order(tags="t"), level=3))
    store.put(order(tags="t"))
    store.put(reput.Message(SCHEDULE, b"", 1, properties={"DELAY": "200"}))
    store.put(reput.Message(SCHEDULE, b"", 1, tags="t"))
    (batch,) = store.scan()

    (codes,) = plugin.reput_enrich(batch).values()

    hashed = ord("t")
    assert codes.tolist() == [clock.now + 10_000, hashed, clock.now + 2 * HOUR, hashed]


# --------------------------------------------------------------------------- delivering


def test_messages_come_when_their_delay_is_over_and_not_before(opened, clock):
    store = opened()
    for level in (3, 1, 2):
        store.put(delayed(order(b"%d" % level), level=level))

    seen = []
    for _ in range(110):
        store.work()
        seen.append(bodies(store))
        clock.advance(100)

    times = [next(i for i, found in enumerate(seen) if len(found) > n) for n in range(3)]
    assert seen[-1] == [b"1", b"2", b"3"]
    assert times == [10, 50, 100]


def test_the_delivered_message_is_the_one_that_was_put(opened, clock):
    store = opened()
    message = order(
        b"\0body\xff",
        queue_id=3,
        tags="paid",
        keys=["a", "b"],
        properties={"colour": "rot"},
        flag=7,
        born_timestamp=12_345,
        born_host=("2001:db8::1", 99),
        reconsume_times=4,
    )

    store.put(delayed(message, level=1))
    clock.advance(1_000)
    store.work()

    (view,) = store.read("orders", 3, 0)
    assert (view.body, view.tags, view.keys) == (b"\0body\xff", "paid", ("a", "b"))
    assert view.properties["colour"] == "rot"
    assert (view.flag, view.born_timestamp, view.born_host) == (7, 12_345, ("2001:db8::1", 99))
    assert (view.reconsume_times, view.store_timestamp) == (4, clock.now)


@pytest.mark.costly
def test_many_messages_come_in_their_order_in_several_slices(opened, clock):
    store = opened()
    store.put_many([delayed(order(b"%d" % number), level=1) for number in range(10_000)])
    clock.advance(1_000)

    calls = 0
    while (due := store.work()) is not None and due <= clock.now:
        calls += 1

    assert 2 <= calls <= 4
    assert list(map(int, bodies_in(store, "orders", 0, 0, 5_000))) == list(range(10_000))


@pytest.mark.parametrize(
    "properties",
    [
        {"DELAY": "1"},
        {"DELAY": "1", "REAL_TOPIC": "orders"},
        {"DELAY": "1", "REAL_TOPIC": "orders", "REAL_QID": "-1"},
        {"DELAY": "1", "REAL_TOPIC": "orders", "REAL_QID": "99999999999"},
        {"DELAY": "1", "REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
        {"DELAY": "1", "REAL_TOPIC": SCHEDULE, "REAL_QID": "0"},
        {"DELAY": "1", "REAL_TOPIC": "../../etc", "REAL_QID": "0"},
    ],
)
def test_what_names_no_place_to_go_to_is_passed_over_and_counted(properties, opened, clock):
    store = opened()
    store.put(delayed(order(b"before"), level=1))
    store.put(reput.Message(SCHEDULE, b"lost", 0, properties=properties))
    store.put(delayed(order(b"behind"), level=1))
    clock.advance(1_000)

    store.work()

    assert bodies(store) == [b"before", b"behind"]
    assert store.report()["plugins"]["schedule"]["dropped"] == 1
    assert store.plugin("schedule").scheduled().message_count == 0


def test_nothing_is_delivered_with_never(opened, clock):
    store = opened(deliver="never")
    store.put(delayed(order(), level=1))
    store.put(delayed(order(), delay_ms=1_000))
    clock.advance(HOUR)

    assert store.work() is None
    assert bodies(store) == []
    assert store.plugin("schedule").scheduled().message_count == 2


def test_a_read_only_store_delivers_nothing_and_shows_what_waits(opened, clock):
    store = opened()
    store.put(delayed(order(), level=4))
    store.put(delayed(order(), deliver_at=clock.now + 5_500))
    store.wait_dispatched()
    store.flush()
    clock.advance(HOUR)

    reader = opened("r")

    waiting = reader.plugin("schedule").scheduled()
    assert [(each.level, each.message_count) for each in waiting.levels] == [(4, 1)]
    assert waiting.levels[0].next_timestamp == clock.now - HOUR + 30_000
    assert waiting.times.tolist() == [clock.now - HOUR + 6_000]
    assert waiting.next_timestamp == clock.now - HOUR + 6_000
    assert bodies(reader) == []


# --------------------------------------------------------------------------- clocks


def test_flushing_wakes_who_sleeps_through_a_jump_back(opened, clock):
    store = opened()
    store.put(delayed(order(), level=3))
    first = store.work()
    clock.advance(-HOUR)

    store.flush()
    again = store.work()

    assert (first, again) == (clock.now + HOUR + 10_000, clock.now + 10_000)


# --------------------------------------------------------------------------- delayed()


def test_exactly_one_way_to_delay_is_expected():
    with pytest.raises(ValueError, match="not none"):
        delayed(order())
    with pytest.raises(ValueError, match="not level, delay_ms"):
        delayed(order(), level=1, delay_ms=1)
    with pytest.raises(ValueError, match="the first one is 1"):
        delayed(order(), level=0)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"level": True}, "level: an integer expected, found bool"),
        ({"level": 1.5}, "level: an integer"),
        ({"delay_ms": "3"}, "delay_ms: ms or a timedelta expected, found str '3'"),
        ({"delay_ms": 1.5}, "delay_ms: ms or a timedelta"),
        ({"deliver_at": 1.5}, "deliver_at: ms since the epoch or a datetime"),
    ],
)
def test_a_delay_of_another_type_is_refused_by_its_name(wrong, expected):
    with pytest.raises(TypeError, match=expected):
        delayed(order(), **wrong)


@pytest.mark.parametrize("delay", [0, -4, dt.timedelta(seconds=-3)])
def test_a_delay_of_0_or_less_means_at_once_as_the_page_says(opened, delay):
    receipt = opened().put(delayed(order(), delay_ms=delay))

    assert receipt.topic == "orders"
    page = Path(__file__).resolve().parents[3] / "docs" / "delayed-messages.md"
    assert "whose delay is 0 or less, is delivered at once" in page.read_text("utf-8")


def test_what_was_delayed_before_can_be_delayed_again(opened, clock):
    store = opened()
    store.put(delayed(order(), level=1))
    clock.advance(1_000)
    store.work()
    (view,) = store.read("orders", 0, 0)

    store.put(delayed(view.to_message(), delay_ms=3_000))
    clock.advance(4_000)
    while (due := store.work()) is not None and due <= clock.now:
        pass

    first, second = store.read("orders", 0, 0, 10)
    assert first.body == second.body
    assert "DELAY" not in second.properties


# --------------------------------------------------------------------------- a slow reader beside


def test_a_message_is_delivered_though_its_queue_has_it_later_than_this_plugin(opened, clock):
    """The loop gives a plugin that takes long a thread of its own, also that of the queues."""
    store = opened()
    members = store._parts.writing().members
    slow = members.board.runners["consumequeue"]
    slow.group = ReadGroup(members.loop.feed, is_shared=False)
    store.put(order(properties={"DELAY": "1"}))
    while members.loop.shared.step():
        pass
    members.workers.step()
    assert store.plugin("schedule").delivery.queues[1].is_behind

    while slow.group.step():
        pass
    clock.advance(2_000)
    members.workers.step()
    while members.loop.shared.step() or slow.group.step():
        pass

    assert bodies(store) == [b"order"]
