"""Where a member begins: the table of section 5, cell by cell, and what is said of errors there."""

from __future__ import annotations

import logging

import attrs
import pytest
from groupstores import bodies

from reput.errors import ServiceNotAvailableError
from reput_consumer import MessageQueue, NearbyRoom
from reput_consumer.group.membersettings import Start
from reput_consumer.group.startoffset import start_offset

ORDERS = MessageQueue("orders", "broker-a", 0)
RETRY = MessageQueue("%RETRY%g", "broker-a", 0)
AT, STORED = 1_700_000_000_000, 42


@attrs.frozen
class Queues:
    """A port that knows queues of messages 10 to 99, of which the 30th was stored `AT` a time."""

    def bounds(self, queue):
        return 10, 100

    def offset_by_time(self, queue, timestamp):
        assert timestamp == AT
        return 30


@pytest.mark.parametrize(
    ("start", "stored", "grown", "orders", "retries"),
    [
        (Start("latest"), None, False, 100, 0),
        (Start("earliest"), None, False, 0, 0),
        (Start("timestamp", AT), None, False, 30, 100),
        (Start("offset", 7), None, False, 7, 0),
        # A queue that came while the group read others of the topic.
        (Start("latest"), None, True, 0, 0),
        (Start("earliest"), None, True, 0, 0),
        (Start("timestamp", AT), None, True, 30, 100),
        *(
            (start, STORED, grown, STORED, STORED)
            for start in (Start("latest"), Start("earliest"), Start("timestamp", AT))
            for grown in (False, True)
        ),
    ],
)
def test_the_table_of_section_5(start, stored, grown, orders, retries):
    found = [
        start_offset(Queues(), queue, stored, start, has_grown=grown) for queue in (ORDERS, RETRY)
    ]

    assert found == [orders, retries]


def test_a_queue_whose_place_cannot_be_told_is_taken_3_s_later_section_8(at, monkeypatch, caplog):
    at.put("1")
    port = type(at.plugin.port)
    fails = True

    def bounds(self, queue, *, real=port.bounds):
        if fails and queue.topic == "orders":
            raise ServiceNotAvailableError("queue", None, None, "not now")
        return real(self, queue)

    monkeypatch.setattr(port, "bounds", bounds)
    with caplog.at_level(logging.WARNING), at.consumer(start="latest") as consumer:
        assert "orders" not in {queue.topic for queue in consumer.queues}
        fails = False
        at.work_for(3_000)
        assert "orders" in {queue.topic for queue in consumer.queues}
        at.put("2")
        assert bodies(consumer) == ["2"]
    assert "queues not read yet" in caplog.text


def test_queues_that_cannot_be_shared_out_stay_where_they_are_section_4(at, caplog):
    rooms = {"a": "east", "b": ""}
    strategy = NearbyRoom(room_of_broker=lambda name: "east", room_of_member=rooms.get)
    at.put("1", "2")

    with caplog.at_level(logging.WARNING), at.consumer(name="a", strategy=strategy) as a:
        assert a.next(0).body == b"1"
        with at.consumer(name="b", strategy=strategy) as b:
            assert b.queues == []
            assert [queue.topic for queue in a.queues] == ["%RETRY%g", "orders"]
            assert bodies(a) == ["2"]

    assert (
        "queues not shared out group=g topic=orders: the machine room of member 'b'" in caplog.text
    )


def test_what_tags_pass_over_counts_as_read_when_nothing_is_at_hand_section_8(at):
    at.put("1", "2", "3", tags="other")

    with at.consumer("g", {"orders": "paid"}) as consumer:
        assert bodies(consumer) == []
        at.put("4", tags="other")
        assert bodies(consumer) == []
        consumer.commit()
        assert at.offset() == 4


def test_messages_that_tags_pass_over_do_not_free_one_that_is_unfinished_section_8(at):
    at.put("1", tags="paid")
    at.put("2", "3", tags="other")

    with at.consumer("g", {"orders": "paid"}, explicit=True) as consumer:
        message = consumer.next(0)
        assert consumer.next(0) is None
        consumer.commit()
        assert at.offset() == 0
        message.ack()
        consumer.commit()
        assert at.offset() == 3


def test_broadcasting_in_order_needs_no_locks_section_10(at):
    at.put("1", "2")

    options = {"broadcast": True, "ordered": True, "explicit": True}
    with at.consumer(name="a", **options) as a, at.consumer(name="b", **options) as b:
        first, other = a.next(0), b.next(0)
        assert (first.body, other.body) == (b"1", b"1")
        assert a.next(0) is None  # the queue waits for its first message, of each member alone
        first.ack()
        assert a.next(0).body == b"2"
        assert b.next(0) is None
