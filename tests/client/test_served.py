"""The client talks to reput's own server: what one sends, the other stores and gives back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

import reput
from reput.record import Message
from reput_client import BrokerError, Client
from reput_consumer import Consumer, ReceivedMessage, sql
from reput_server import ServerConfig, serving
from reput_testing import ManualClock

_SMALL = {
    "commitlog": {"file_size": 1 << 20},
    "consumequeue": {"units_per_file": 1_000},
}
_PLUGINS = frozenset({"consumequeue", "consumer", "filter", "schedule"})
_ANYWHERE = ServerConfig(listen=("127.0.0.1", 0), name_server=("127.0.0.1", 0))


@attrs.frozen(eq=False)
class Served:
    """A store, its clock, and a client of the server before it."""

    store: reput.Store
    clock: ManualClock
    client: Client

    def forward(self, milliseconds: int) -> None:
        """Have that time go by at once."""
        self.clock.now += milliseconds
        self.store.work()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    clock = ManualClock()
    with (
        reput.open(tmp_path / "store", plugins=_PLUGINS, config=_SMALL, clock=clock) as store,
        serving(store, _ANYWHERE) as server,
    ):
        assert server.name_server is not None
        host, port = server.name_server
        with Client(f"{host}:{port}", local_offsets=str(tmp_path)) as client:
            yield Served(store, clock, client)


def bodies_of(consumer: Consumer, count: int) -> list[bytes]:
    found = [consumer.next(20) for _ in range(count)]
    return [message.body for message in found if message is not None]


def test_what_is_sent_is_in_the_store(served: Served) -> None:
    with served.client.producer("shop") as producer:
        one = producer.send(Message("orders", b"one", tags="paid", keys=["k"]))
        large = producer.send(Message("orders", b"large " * 2_000))
        batch = producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])
        futures = [producer.submit(Message("orders", b"s%d" % number)) for number in range(50)]
        results = [one, large, batch, *(future.result() for future in futures)]
    served.store.wait_dispatched()

    stored = served.store.get(one.offset_msg_id)
    assert (stored.body, stored.tags, stored.keys) == (b"one", "paid", ("k",))
    assert (stored.queue_id, stored.queue_offset) == (one.queue.queue_id, one.queue_offset)
    assert stored.unique_key == one.msg_id
    assert sum(queue.max_queue_offset for queue in served.store.queues()) == 54
    assert all(each.is_ok for each in results)


def test_messages_come_by_tags_and_by_conditions(served: Served) -> None:
    with served.client.producer("shop") as producer:
        for number in range(10):
            producer.send(Message("orders", b"%d" % number, tags="ab"[number % 2]))
    with served.client.consumer("tags", {"orders": "b"}, start="earliest") as consumer:
        assert sorted(bodies_of(consumer, 5)) == [b"1", b"3", b"5", b"7", b"9"]
    condition = {"orders": sql("TAGS = 'a'")}
    with served.client.consumer("conditions", condition, start="earliest") as consumer:
        assert sorted(bodies_of(consumer, 5)) == [b"0", b"2", b"4", b"6", b"8"]


def test_a_group_goes_on_where_it_stopped_also_in_the_process_of_the_store(
    served: Served,
) -> None:
    with served.client.producer("shop") as producer:
        queue = producer.queues("orders")[0]
        for number in range(3):
            producer.send(Message("orders", b"%d" % number), queue=queue)
    with served.client.consumer("billing", "orders", start="earliest") as consumer:
        assert bodies_of(consumer, 1) == [b"0"]

    with served.store.consumer("billing", "orders", idle=0) as consumer:
        assert [message.body for message in consumer] == [b"1", b"2"]


def test_members_of_several_clients_share_the_queues(served: Served) -> None:
    with served.client.producer("shop") as producer:
        producer.send(Message("orders", b"x"))
    changed = threading.Event()
    with served.client.consumer("billing", "orders") as first:
        with served.client.consumer("billing", "orders") as second:
            for _ in range(500):
                if _shares(first) == _shares(second) == 2:
                    break
                changed.wait(0.02)
            assert (_shares(first), _shares(second)) == (2, 2)


def _shares(consumer: Consumer) -> int:
    return sum(queue.topic == "orders" for queue in consumer.queues)


def test_a_failed_message_comes_again_after_its_delay(served: Served) -> None:
    with served.client.producer("shop") as producer:
        producer.send(Message("orders", b"x"))
    with served.client.consumer("billing", "orders", start="earliest", explicit=True) as consumer:
        first = consumer.next(20)
        assert first is not None
        first.retry()
        assert consumer.next(0.1) is None
        served.forward(10_000)
        again = consumer.next(20)

    assert again is not None
    assert (again.body, again.topic, again.reconsume_times) == (b"x", "orders", 1)


def test_messages_of_a_key_come_in_order_though_one_fails(served: Served) -> None:
    with served.client.producer("shop") as producer:
        for number in range(12):
            producer.send(Message("orders", b"%d" % number), ordered_by="key")
    seen: list[bytes] = []

    def handle(message: ReceivedMessage) -> bool:
        if message.body == b"5" and message.reconsume_times == 0:
            return False
        seen.append(message.body)
        if len(seen) == 12:
            consumer.stop()
        return True

    with served.client.consumer(
        "billing", "orders", start="earliest", ordered=True, suspend_ms=10, idle=20
    ) as consumer:
        consumer.run(handle, threads=3)

    assert seen == [b"%d" % number for number in range(12)]


def test_a_delayed_message_comes_when_its_time_has_come(served: Served) -> None:
    with (
        served.client.producer("shop") as producer,
        served.client.consumer("billing", "orders", start="earliest") as consumer,
    ):
        producer.send(Message("orders", b"later"), level=18)
        assert consumer.next(0.1) is None
        served.forward(2 * 3_600_000)
        assert bodies_of(consumer, 1) == [b"later"]


def test_what_the_server_does_not_do_is_told_with_its_word(served: Served) -> None:
    with served.client.producer("shop") as producer:
        producer.send(Message("orders", b"x"))
        queue = producer.queues("orders")[0]._replace(queue_id=99)
        with pytest.raises(BrokerError, match="queueId"):
            producer.send(Message("orders", b"x"), queue=queue)
