"""Consumers at brokers, with a cluster in this process."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fakecluster import FakeCluster, Fault

from reput.record import Message, java_string_hash
from reput_client import BrokerError, Client, ConnectError
from reput_client.remoting import Command, QueueName, RequestCode, ResetOffset, write_body
from reput_consumer import MemberExistsError, MessageQueue, SubscriptionMismatchError, sql

ClientOf = Callable[..., Client]
GROUP, TOPIC = "billing", "orders"
_PULL = RequestCode.PULL_MESSAGE


def put(cluster: FakeCluster, *bodies: bytes, tags: str | None = None, queue_id: int = 0) -> None:
    """Store messages, behind the clients' backs."""
    cluster.add_topic(TOPIC)
    for body in bodies:
        message = Message(TOPIC, body, queue_id=queue_id, tags=tags)
        cluster.do(lambda message=message: cluster.broker.store(message))  # type: ignore[misc]


def committed(cluster: FakeCluster, queue_id: int = 0) -> int | None:
    return cluster.broker.offsets.get((GROUP, (TOPIC, queue_id)))


def _pull_count(cluster: FakeCluster) -> int:
    return sum(each.code == _PULL for each in cluster.broker.requests)


def test_messages_are_read_and_their_offsets_saved(cluster: FakeCluster, client: Client) -> None:
    put(cluster, b"1", b"2", tags="paid")
    put(cluster, b"3", queue_id=3)

    with client.consumer(GROUP, TOPIC, start="earliest", until="end") as consumer:
        found = [(message.body, message.tags, message.queue) for message in consumer]

    assert sorted(found) == [
        (b"1", "paid", MessageQueue(TOPIC, "broker-a", 0)),
        (b"2", "paid", MessageQueue(TOPIC, "broker-a", 0)),
        (b"3", None, MessageQueue(TOPIC, "broker-a", 3)),
    ]
    assert (committed(cluster, 0), committed(cluster, 3)) == (2, 1)


def test_until_the_end_includes_what_the_client_has_just_sent(
    cluster: FakeCluster, client: Client
) -> None:
    """A broker shows a message in its queue a moment after it has acknowledged it."""
    cluster.add_topic(TOPIC, 1)
    with client.producer("shop") as producer:
        producer.send_batch([Message(TOPIC, b"1"), Message(TOPIC, b"2")])
        producer.send(Message(TOPIC, b"3"))
    cluster.broker.hiding_count = 2

    with client.consumer(GROUP, TOPIC, start="earliest", until="end") as consumer:
        found = [message.body for message in consumer]

    assert cluster.broker.hiding_count == 0
    assert found == [b"1", b"2", b"3"]


def test_a_queue_that_never_shows_what_was_sent_is_waited_for_once_and_for_a_second(
    cluster: FakeCluster, client: Client
) -> None:
    """As one of a topic that was deleted and made anew."""
    cluster.add_topic(TOPIC, 1)
    with client.producer("shop") as producer:
        producer.send(Message(TOPIC, b"1"))
    cluster.do(cluster.broker.queues.clear)

    looks = []
    for _ in range(2):
        cluster.broker.requests.clear()
        with client.consumer(GROUP, TOPIC, start="earliest", until="end") as consumer:
            assert list(consumer) == []
        looks.append(
            sum(each.code == RequestCode.GET_MAX_OFFSET for each in cluster.broker.requests)
        )
    assert looks[0] > looks[1]


def test_a_broker_knows_where_a_new_group_begins_before_the_first_pull(
    cluster: FakeCluster, client: Client
) -> None:
    put(cluster, b"1", b"2")

    with client.consumer(GROUP, TOPIC) as consumer:
        assert committed(cluster) == 2
        put(cluster, b"3")
        found = consumer.next(10)

    assert found is not None
    assert found.body == b"3"
    told = [
        number
        for number, each in enumerate(cluster.broker.requests)
        if each.code == RequestCode.UPDATE_CONSUMER_OFFSET
    ]
    pulled = [number for number, each in enumerate(cluster.broker.requests) if each.code == _PULL]
    assert min(told) < min(pulled)


