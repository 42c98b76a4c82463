"""Which queue a message goes to that names none: turns, keys, and how many queues there are."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

import reput
from reput import Columns, Message
from reput_client.producer.queuechooser import queue_of_key
from reput_consumer import MessageQueue

pytestmark = pytest.mark.queues


def _put(store, count, way, topic="orders", queue_id=None):
    """Put messages in one way of several, and return their queues."""
    messages = [Message(topic, b"%d" % number, queue_id) for number in range(count)]
    if way == "put":
        return [store.put(each).queue_id for each in messages]
    if way == "columns":
        columns = Columns(topic=topic, body=[each.body for each in messages], queue_id=queue_id)
        return store.put_many(columns).queue_ids.tolist()
    if way == "special":  # what only the general way takes
        return [store.put(attrs.evolve(each, born_host=("::1", 1))).queue_id for each in messages]
    return store.put_many(messages).queue_ids.tolist()


@pytest.mark.parametrize("way", ["put", "put_many", "columns", "special"])
def test_queues_take_turns_and_go_on_after_a_reopening(tmp_path, way):
    with reput.open(tmp_path / "s", plugins=[]) as store:
        assert _put(store, 6, way) == [0, 1, 2, 3, 0, 1]
        assert _put(store, 3, way, "others") == [0, 1, 2]
        assert _put(store, 2, way, queue_id=7) == [7, 7]
        assert _put(store, 1, way) == [2]
    with reput.open(tmp_path / "s", plugins=[]) as store:
        assert _put(store, 3, way) == [3, 0, 1]


def test_ways_of_putting_share_the_turns_and_the_rows_of_others_take_none(tmp_path):
    with reput.open(tmp_path / "s", plugins=[]) as store:
        assert [_put(store, 1, way) for way in ("put_many", "put", "special", "columns")] == [
            [0],
            [1],
            [2],
            [3],
        ]
        mixed = [Message("orders"), Message("orders", b"", 9), Message("others"), Message("orders")]
        assert store.put_many(mixed).queue_ids.tolist() == [0, 9, 0, 1]
        columns = Columns(topic="orders", body=[b""] * 3, queue_id=[None, 9, None])
        assert store.put_many(columns).queue_ids.tolist() == [2, 9, 3]


@pytest.mark.parametrize("count", [1, 3])
def test_the_option_says_how_many_queues_take_turns(tmp_path, count):
    config = {"commitlog": {"default_queue_count": count}}
    with reput.open(tmp_path / "s", plugins=[], config=config) as store:
        assert _put(store, 4, "put") == [number % count for number in range(4)]


KEYS = ["alice", "bob", "Aa", "BB", "\u4e2d\u6587", "", 7, -7, 1 << 40, -(1 << 31)]


def test_messages_of_a_key_go_to_the_queue_that_clients_choose(tmp_path):
    queues = [MessageQueue("orders", "broker-a", number) for number in range(4)]
    expected = [queue_of_key(queues, key).queue_id for key in KEYS]
    assert len(set(expected)) > 2

    with reput.open(tmp_path / "s", plugins=[]) as store:
        messages = [Message("orders", b"x")] * len(KEYS)
        columns = Columns(topic="orders", body=[b"x"] * len(KEYS))
        assert [store.put(messages[0], ordered_by=key).queue_id for key in KEYS] == expected
        assert store.put_many(messages, ordered_by=KEYS).queue_ids.tolist() == expected
        assert store.put_many(columns, ordered_by=KEYS).queue_ids.tolist() == expected
        assert set(store.put_many(messages, ordered_by="bob").queue_ids) == {expected[1]}
        some = store.put_many(messages[:3], ordered_by=[None, "bob", None]).queue_ids.tolist()
        assert some == [0, expected[1], 1]  # these alone have taken turns


@pytest.mark.parametrize(
    ("message", "key", "error"),
    [
        (Message("orders", b"", 0), "alice", ValueError),
        (Message("orders"), 1.5, TypeError),
        (Message("orders"), True, TypeError),
    ],
)
def test_a_key_that_cannot_decide_is_refused(tmp_path, message, key, error):
    with reput.open(tmp_path / "s", plugins=[]) as store:
        for put in (
            lambda: store.put(message, ordered_by=key),
            lambda: store.put_many([message], ordered_by=[key]),
            lambda: store.put_many(
                Columns(topic="orders", body=[b""], queue_id=message.queue_id), ordered_by=[key]
            ),
        ):
            with pytest.raises(error, match="ordered_by"):
                put()
        with pytest.raises(ValueError, match="2 keys expected"):
            store.put_many([message] * 2, ordered_by=["alice"])
        assert store.log.max_physical_offset == 0


@attrs.define(eq=False)
class Counted(reput.Plugin):
    """Knows topics, and sees all messages before they are stored."""

    name = "counted"
    counts: dict[str, int]
    seen: list[int | None] = attrs.field(factory=list)

    @property
    def queue_counts(self) -> Mapping[str, int]:
        return self.counts

    @reput.hookimpl
    def reput_open(self, context):
        self.context = context

    @reput.hookimpl
    def reput_put(self, messages):
        self.seen += [each.queue_id for each in messages]

    context: object = None


def test_plugins_say_how_many_queues_a_topic_has_and_see_the_chosen_queue(tmp_path):
    plugin = Counted({"orders": 2})
    with reput.open(tmp_path / "s", plugins=[plugin]) as store:
        assert _put(store, 3, "put") == plugin.seen == [0, 1, 0]
        plugin.counts = {"orders": 3}
        plugin.context.renew_interest()
        assert _put(store, 2, "columns") == [0, 1]  # three are stored, so the first one is next
        assert plugin.context.store.next_queue("orders") == 2
        plugin.counts = {"orders": "many"}  # what a plugin gets wrong counts as unknown
        plugin.context.renew_interest()
        assert _put(store, 1, "put", "others") == [0]


def test_messages_of_a_topic_come_from_all_queues_in_stored_order(tmp_path):
    with reput.open(tmp_path / "s", plugins=["consumequeue", "filter"]) as store:
        for number in range(100):
            tags = "paid" if number % 3 == 0 else "open"
            store.put(Message("orders", b"%d" % number, tags=tags))
            store.put(Message("others", b"?"))
        store.wait_dispatched()
        found = store.messages("orders")
        store.put(Message("orders", b"later"))
        store.wait_dispatched()
        assert [int(each.body) for each in found] == list(range(100))
        paid = store.messages("orders", store.filter("paid", "TAG"))
        assert [int(each.body) for each in paid] == list(range(0, 100, 3))
        assert list(store.messages("nothing")) == []
