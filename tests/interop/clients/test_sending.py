"""Producers of stock clients send, in every way that they know."""

from __future__ import annotations

import base64
import random
from pathlib import Path

import pytest
from stock import Kind, Program, ProgramFailedError, Row, have_topic, started

from reput.record import MessageView, compression_name, unpack_body
from reput_server import LocalBroker

KEY, SECRET = "shop", "12345678"


def orders(count: int, topic: str = "orders") -> list[Row]:
    return [
        {"topic": topic, "body": f"{at}", "tags": "ab"[at % 2], "keys": f"k{at} all"}
        for at in range(count)
    ]


def stored(broker: LocalBroker, topic: str = "orders") -> dict[tuple[int, int], MessageView]:
    return {(it.queue_id, it.queue_offset): it for it in broker.messages(topic)}


def bodies(broker: LocalBroker, topic: str = "orders") -> list[str]:
    return [message.body.decode() for message in broker.messages(topic)]


def assert_where_it_says(broker: LocalBroker, messages: list[Row], sent: list[Row]) -> None:
    """Each message is where its answer says, with everything that it was sent with."""
    found = stored(broker)
    assert len(found) == len(messages)
    for message, answer in zip(messages, sent, strict=True):
        assert answer["status"] == "SEND_OK"
        it = found[answer["queue_id"], answer["queue_offset"]]
        assert it.body.decode() == message["body"]
        assert it.properties["TAGS"] == message["tags"]
        assert it.properties["KEYS"].split() == message["keys"].split()


@pytest.mark.scenario("The first send creates its topic", "java go", no="node")
def test_a_topic_is_made_by_the_first_send(client: Program, broker: LocalBroker):
    client.producer()

    client.send(orders(8, "made"))

    assert broker.store.plugin("consumer").topics.get("made").write_queue_nums == 4
    assert len({it.queue_id for it in broker.messages("made")}) == 4


@pytest.mark.scenario("Send, and wait for the answer", "java go node")
def test_a_send_is_stored_where_its_answer_says(client: Program, broker: LocalBroker):
    client.producer()
    messages = orders(20)

    sent = client.send(messages)

    assert_where_it_says(broker, messages, sent)
    assert len({answer["queue_id"] for answer in sent}) == 4
    assert len({answer["msg_id"] for answer in sent}) == 20


@pytest.mark.scenario("Send with a callback or a promise", "java go node")
def test_sends_at_once_are_answered_each(client: Program, broker: LocalBroker):
    client.producer()
    messages = orders(200)

    sent = client.send(messages, "async")

    assert_where_it_says(broker, messages, sent)


@pytest.mark.scenario("Send one-way", "java go")
def test_a_one_way_send_is_stored(client: Program, broker: LocalBroker):
    client.producer()

    client.send(orders(20), "one-way")
    client.send([{"topic": "orders", "body": "last"}])

    assert sorted(bodies(broker)) == sorted([*map(str, range(20)), "last"])


@pytest.mark.scenario("Send a batch", "java go")
def test_a_batch_is_stored_message_by_message(client: Program, broker: LocalBroker):
    client.producer()
    messages = orders(10)

    (sent,) = client.send(messages, "batch")

    first = sent["queue_offset"]
    places = [{**sent, "queue_offset": first + at} for at in range(10)]
    assert_where_it_says(broker, messages, places)


@pytest.mark.scenario("Send to one queue", "java go")
def test_a_send_goes_to_the_queue_that_it_names(client: Program, broker: LocalBroker):
    client.producer()
    messages = [{"topic": "orders", "body": f"{at}", "queue_id": 2} for at in range(5)]

    sent = client.send(messages, "queue")

    assert {answer["queue_id"] for answer in sent} == {2}
    assert bodies(broker) == ["0", "1", "2", "3", "4"]


@pytest.mark.scenario("Send by a sharding key", "java go node")
def test_messages_of_one_key_are_in_one_queue_in_their_order(client: Program, broker: LocalBroker):
    client.producer()
    messages = [
        {"topic": "orders", "body": f"{key} {at}", "shard": f"customer {key}"}
        for at in range(5)
        for key in range(4)
    ]

    client.send(messages, "shard")

    for key in range(4):
        of_key = [it for it in broker.messages("orders") if it.body.startswith(b"%d " % key)]
        assert len({it.queue_id for it in of_key}) == 1
        assert [it.body for it in of_key] == [b"%d %d" % (key, at) for at in range(5)]