def test_a_new_group_may_begin_at_the_end_or_at_a_time(
    cluster: FakeCluster, client: Client
) -> None:
    put(cluster, b"1")
    long_ago = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)

    with (
        client.consumer("late", TOPIC) as late,
        client.consumer("all", TOPIC, start=long_ago) as all_,
    ):
        put(cluster, b"2")
        first, second = late.next(10), all_.next(10)

    assert first is not None
    assert second is not None
    assert (first.body, second.body) == (b"2", b"1")


def test_a_message_wakes_a_waiting_consumer(cluster: FakeCluster, client: Client) -> None:
    cluster.add_topic(TOPIC)
    with client.consumer(GROUP, TOPIC) as consumer:
        taken = []
        thread = threading.Thread(target=lambda: taken.append(consumer.next(10)))
        thread.start()
        cluster.until(lambda: _pull_count(cluster) == 5)  # one of a queue
        put(cluster, b"1")
        thread.join(10)

    assert taken[0].body == b"1"


def test_tags_are_compared_as_texts_where_the_broker_compares_hashes(
    cluster: FakeCluster, client: Client
) -> None:
    put(cluster, b"1", tags="paid")
    put(cluster, b"2", tags="open")

    with client.consumer(GROUP, {TOPIC: "paid || sent"}, start="earliest", until="end") as consumer:
        assert [message.body for message in consumer] == [b"1"]

    told = {each["topic"]: each for each in cluster.broker.subscriptions[GROUP]}
    assert told[TOPIC]["tagsSet"] == ["paid", "sent"]
    assert told[TOPIC]["codeSet"] == [java_string_hash("paid"), java_string_hash("sent")]
    assert told[f"%RETRY%{GROUP}"]["subString"] == "*"


def test_conditions_are_looked_at_by_a_broker_before_anything_is_read(
    cluster: FakeCluster, client: Client
) -> None:
    cluster.add_topic(TOPIC)
    cluster.broker.faults.append(Fault(RequestCode.CHECK_CLIENT_CONFIG, 1, answer=23))
    cluster.broker.faults.append(Fault(RequestCode.CHECK_CLIENT_CONFIG, 1, answer=1))

    with pytest.raises(ValueError, match="'a >': as the test wants it"):
        client.consumer(GROUP, {TOPIC: sql("a >")})
    with pytest.raises(BrokerError, match="code 1"):
        client.consumer(GROUP, {TOPIC: sql("a > 1")})

    cluster.until(lambda: not cluster.broker.members.get(GROUP))


def test_where_a_broker_cannot_send_a_message_back_it_is_sent_anew(
    cluster: FakeCluster, client: Client
) -> None:
    put(cluster, b"1")
    cluster.broker.faults.append(Fault(RequestCode.CONSUMER_SEND_MSG_BACK, 1, answer=1))

    with client.consumer(GROUP, TOPIC, start="earliest", explicit=True) as consumer:
        first = consumer.next(10)
        assert first is not None
        first.retry()
        again = consumer.next(10)
        assert again is not None
        assert (again.body, again.topic, again.reconsume_times) == (b"1", TOPIC, 1)
        assert again.properties["DELAY"] == "3"
        again.retry(-1)  # as a dead letter

    (dead,) = cluster.messages(f"%DLQ%{GROUP}")
    assert dead.body == b"1"


def test_an_offset_that_the_queue_does_not_have_is_corrected(
    cluster: FakeCluster, client: Client
) -> None:
    put(cluster, b"1", b"2", b"3")
    cluster.broker.first_offsets[TOPIC, 0] = 2

    with client.consumer(GROUP, TOPIC, start="earliest", until="end") as consumer:
        assert [message.body for message in consumer] == [b"3"]


# --------------------------------------------------------------------------- several members


def test_members_share_the_queues_and_take_over_those_of_who_leaves(
    cluster: FakeCluster, client_of: ClientOf
) -> None:
    cluster.add_topic(TOPIC)
    one, other = client_of(cluster), client_of(cluster)
    with one.consumer(GROUP, TOPIC) as first:
        assert len(_of_topic(first.queues)) == 4
        with other.consumer(GROUP, TOPIC) as second:
            _until(cluster, lambda: len(_of_topic(first.queues)) == 2)
            shared = _of_topic(first.queues) + _of_topic(second.queues)
            assert sorted(shared) == one.queues(TOPIC)
        _until(cluster, lambda: len(_of_topic(first.queues)) == 4)


