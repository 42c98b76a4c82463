"""Our client talks to real brokers, beside RocketMQ's own client."""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime as dt
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from realbroker import Peer, RocketMQ, Server

from reput.record import Message, MessageView
from reput_client import BrokerError, Client, SendError
from reput_consumer import Consumer, ReceivedMessage, sql


@dataclass(frozen=True)
class Cluster:
    """A real name server and broker, RocketMQ's client, and ours."""

    version: str
    broker: Server
    peer: Peer
    client: Client

    @property
    def is_5(self) -> bool:
        return self.version.startswith("5")


@pytest.fixture(scope="module")
def cluster(rocketmq: RocketMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """All of them, for the tests of this module; each has topics and groups of its own."""
    home = tmp_path_factory.mktemp("cluster")
    options = {
        "enablePropertyFilter": "true",
        # Transactions are asked for after a second, and not after a minute.
        "transactionTimeOut": 1000,
        "transactionCheckInterval": 1000,
        "messageDelayLevel": "1s 1s 1s 1s",
    }
    with (
        rocketmq.name_server(home / "names") as names,
        rocketmq.broker(home / "broker", names.address, **options) as broker,
        rocketmq.peer(home / "peer", names.address) as peer,
        Client(names.address, local_offsets=str(home)) as client,
    ):
        yield Cluster(rocketmq.version, broker, peer, client)


_REFUSED = {False: SendError, True: BrokerError}
"""What is raised for a queue that there is not: 4.x answers 1, which is tried again, 5.x 29."""


def bodies_of(consumer: Consumer, count: int, seconds: float = 30) -> list[bytes]:
    """The next messages; fewer if they do not come."""
    found = [consumer.next(seconds) for _ in range(count)]
    return [message.body for message in found if message is not None]


def test_what_our_producer_sent_a_java_consumer_gets(cluster: Cluster) -> None:
    with cluster.client.producer("ours") as producer:
        sent = [
            producer.send(Message("to-java", b"%d" % n, tags="a", keys=[f"k{n}"])) for n in range(8)
        ]
        batch = producer.send_batch([Message("to-java", b"b%d" % n) for n in range(3)])
        producer.send_one_way(Message("to-java", b"one way"))
        large = producer.send(Message("to-java", b"large " * 2_000))
        futures = [producer.submit(Message("to-java", b"s%d" % n)) for n in range(100)]
        results = [*sent, batch, large, *(each.result() for each in futures)]
    cluster.peer.listen("to-java", "java", "to-java")

    taken = cluster.peer.taken("to-java", 113)

    expected = [*(f"{n}" for n in range(8)), *(f"b{n}" for n in range(3)), "one way"]
    expected += ["large " * 2_000, *(f"s{n}" for n in range(100))]
    assert sorted(row["body"] for row in taken) == sorted(expected)
    assert all(each.is_ok for each in results)
    places = {(row["queue_id"], row["queue_offset"]) for row in taken}
    assert {(each.queue.queue_id, each.queue_offset) for each in results} <= places


def test_what_a_java_producer_sent_our_consumer_gets(cluster: Cluster) -> None:
    cluster.peer.send(
        [{"topic": "from-java", "body": f"{n}", "tags": "ab"[n % 2]} for n in range(20)]
    )

    with cluster.client.consumer("tags", {"from-java": "b"}, start="earliest") as consumer:
        tagged = bodies_of(consumer, 10)
    condition = {"from-java": sql("TAGS = 'a'")}
    with cluster.client.consumer("conditions", condition, start="earliest") as consumer:
        chosen = bodies_of(consumer, 10)

    assert sorted(tagged) == sorted(b"%d" % n for n in range(1, 20, 2))
    assert sorted(chosen) == sorted(b"%d" % n for n in range(0, 20, 2))


def test_a_condition_that_is_none_is_refused_by_the_broker(cluster: Cluster) -> None:
    cluster.peer.send([{"topic": "conditions", "body": "1"}])
    _until(lambda: cluster.client.queues("conditions"))  # the name server hears of it later

    with pytest.raises(ValueError, match="selector 'a >'"):
        cluster.client.consumer("conditions", {"conditions": sql("a >")})


def test_a_java_consumer_and_ours_share_a_group(cluster: Cluster) -> None:
    cluster.peer.send([{"topic": "shared", "body": "first", "queue_id": 0}])
    with cluster.client.consumer("sharing", "shared", start="earliest") as consumer:
        assert bodies_of(consumer, 1) == [b"first"]
        cluster.peer.listen("sharing", "sharing", "shared")
        _until(lambda: len(_own(consumer, "shared")) == 2)
        cluster.peer.send(
            [{"topic": "shared", "body": f"{n}", "queue_id": n % 4} for n in range(40)]
        )
        ours = bodies_of(consumer, 20)
        theirs = [row["body"] for row in cluster.peer.taken("sharing", 20)]
        cluster.peer.stop("sharing")
        _until(lambda: len(_own(consumer, "shared")) == 4)

    together = [body.decode() for body in ours] + theirs
    assert sorted(together) == sorted(str(n) for n in range(40))
    shown = cluster.peer.admin("consumerProgress", "-g", "sharing")
    assert "Consume Diff Total: 0" in shown or "Diff Total: 0" in shown


def _own(consumer: Consumer, topic: str) -> list[Any]:
    return [queue for queue in consumer.queues if queue.topic == topic]


def _until(is_so: Any, seconds: float = 60) -> None:
    """Wait for what another process brings about."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it is not so in time"
        time.sleep(0.05)  # a broker tells nobody what its clients see; bounded by the time above


def test_a_failed_message_comes_again_and_then_is_a_dead_letter(cluster: Cluster) -> None:
    cluster.peer.send([{"topic": "failing", "body": "1"}])
    seen: list[tuple[str, int]] = []

    def handle(message: ReceivedMessage) -> bool:
        seen.append((message.topic, message.reconsume_times))
        if len(seen) == 3:
            consumer.stop()
        return False

    with cluster.client.consumer(
        "failing", "failing", start="earliest", max_reconsume_times=2
    ) as consumer:
        consumer.run(handle, threads=1)

    assert seen == [("failing", 0), ("failing", 1), ("failing", 2)]
    with cluster.client.pull_consumer("operators") as reader:
        _until(lambda: cluster.client.queues("%DLQ%failing") or None)
        queues = cluster.client.queues("%DLQ%failing")
        reader.assign(queues)
        reader.seek_to_begin(queues[0])
        (dead,) = reader.poll(30)
    assert dead.body == b"1"
    assert dead.properties["RETRY_TOPIC"] == "failing"


def test_messages_of_a_key_are_read_in_order_also_where_one_fails(cluster: Cluster) -> None:
    with cluster.client.producer("ours") as producer:
        for number in range(40):
            producer.send(Message("ordered", b"%d" % number), ordered_by=str(number % 4))
    seen: list[bytes] = []
    failed: set[bytes] = set()

    def handle(message: ReceivedMessage) -> bool:
        if message.body == b"9" and message.body not in failed:
            failed.add(message.body)
            return False
        seen.append(message.body)
        if len(seen) == 40:
            consumer.stop()
        return True

    with cluster.client.consumer(
        "ordered", "ordered", start="earliest", ordered=True, suspend_ms=10, idle=30
    ) as consumer:
        assert consumer.run(handle, threads=4) == 40

    for key in range(4):
        mine = [int(body) for body in seen if int(body) % 4 == key]
        assert mine == list(range(key, 40, 4))
    assert failed == {b"9"}


def test_a_java_consumer_takes_an_ordered_queue_that_ours_gave_back(cluster: Cluster) -> None:
    cluster.peer.send([{"topic": "handed", "body": "1", "queue_id": 0}])
    with cluster.client.consumer("handed", "handed", start="earliest", ordered=True) as consumer:
        assert bodies_of(consumer, 1) == [b"1"]
    cluster.peer.send([{"topic": "handed", "body": "2", "queue_id": 0}])

    cluster.peer.listen("handed", "handed", "handed", orderly=True)
    taken = cluster.peer.taken("handed", 1, 30)
    cluster.peer.stop("handed")

    assert [row["body"] for row in taken] == ["2"]


def test_delayed_messages_come_later(cluster: Cluster) -> None:
    with cluster.client.producer("ours") as producer:
        producer.send(Message("delayed", b"level"), level=1)
        if cluster.is_5:
            producer.send(Message("delayed", b"span"), delay=dt.timedelta(seconds=1))
            at = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=2)
            producer.send(Message("delayed", b"time"), deliver_at=at)
        with cluster.client.consumer("delayed", "delayed", start="earliest") as consumer:
            found = bodies_of(consumer, 3 if cluster.is_5 else 1)

    assert sorted(found) == ([b"level", b"span", b"time"] if cluster.is_5 else [b"level"])


def test_transactions_are_seen_when_committed_or_checked(cluster: Cluster) -> None:
    asked: list[bytes] = []
    # A broker of 5.x may ask for what was ended a moment ago, too, as it writes that down later.
    outcomes = {b"forgotten, done": True, b"forgotten, not done": False}

    def check(message: MessageView) -> bool | None:
        asked.append(message.body)
        return outcomes.get(message.body)

    with (
        cluster.client.transaction_producer("transactions", check) as producer,
        cluster.client.consumer("seen", "transactions", start="earliest") as consumer,
    ):
        with producer.transaction(Message("transactions", b"committed")):
            pass
        with pytest.raises(KeyError), producer.transaction(Message("transactions", b"undone")):
            raise KeyError
        producer.transaction(Message("transactions", b"forgotten, not done"))
        producer.transaction(Message("transactions", b"forgotten, done"))
        found = bodies_of(consumer, 2, 100)

    assert sorted(found) == [b"committed", b"forgotten, done"]
    assert set(asked) >= {b"forgotten, done", b"forgotten, not done"}


def test_a_question_gets_its_answer(cluster: Cluster) -> None:
    cluster.peer.send([{"topic": "questions", "body": "the topic comes into being"}])
    with (
        cluster.client.producer("ours") as producer,
        cluster.client.consumer("answers", "questions") as consumer,
        concurrent.futures.ThreadPoolExecutor(1) as threads,
    ):
        asked = threads.submit(producer.request, Message("questions", b"how?"), timeout=30)
        message = consumer.next(30)
        while message is not None and message.body != b"how?":
            message = consumer.next(30)
        assert message is not None
        producer.reply(message, b"so")

        assert asked.result().body == b"so"


def test_an_operator_moves_our_group(cluster: Cluster) -> None:
    # Older tools refuse a group that has no offset in some queue of the topic.
    cluster.peer.send([{"topic": "moved", "body": f"{n}", "queue_id": n} for n in range(4)])
    everything = [b"0", b"1", b"2", b"3"]
    with cluster.client.consumer("moved", "moved", start="earliest") as consumer:
        assert sorted(bodies_of(consumer, 4)) == everything
        assert consumer.next(0.2) is None
        consumer.commit()
        cluster.peer.admin("resetOffsetByTime", "-g", "moved", "-t", "moved", "-s", "0")
        assert sorted(bodies_of(consumer, 4)) == everything


def test_members_that_broadcast_read_everything(cluster: Cluster) -> None:
    cluster.peer.send([{"topic": "news", "body": f"{n}"} for n in range(8)])
    found = []
    for name in ("one", "other"):
        with cluster.client.consumer(
            "readers", "news", start="earliest", broadcast=True, name=name
        ) as consumer:
            found.append(sorted(bodies_of(consumer, 8)))

    assert found == [[b"%d" % n for n in range(8)]] * 2


def test_what_a_broker_refuses_is_told_with_its_reason(cluster: Cluster) -> None:
    with cluster.client.producer("ours") as producer:
        producer.send(Message("refused", b"x"))
        queue = producer.queues("refused")[0]._replace(queue_id=99)
        with pytest.raises(_REFUSED[cluster.is_5], match="queueId"):
            producer.send(Message("refused", b"x"), queue=queue)


def test_a_broker_that_was_killed_is_used_again(
    rocketmq: RocketMQ, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("killed")
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(rocketmq.name_server(home / "names"))
        before = rocketmq.broker(home / "broker", names.address)
        brokers = stack.enter_context(contextlib.ExitStack())  # it ends after who uses them
        client = stack.enter_context(Client(names.address, route_interval=1))
        producer = stack.enter_context(client.producer("ours"))
        consumer = stack.enter_context(client.consumer("billing", "orders", start="earliest"))
        producer.send(Message("orders", b"1"))
        assert bodies_of(consumer, 1) == [b"1"]

        before.kill()
        brokers.enter_context(rocketmq.broker(home / "broker", names.address, port=before.port))
        producer.send(Message("orders", b"2"), timeout=30)
        found = bodies_of(consumer, 1)
        while found and found != [b"2"]:  # the offset may have died with the broker
            found = bodies_of(consumer, 1)

        assert found == [b"2"]
