"""Producers, with a cluster in this process."""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
from collections.abc import Callable

import pytest
from fakecluster import FakeCluster, Fault

from reput.errors import MessageIllegalError
from reput.record import Message
from reput_client import (
    BrokerError,
    Client,
    ClientClosedError,
    ConnectError,
    NoReplyError,
    RouteNotFoundError,
    SendError,
    SendStatus,
)
from reput_client.remoting import RequestCode
from reput_consumer import MessageQueue

ClientOf = Callable[..., Client]
_SEND = RequestCode.SEND_MESSAGE_V2


def test_messages_are_spread_over_all_queues(cluster: FakeCluster, client: Client) -> None:
    with client.producer("shop") as producer:
        results = [producer.send(Message("orders", b"x")) for _ in range(8)]

    assert sorted(each.queue.queue_id for each in results) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_queue_may_be_named_chosen_or_belong_to_a_key(
    cluster: FakeCluster, client: Client
) -> None:
    cluster.add_topic("orders")
    with client.producer("shop") as producer:
        last = producer.queues("orders")[-1]
        named = producer.send(Message("orders", b"x"), queue=last)
        chosen = producer.send(Message("orders", b"x"), queue=lambda queues: queues[1])
        by_key = {producer.send(Message("orders", b"x"), ordered_by="a").queue for _ in range(5)}
        with pytest.raises(ValueError, match="one of them"):
            producer.send(Message("orders", b"x"), queue=last, ordered_by="a")

    assert named.queue == last == MessageQueue("orders", "broker-a", 3)
    assert chosen.queue.queue_id == 1
    assert len(by_key) == 1


def test_delays_travel_as_properties(cluster: FakeCluster, client: Client) -> None:
    with client.producer("shop") as producer:
        producer.send(Message("orders", b"x"), level=2)
        producer.submit(Message("orders", b"x"), delay=1).result()
        asyncio.run(producer.send_async(Message("orders", b"x"), deliver_at=5))

    found = [set(each.properties.items()) for each in cluster.messages("orders")]
    for wanted in [("DELAY", "2"), ("TIMER_DELAY_MS", "1000"), ("TIMER_DELIVER_MS", "5")]:
        assert sum(wanted in each for each in found) == 1


def test_a_coroutine_sends_while_others_run(cluster: FakeCluster, client: Client) -> None:
    async def send_all() -> set[str]:
        with client.producer("shop") as producer:
            results = await asyncio.gather(
                *(producer.send_async(Message("orders", b"x")) for _ in range(50))
            )
        return {each.msg_id for each in results}

    assert len(asyncio.run(send_all())) == 50


def test_a_message_may_be_sent_without_an_answer(cluster: FakeCluster, client: Client) -> None:
    with client.producer("shop") as producer:
        producer.send_one_way(Message("orders", b"x"))
        cluster.until(lambda: cluster.messages("orders"))

    assert [each.is_one_way for each in cluster.broker.requests if each.code == _SEND] == [True]


def test_a_batch_is_stored_in_one_queue(cluster: FakeCluster, client: Client) -> None:
    with client.producer("shop") as producer:
        result = producer.send_batch(Message("orders", b"%d" % number) for number in range(3))

    stored = cluster.messages("orders")
    assert [each.body for each in stored] == [b"0", b"1", b"2"]
    assert {each.queue_id for each in stored} == {result.queue.queue_id}
    assert result.msg_id == ",".join(str(each.unique_key) for each in stored)
    assert result.offset_msg_id == ",".join(each.msg_id for each in stored)


def test_a_message_that_brokers_would_refuse_is_not_sent(
    cluster: FakeCluster, client: Client
) -> None:
    with client.producer("shop") as producer, pytest.raises(MessageIllegalError):
        producer.send(Message("orders", b""))

    assert not cluster.broker.requests


# --------------------------------------------------------------------------- what fails


def test_a_failed_send_is_tried_at_another_broker(client_of: ClientOf) -> None:
    with FakeCluster(2) as cluster:
        cluster.add_topic("orders")
        failing, other = cluster.brokers
        failing.faults.append(Fault(_SEND, 100, answer=14))
        with client_of(cluster).producer("shop") as producer:
            results = [producer.send(Message("orders", b"x")) for _ in range(8)]

    assert {each.queue.broker for each in results} == {other.name}
    assert len(other.messages("orders")) == 8


@pytest.mark.parametrize("fault", [Fault(_SEND, 1, drops=True), Fault(_SEND, 1, answer=2)])
def test_a_single_broker_is_tried_again(cluster: FakeCluster, client: Client, fault: Fault) -> None:
    cluster.broker.faults.append(fault)
    with client.producer("shop") as producer:
        assert producer.send(Message("orders", b"x")).is_ok