def _of_topic(queues: list[MessageQueue]) -> list[MessageQueue]:
    return [each for each in queues if each.topic == TOPIC]


def _until(cluster: FakeCluster, is_so: Callable[[], bool]) -> None:
    """Wait for what members do after they were told: each step of theirs asks the broker."""
    for _ in range(1_000):
        if is_so():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it is not so after 10 s")


def test_members_of_one_client_are_members_for_themselves(
    cluster: FakeCluster, client: Client
) -> None:
    cluster.add_topic(TOPIC)
    with client.consumer(GROUP, TOPIC, name="a"), client.consumer(GROUP, TOPIC, name="b"):
        assert sorted(cluster.broker.members[GROUP]) == ["a", "b"]
        with pytest.raises(MemberExistsError, match="'b'"):
            client.consumer(GROUP, TOPIC, name="b")
        with pytest.raises(SubscriptionMismatchError, match="alike"):
            client.consumer(GROUP, {TOPIC: "paid"}, name="c")
        assert sorted(cluster.broker.members[GROUP]) == ["a", "b"]
        with client.consumer(GROUP, {TOPIC: "paid"}, name="c", mixed=True):
            assert sorted(cluster.broker.members[GROUP]) == ["a", "b", "c"]


def test_a_member_whose_connections_broke_is_known_again(
    cluster: FakeCluster, client_of: ClientOf
) -> None:
    cluster.add_topic(TOPIC)
    with client_of(cluster, retry_interval=0.05).consumer(GROUP, TOPIC) as consumer:
        assert consumer.next(0) is None  # its fetches wait at the broker
        cluster.until(lambda: _pull_count(cluster) == 5)
        (before,) = cluster.broker.members[GROUP].values()
        cluster.drop_connections()
        # The member may be back before its loss is looked at.
        cluster.until(
            lambda: [each for each in cluster.broker.members[GROUP].values() if each != before]
        )
        put(cluster, b"1")
        message = consumer.next(10)

    assert message is not None
    assert message.body == b"1"


