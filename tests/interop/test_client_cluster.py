"""Our client in clusters of real brokers: two masters, a slave, and parts that go and return."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from realbroker import RocketMQ, Server

import reput
from reput.record import Message
from reput_client import Client
from reput_consumer import Consumer


def quick_client(names: Server) -> Client:
    return Client(names.address, route_interval=1, heartbeat_interval=1, rebalance_interval=2)


def until(what: Callable[[], object], seconds: float = 60) -> None:
    end, pause = time.monotonic() + seconds, threading.Event()
    while not what():
        assert time.monotonic() < end, f"not in {seconds} s"
        pause.wait(0.2)


@pytest.fixture
def names(rocketmq: RocketMQ, tmp_path: Path) -> Iterator[Server]:
    with rocketmq.name_server(tmp_path / "names") as server:
        yield server


def make_topic(rocketmq: RocketMQ, directory: Path, names: Server, brokers: list[Server]) -> None:
    with rocketmq.peer(directory, names.address) as peer:
        for broker in brokers:
            peer.admin("updateTopic", "-b", broker.address, "-t", "orders", "-r", "2", "-w", "2")
        until(
            lambda: all(
                each.address in peer.admin("topicRoute", "-t", "orders") for each in brokers
            )
        )


def taken(consumer: Consumer, wanted: set[bytes], seconds: float = 60) -> list[bytes]:
    """Messages, until all that are wanted have come."""
    found: list[bytes] = []
    end = time.monotonic() + seconds
    while not wanted <= set(found):
        assert time.monotonic() < end, f"missing {sorted(wanted - set(found))[:5]}"
        message = consumer.next(1)
        if message is not None:
            found.append(message.body)
    return found


def test_sends_and_reads_go_on_while_one_of_two_masters_is_away(
    rocketmq: RocketMQ, names: Server, tmp_path: Path
) -> None:
    with (
        rocketmq.broker(tmp_path / "one", names.address, name="one") as one,
        rocketmq.broker(tmp_path / "two", names.address, name="two") as two,
        quick_client(names) as client,
    ):
        make_topic(rocketmq, tmp_path / "peer", names, [one, two])
        with (
            client.producer("shop") as producer,
            client.consumer("billing", "orders", start="earliest") as consumer,
        ):
            before = [b"before %d" % at for at in range(40)]
            places = Counter(producer.send(Message("orders", each)).queue.broker for each in before)
            first = taken(consumer, set(before))

            one.kill()
            during = [b"during %d" % at for at in range(40)]
            elsewhere = {producer.send(Message("orders", each)).queue.broker for each in during}
            second = taken(consumer, set(during))

            with rocketmq.broker(tmp_path / "one", names.address, name="one", port=one.port):
                until(lambda: producer.send(Message("orders", b"?")).queue.broker == "one")
                after = [b"after %d" % at for at in range(40)]
                again = Counter(
                    producer.send(Message("orders", each)).queue.broker for each in after
                )
                third = taken(consumer, set(after))
                consumer.close()  # it commits at both brokers

    assert places.keys() == {"one", "two"}
    assert elsewhere == {"two"}
    assert again.keys() == {"one", "two"}
    assert sorted(first) == sorted(before)
    assert set(second) >= set(during)
    assert set(third) >= set(after)


def count_of(store: Path) -> int:
    """Messages in the queues of a broker's store."""
    with reput.open(store, "r", plugins=["consumequeue"]) as reader:
        return sum(each.max_queue_offset for each in reader.queues() if each.topic == "orders")


def knows_topic(store: Path) -> bool:
    """Whether a broker has saved that the topic exists."""
    topics = store / "config" / "topics.json"
    return topics.exists() and '"orders"' in topics.read_text(encoding="utf-8")


def test_a_slave_is_read_while_its_master_is_away(
    rocketmq: RocketMQ, names: Server, tmp_path: Path
) -> None:
    # No `haMasterAddress`: a slave of 5.x that has it copies nothing, and one of 4.9 or 5.x that
    # does not learns the address from the name server.
    readable = {"slaveReadEnable": "true"}
    with (
        rocketmq.broker(tmp_path / "master", names.address, name="one", **readable) as master,
        rocketmq.broker(
            tmp_path / "slave",
            names.address,
            name="one",
            brokerRole="SLAVE",
            brokerId=1,
            **readable,
        ) as slave,
        quick_client(names) as client,
    ):
        make_topic(rocketmq, tmp_path / "peer", names, [master])
        bodies = [b"%d" % at for at in range(6_000)]  # far more than is fetched ahead
        with client.producer("shop") as producer:
            for at in range(0, len(bodies), 500):
                producer.send_batch([Message("orders", each) for each in bodies[at : at + 500]])
        until(lambda: count_of(slave.store) == len(bodies))
        # It answers for the topic only once it has copied the topics, too: of 5.3.3 each minute.
        until(lambda: knows_topic(slave.store), 150)
        with client.consumer("billing", "orders", start="earliest") as consumer:
            first = consumer.next(60)
            assert first is not None
            master.kill()
            rest = taken(consumer, {*bodies} - {first.body}, 120)

    assert sorted([first.body, *rest]) == sorted(bodies)


def test_a_client_goes_on_without_its_name_server_and_finds_it_again(
    rocketmq: RocketMQ, names: Server, tmp_path: Path
) -> None:
    with (
        ExitStack() as parts,  # which come back later, and end last
        rocketmq.broker(tmp_path / "one", names.address, name="one") as one,
        quick_client(names) as client,
    ):
        make_topic(rocketmq, tmp_path / "peer", names, [one])
        with (
            client.producer("shop") as producer,
            client.consumer("billing", "orders", start="earliest") as consumer,
        ):
            producer.send(Message("orders", b"first"))
            assert taken(consumer, {b"first"}) == [b"first"]

            names.kill()
            without = [b"without %d" % at for at in range(20)]
            for each in without:
                producer.send(Message("orders", each))
            assert sorted(taken(consumer, set(without))) == sorted(without)

            parts.enter_context(rocketmq.name_server(tmp_path / "names", names.port))
            until(lambda: client.queues("orders"))
            two = parts.enter_context(rocketmq.broker(tmp_path / "two", names.address, name="two"))
            make_topic(rocketmq, tmp_path / "peer-2", names, [two])
            until(lambda: producer.send(Message("orders", b"?")).queue.broker == "two")
            last = producer.send(Message("orders", b"last"))
            assert b"last" in taken(consumer, {b"last"})

    assert last.is_ok