def test_an_error_that_no_other_broker_mends_is_raised_at_once(
    cluster: FakeCluster, client: Client
) -> None:
    cluster.broker.faults.append(Fault(_SEND, 1, answer=13))
    with client.producer("shop") as producer, pytest.raises(BrokerError, match="code 13") as caught:
        producer.send(Message("orders", b"x"))

    assert caught.value.remark == "as the test wants it"
    assert len(cluster.broker.requests) == 1


def test_when_all_tries_fail_the_error_names_each(cluster: FakeCluster, client: Client) -> None:
    cluster.broker.faults.append(Fault(_SEND, 3, answer=14))
    with client.producer("shop") as producer:
        with pytest.raises(SendError, match=r"3 tries: broker-a: .* code 14") as caught:
            producer.send(Message("orders", b"x"))
        assert len(caught.value.tries) == 3
        assert isinstance(caught.value.__cause__, BrokerError)
        assert producer.send(Message("orders", b"x")).is_ok


def test_a_message_for_one_queue_is_tried_once(cluster: FakeCluster, client: Client) -> None:
    cluster.broker.faults.append(Fault(_SEND, 1, answer=14))
    with client.producer("shop") as producer, pytest.raises(SendError, match="1 tries"):
        producer.send(Message("orders", b"x"), ordered_by="a")


def test_all_tries_together_end_in_their_time(cluster: FakeCluster, client: Client) -> None:
    with client.producer("shop") as producer:
        assert producer.send(Message("orders", b"x")).is_ok  # it has a route and a connection
        cluster.broker.faults.append(Fault(_SEND, 10))
        with pytest.raises(SendError, match="no answer"):
            producer.send(Message("orders", b"x"), timeout=0.1)
    with client.producer("shop") as producer, pytest.raises(ValueError, match="timeout: a number"):
        producer.send(Message("orders", b"x"), timeout=math.nan)


def test_a_message_stored_unsafely_is_a_result_or_tried_elsewhere(client_of: ClientOf) -> None:
    with FakeCluster(2) as cluster:
        cluster.add_topic("orders")
        # The answer to a stored message has a header, which a fault has not.
        for each in cluster.brokers:
            _answer_unsafely(each)
        with client_of(cluster).producer("shop") as producer:
            assert producer.send(Message("orders", b"x")).status is SendStatus.FLUSH_DISK_TIMEOUT
        with client_of(cluster, retry_unsafe=True).producer("shop") as producer:
            producer.send(Message("orders", b"y"))

        bodies = [each.body for each in cluster.messages("orders")]
    assert bodies.count(b"x") == 1
    assert bodies.count(b"y") == 3


def _answer_unsafely(broker: object) -> None:
    import attrs

    store = broker._send  # type: ignore[attr-defined]

    async def send(peer: object, command: object) -> object:
        return attrs.evolve(await store(peer, command), code=10)

    broker._send = send  # type: ignore[attr-defined]


def test_slow_or_failing_brokers_are_passed_over_where_that_is_asked_for(
    client_of: ClientOf,
) -> None:
    with FakeCluster(2) as cluster:
        cluster.add_topic("orders")
        failing, _ = cluster.brokers
        failing.faults.append(Fault(_SEND, 1, answer=14))
        with client_of(cluster, pass_over_slow=True).producer("shop") as producer:
            for _ in range(10):
                producer.send(Message("orders", b"x"))

        assert sum(each.code == _SEND for each in failing.requests) == 1


def test_a_topic_that_does_not_exist_comes_into_being(
    cluster: FakeCluster, client_of: ClientOf
) -> None:
    with client_of(cluster, topic_queue_count=2).producer("shop") as producer:
        assert len(producer.queues("new")) == 2
        producer.send(Message("new", b"x"))

    assert cluster.broker.queue_count("new") == 2


def test_without_a_template_an_unknown_topic_is_an_error_that_says_what_to_do(
    cluster: FakeCluster, client: Client
) -> None:
    cluster.broker._topics.pop("TBW102")
    with (
        client.producer("shop") as producer,
        pytest.raises(RouteNotFoundError, match="updateTopic"),
    ):
        producer.send(Message("new", b"x"))