@pytest.mark.parametrize(
    "fault", [Fault(_PULL, 2, answer=1), Fault(_PULL, 1, drops=True), Fault(_PULL, 1, answer=24)]
)
def test_a_failed_fetch_is_tried_again(
    cluster: FakeCluster, client_of: ClientOf, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    put(cluster, b"1")
    cluster.broker.faults.append(fault)

    with client_of(cluster, retry_interval=0.05).consumer(
        GROUP, TOPIC, start="earliest"
    ) as consumer:
        message = consumer.next(10)

    assert message is not None
    assert "tried again" in caplog.text


def test_a_topic_that_comes_later_is_read(cluster: FakeCluster, client_of: ClientOf) -> None:
    client = client_of(cluster, route_interval=0.05)
    with client.consumer(GROUP, TOPIC, start="earliest") as consumer:
        assert consumer.queues == []
        put(cluster, b"1")
        message = consumer.next(10)

    assert message is not None
    assert cluster.broker.members[GROUP] == {}


def test_a_condition_is_looked_at_when_the_topic_comes(
    cluster: FakeCluster, client_of: ClientOf, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_of(cluster, route_interval=0.05)
    cluster.broker.faults.append(Fault(RequestCode.CHECK_CLIENT_CONFIG, 100, answer=23))
    with client.consumer(GROUP, {TOPIC: sql("a >")}):
        cluster.add_topic(TOPIC)
        _until(cluster, lambda: "nothing is read group=billing" in caplog.text)

    assert "'a >': as the test wants it" in caplog.text


def test_a_topic_that_grows_is_read_whole(cluster: FakeCluster, client_of: ClientOf) -> None:
    cluster.add_topic(TOPIC, 1)
    client = client_of(cluster, route_interval=0.05)
    with client.consumer(GROUP, TOPIC) as consumer:
        cluster.broker._topics[TOPIC] = 2
        put(cluster, b"1", queue_id=1)
        message = consumer.next(10)

    assert message is not None
    assert message.queue.queue_id == 1


# --------------------------------------------------------------------------- in order, broadcast


def test_queues_read_in_order_are_locked_until_the_member_leaves(
    cluster: FakeCluster, client: Client
) -> None:
    put(cluster, b"1", b"2")
    with client.consumer(GROUP, TOPIC, start="earliest", ordered=True, name="me") as consumer:
        assert {cluster.broker.locks[GROUP, (TOPIC, queue)] for queue in range(4)} == {"me"}
        first = consumer.next(10)
        assert first is not None
        assert first.body == b"1"

    assert cluster.broker.locks == {}


def test_a_queue_that_another_member_has_locked_is_waited_for(
    cluster: FakeCluster, client: Client
) -> None:
    put(cluster, b"1")
    cluster.broker.locks[GROUP, (TOPIC, 0)] = "another client"
    with client.consumer(GROUP, TOPIC, start="earliest", ordered=True) as consumer:
        assert len(_of_topic(consumer.queues)) == 3
        del cluster.broker.locks[GROUP, (TOPIC, 0)]
        message = consumer.next(10)

    assert message is not None
    assert message.body == b"1"


def test_who_broadcasts_keeps_its_offsets_in_a_file(
    cluster: FakeCluster, client_of: ClientOf, tmp_path: Path
) -> None:
    put(cluster, b"1", b"2")
    client = client_of(cluster, local_offsets=str(tmp_path))
    with client.consumer(GROUP, TOPIC, start="earliest", broadcast=True) as consumer:
        first = consumer.next(10)
    with client.consumer(GROUP, TOPIC, broadcast=True) as consumer:
        second = consumer.next(10)

    assert first is not None
    assert second is not None
    assert (first.body, second.body) == (b"1", b"2")
    assert (tmp_path / ".rocketmq_offsets/127.0.0.1@DEFAULT/billing/offsets.json").exists()
    assert cluster.broker.offsets == {}


# --------------------------------------------------------------------------- polled, reset


def test_a_polled_consumer_seeks_and_commits(cluster: FakeCluster, client: Client) -> None:
    put(cluster, b"1", b"2", b"3")
    queue = MessageQueue(TOPIC, "broker-a", 0)
    with client.pull_consumer(GROUP) as consumer:
        consumer.assign([queue])
        consumer.seek(queue, 1)
        assert [message.body for message in consumer.poll(10)] == [b"2", b"3"]
        consumer.commit()
        assert committed(cluster) == 3
        consumer.seek_to_begin(queue)
        assert [message.body for message in consumer.poll(10, max_count=1)] == [b"1"]
        assert consumer.offset_by_time(queue, 0) == 0

    assert GROUP not in cluster.broker.members


def test_an_operator_of_an_older_broker_may_move_a_group(
    cluster: FakeCluster, client: Client
) -> None:
    put(cluster, b"1", b"2")
    with client.consumer(GROUP, TOPIC, start="earliest") as consumer:
        bodies = [message.body for message in (consumer.next(10), consumer.next(10)) if message]
        header = ResetOffset(topic=TOPIC, group=GROUP, timestamp=0, is_force=True)
        body = write_body({"offsetTable": {QueueName(TOPIC, "broker-a", 0): 0}})
        command = Command.request(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body=body, one_way=True
        )
        for peer in list(cluster.broker.members[GROUP].values()):
            cluster.do(lambda peer=peer: peer.send(command))  # type: ignore[misc]
        again = consumer.next(10)

    assert bodies == [b"1", b"2"]
    assert again is not None
    assert again.body == b"1"


def test_without_a_name_server_no_consumer_is_opened() -> None:
    with Client("127.0.0.1:1") as client, pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
        client.consumer(GROUP, TOPIC)


def test_closing_the_client_closes_its_consumers(cluster: FakeCluster, client: Client) -> None:
    put(cluster, b"1", b"2")
    consumer = client.consumer(GROUP, TOPIC, start="earliest")
    consumer.next(10)
    consumer.next(10)

    client.close()

    assert committed(cluster) == 1
    cluster.until(lambda: not cluster.broker.members[GROUP])