@pytest.mark.scenario("Compressed bodies: zlib", "java go node")
def test_a_large_body_is_compressed_and_comes_as_it_was(client: Program, broker: LocalBroker):
    body = "a line of a large order\n" * 1_000
    client.producer()

    client.send([{"topic": "orders", "body": body}])
    client.listen("one", "billing", "orders")

    assert client.bodies("one", 1) == [body]
    (found,) = broker.messages("orders")
    assert compression_name(found.sys_flag) == "zlib"
    assert len(found.body) < len(body) // 10
    assert unpack_body(found.body, found.sys_flag) == body.encode()


@pytest.mark.parametrize("name", ["LZ4", "ZSTD"])
@pytest.mark.scenario("Compressed bodies: LZ4 and ZSTD", "java-5.3.3")
def test_other_compressions_come_as_they_were(client: Program, broker: LocalBroker, name: str):
    body = "a line of a large order\n" * 1_000
    client.producer(compression=name)

    client.send([{"topic": "orders", "body": body}])
    client.listen("one", "billing", "orders")

    assert client.bodies("one", 1) == [body]
    (found,) = broker.messages("orders")
    assert compression_name(found.sys_flag) == name.lower()
    assert unpack_body(found.body, found.sys_flag) == body.encode()


@pytest.mark.scenario("A message over 4 MiB is refused", "java go node")
def test_what_is_too_large_is_refused_with_a_word(client: Program, broker: LocalBroker):
    client.producer(max_size=16 << 20)  # otherwise the client refuses, or compresses it
    body = base64.b64encode(random.Random(1).randbytes(3_200_000)).decode()

    (refused,) = client.send([{"topic": "orders", "body": body}])
    (sent,) = client.send([{"topic": "orders", "body": body[:4_000_000]}])

    assert "error" in refused
    assert sent["status"] == "SEND_OK"
    assert [len(it.body) for it in broker.messages("orders")] == [4_000_000]


@pytest.mark.scenario(
    "Namespaces: the client adds one to the names of topics and groups", "java go node"
)
def test_a_namespace_has_its_own_topics_and_groups(client: Program, broker: LocalBroker):
    have_topic(broker, "MQ_INST_1%orders")
    client.producer("inside", namespace="MQ_INST_1", instance="inside")
    client.producer("outside", group="other", instance="outside")

    client.send([{"topic": "orders", "body": "inside"}], name="inside")
    client.send([{"topic": "orders", "body": "outside"}], name="outside")
    client.listen("one", "billing", "orders", namespace="MQ_INST_1", instance="taking")

    assert client.bodies("one", 1) == ["inside"]
    assert bodies(broker, "MQ_INST_1%orders") == ["inside"]
    assert bodies(broker) == ["outside"]
    client.stop("one")
    assert broker.store.plugin("consumer").progress("MQ_INST_1%billing").lag == 0


@pytest.mark.scenario("Requests signed with access keys", "java go node")
def test_signed_requests_pass_and_others_do_not(kind: Kind, tmp_path: Path):
    with (
        LocalBroker(access_keys={KEY: SECRET}) as broker,
        started(kind, tmp_path, broker) as client,
    ):
        have_topic(broker, "orders")
        client.producer("known", group="known", instance="a", access_key=KEY, secret_key=SECRET)
        (sent,) = client.send([{"topic": "orders", "body": "Bücher"}], name="known")
        client.listen("one", "billing", "orders", instance="a", access_key=KEY, secret_key=SECRET)
        taken = client.bodies("one", 1)
        refused = refusal(client, KEY, "wrong")

        assert sent["status"] == "SEND_OK"
        assert taken == ["Bücher"]
        assert refused
        assert bodies(broker) == ["Bücher"]


def refusal(client: Program, key: str, secret: str) -> str:
    """What a client says to whom the broker has refused a send."""
    try:
        client.producer("other", group="other", instance="b", access_key=key, secret_key=secret)
        (answer,) = client.send([{"topic": "orders", "body": "?"}], name="other")
    except ProgramFailedError as error:
        return str(error)
    return str(answer["error"])