def test_a_broker_that_moved_is_found_by_its_new_route(client_of: ClientOf) -> None:
    with (
        FakeCluster() as cluster,
        client_of(cluster, route_interval=0.05).producer("p") as producer,
    ):
        producer.send(Message("orders", b"1"))
        cluster.call(cluster.broker.close())
        cluster.call(cluster.broker.open())
        asked = len(cluster.names.requests)
        cluster.until(lambda: len(cluster.names.requests) > asked + 3)

        assert producer.send(Message("orders", b"2")).is_ok


def test_no_name_server_is_an_error_that_names_it() -> None:
    with Client("127.0.0.1:1") as client, client.producer("shop") as producer:
        with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
            producer.send(Message("orders", b"x"))


# --------------------------------------------------------------------------- brokers know it


def test_brokers_know_a_producer_that_may_be_asked_until_it_is_closed(
    cluster: FakeCluster, client_of: ClientOf
) -> None:
    client = client_of(cluster, heartbeat_interval=0.02)
    broker = cluster.broker
    with client.producer("shop") as producer:
        with pytest.raises(NoReplyError, match="'questions'"):
            producer.request(Message("questions", b"?"), timeout=1)
        (before,) = broker.producers["shop"].values()
        cluster.drop_connections()
        # By its next heartbeat, which may come before the loss is looked at.
        cluster.until(
            lambda: [each for each in broker.producers["shop"].values() if each != before]
        )

    assert not broker.producers["shop"]


def test_brokers_know_every_group_that_may_be_asked(cluster: FakeCluster, client: Client) -> None:
    for group in ("one", "other"):
        with client.producer(group) as producer:
            with pytest.raises(NoReplyError):
                producer.request(Message("questions", b"?"), timeout=1)
            assert len(cluster.broker.producers[group]) == 1


def test_a_question_gets_its_answer(cluster: FakeCluster, client: Client) -> None:
    cluster.add_topic("questions")
    with (
        client.producer("shop") as producer,
        client.consumer("answers", "questions", idle=10) as consumer,
        concurrent.futures.ThreadPoolExecutor(1) as threads,
    ):
        asked = threads.submit(producer.request, Message("questions", b"how?"), timeout=10)
        message = consumer.next(10)
        assert message is not None
        producer.reply(message, b"so " * 2_000)

        assert asked.result().body == b"so " * 2_000  # it travels compressed


def test_a_message_that_asks_nothing_gets_no_reply(cluster: FakeCluster, client: Client) -> None:
    with client.producer("shop") as producer:
        producer.send(Message("orders", b"x"))
        with pytest.raises(ValueError, match="asks for no reply"):
            producer.reply(cluster.messages("orders")[0], b"y")


# --------------------------------------------------------------------------- access keys, the end


def test_requests_are_signed_where_keys_are_given(
    cluster: FakeCluster, client_of: ClientOf
) -> None:
    from reput_client.remoting import is_signed_with

    client = client_of(cluster, access_key="me", secret_key="12345678")
    with client.producer("shop") as producer:
        producer.send(Message("orders", b"x"))

    requests = cluster.broker.requests + cluster.names.requests
    assert {each.fields["AccessKey"] for each in requests} == {"me"}
    assert all(is_signed_with(each, "12345678") for each in requests)
    assert "12345678" not in repr(client._runtime.options)


def test_half_of_a_pair_of_keys_is_refused() -> None:
    with pytest.raises(ValueError, match="both expected"):
        Client("127.0.0.1:1", access_key="me")


def test_what_is_closed_says_so(cluster: FakeCluster, client: Client) -> None:
    producer, other = client.producer("shop"), client.producer("shop")
    producer.close()
    producer.close()
    with pytest.raises(ClientClosedError, match="producer of group 'shop' is closed"):
        producer.send(Message("orders", b"x"))
    client.close()
    client.close()
    for call in (
        lambda: other.send(Message("orders", b"x")),
        lambda: client.producer("shop"),
        lambda: client.consumer("billing", "orders"),
        lambda: client.queues("orders"),
    ):
        with pytest.raises(ClientClosedError, match="open another one"):
            call()
    other.close()


def test_sends_under_way_end_when_the_client_is_closed(
    cluster: FakeCluster, client: Client
) -> None:
    cluster.broker.faults.append(Fault(_SEND, 1))
    future = client.producer("shop").submit(Message("orders", b"x"), timeout=60)
    cluster.until(lambda: cluster.broker.requests)

    client.close()

    with pytest.raises(ClientClosedError):
        future.result(10)


@pytest.mark.parametrize("group", ["", "a b", "x" * 300])
def test_a_group_has_a_name_that_brokers_take(client: Client, group: str) -> None:
    with pytest.raises(ValueError, match="group"):
        client.producer(group)
