"""Clients of RocketMQ for release 5, each in a process of its own, against the server's gRPC.

With the clients that its marker names with ``theirs``, a test also runs against RocketMQ's own
proxy and broker 5.3.3.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import make_certificates
from realbroker import RocketMQ
from stock import FiveProgram, Kind, ProgramFailedError, started_five
from stock.theirs import TheirBroker, their_broker

from reput import Message
from reput_server import LocalBroker

Start = Callable[..., FiveProgram]


THEIRS = "rocketmq-5.3.3"
Broker = Any
"""`OurBroker` or `TheirBroker`."""


class OurBroker(LocalBroker):
    """Clients have the system's time, and tests move the broker's."""

    delay_s = 3_600
    """Of delayed messages, for which a test waits."""


@pytest.fixture(scope="session")
def theirs(newest: RocketMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TheirBroker]:
    """RocketMQ's proxy and broker, which all tests share."""
    with their_broker(newest, tmp_path_factory.mktemp("theirs")) as broker:
        yield broker


@pytest.fixture(params=["reput", THEIRS])
def broker(request: pytest.FixtureRequest, kind: Kind) -> Iterator[Broker]:
    """A broker of the test's own, or RocketMQ's."""
    if request.param == "reput":
        with OurBroker(grpc=True) as broker:
            yield broker
        return
    marker = request.node.get_closest_marker("scenario5")
    if kind.name not in marker.kwargs.get("theirs", "").split():
        pytest.skip("the page does not say that it works with RocketMQ's proxy")
    yield request.getfixturevalue("theirs")


@pytest.fixture
def program(kind: Kind, tmp_path: Path, broker: Broker) -> Iterator[FiveProgram]:
    """A program with the client of the test's turn, which talks to `broker`."""
    with started_five(kind, tmp_path / "program", broker.endpoints) as program:
        yield program


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """``topic("FIFO")``: a topic of the test's own for messages of a type."""

    def make(message_type: str = "NORMAL") -> str:
        word, _, client = request.node.name.partition("[")
        name = f"{message_type}-{word[-40:]}-{client.strip(']')}".replace(".", "_")
        broker.create_topic(name, message_type=message_type)
        return name

    return make


def bodies(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(row["body"] for row in rows)


def stored(broker: Broker, topic: str) -> list[str]:
    return [bytes(each.body).decode() for each in broker.messages(topic)]


ALL = "java5 python5 node5 go5 rust5"
PUSH = "java5 python5 node5 go5"
"""Those that have a push consumer; they can also change how long a message is invisible."""


@pytest.mark.scenario5("Send, receive and acknowledge", ALL, theirs=ALL)
def test_a_simple_consumer_receives_what_was_sent(program, broker, topic):
    name = topic()
    program.producer(name)
    more = {"tag": "paid", "keys": ["k1", "k2"], "properties": {"colour": "red"}}
    [sent] = program.send({"topic": name, "body": "one", **more})
    assert sent["id"]
    program.simple("g-" + name, name)

    [row] = program.receive(1)

    assert (row["body"], row["topic"], row["tag"], row["attempt"]) == ("one", name, "paid", 1)
    assert sorted(row["keys"]) == ["k1", "k2"]
    assert row["properties"]["colour"] == "red"
    broker.wait_for("g-" + name)


@pytest.mark.scenario5("Messages of 4.x producers are received", ALL, theirs=ALL)
def test_what_was_put_by_others_is_received(program, broker, topic):
    name = topic()
    broker.put(*[Message(name, b"%d" % number, number % 4) for number in range(20)])
    program.simple("g-" + name, name)

    assert bodies(program.receive(20)) == sorted(map(str, range(20)))


@pytest.mark.scenario5("Messages of another type than the topic are refused", ALL, theirs=ALL)
def test_a_message_of_another_type_is_refused(program, broker, topic):
    normal, fifo = topic(), topic("FIFO")
    program.producer(normal, fifo)

    sent = program.send(
        {"topic": normal, "body": "x", "message_group": "g"},
        {"topic": fifo, "body": "x"},
        {"topic": "nowhere", "body": "x"},
        {"topic": normal, "body": "works"},
    )

    assert ["error" in each for each in sent] == [True, True, True, False]
    assert stored(broker, normal) == ["works"]
    assert stored(broker, fifo) == []


@pytest.mark.scenario5("A message over 4 MiB is refused", ALL, theirs=ALL)
def test_a_message_that_is_too_large_is_refused(program, broker, topic):
    name = topic()
    program.producer(name)

    large, small = program.send(
        {"topic": name, "body": "x" * ((4 << 20) + 1)}, {"topic": name, "body": "x" * (1 << 20)}
    )

    assert "error" in large
    assert "error" not in small


@pytest.mark.scenario5("A message that is not acknowledged is redelivered", ALL, theirs=ALL)
def test_a_message_comes_again_after_its_time(program, broker, topic):
    name = topic()
    broker.put(Message(name, b"one"))
    program.simple("g-" + name, name)
    assert [row["attempt"] for row in program.receive(1, ack=False)] == [1]

    broker.forward(16)

    assert [row["attempt"] for row in program.receive(1)] == [2]


@pytest.mark.scenario5("Simple consumer: a message stays invisible for longer", PUSH, theirs=PUSH)
def test_a_message_is_acknowledged_after_its_time_was_changed(program, broker, topic):
    name = topic()
    broker.put(Message(name, b"one"))
    program.simple("g-" + name, name)

    assert bodies(program.receive(1, change_s=60)) == ["one"]

    broker.wait_for("g-" + name)


@pytest.mark.scenario5("Push consumer", PUSH, theirs=PUSH)
def test_a_push_consumer_is_called_with_each_message(program, broker, topic):
    name = topic()
    program.listen("g-" + name, name)
    broker.put(*[Message(name, b"%d" % number, number % 4) for number in range(40)])

    assert bodies(program.taken(40)) == sorted(map(str, range(40)))
    broker.wait_for("g-" + name)


@pytest.mark.scenario5("Push consumer: a refused message is redelivered later", PUSH, theirs=PUSH)
def test_a_refused_message_comes_again(program, broker, topic):
    name = topic()
    broker.put(Message(name, b"once"), Message(name, b"good"))
    program.listen("g-" + name, name)

    found = program.taken(3)

    assert sorted((row["body"], row["attempt"]) for row in found) == [
        ("good", 1),
        ("once", 1),
        ("once", 2),
    ]
    broker.wait_for("g-" + name)


@pytest.mark.scenario5("Push consumer: a message refused too often becomes a dead letter", PUSH)
def test_a_message_that_is_always_refused_becomes_a_dead_letter(program, broker, topic):
    name = topic()
    broker.create_group("g-" + name, retries=1)
    broker.put(Message(name, b"fail"), Message(name, b"good"))
    program.listen("g-" + name, name)

    assert bodies(program.taken(3)) == ["fail", "fail", "good"]

    broker.wait_for("g-" + name)
    assert stored(broker, f"%DLQ%g-{name}") == ["fail"]


@pytest.mark.scenario5("FIFO: messages of one message group come in order", PUSH, theirs=PUSH)
def test_messages_of_a_group_come_in_order(program, broker, topic):
    name = topic("FIFO")
    broker.create_group("g-" + name, ordered=True)
    program.producer(name)
    program.send(*[{"topic": name, "body": str(n), "message_group": "a"} for n in range(20)])
    program.listen("g-" + name, name)

    assert [row["body"] for row in program.taken(20)] == [str(n) for n in range(20)]
    broker.wait_for("g-" + name)


@pytest.mark.scenario5(
    "FIFO: a refused message blocks the messages after it",
    "java5 python5",
    no="node5 go5",
    theirs="java5 python5",
)
def test_a_refused_message_of_a_group_holds_those_behind_it(program, broker, topic):
    name = topic("FIFO")
    broker.create_group("g-" + name, ordered=True)
    program.producer(name)
    words = ["0", "once", "2", "3"]
    program.send(*[{"topic": name, "body": each, "message_group": "a"} for each in words])
    program.listen("g-" + name, name)

    assert [row["body"] for row in program.taken(5)] == ["0", "once", "once", "2", "3"]
    broker.wait_for("g-" + name)


@pytest.mark.scenario5(
    "FIFO: a message refused too often becomes a dead letter",
    "java5 python5",
    no="node5 go5",
    theirs="java5 python5",
)
def test_a_message_of_a_group_becomes_a_dead_letter(program, broker, topic):
    name = topic("FIFO")
    broker.create_group("g-" + name, ordered=True, retries=1)
    program.producer(name)
    words = ["0", "fail", "2"]
    program.send(*[{"topic": name, "body": each, "message_group": "a"} for each in words])
    program.listen("g-" + name, name)

    assert [row["body"] for row in program.taken(4)] == ["0", "fail", "fail", "2"]

    broker.wait_for("g-" + name)
    assert stored(broker, f"%DLQ%g-{name}") == ["fail"]


@pytest.mark.scenario5("Delayed messages", ALL, theirs="java5 python5 go5")
def test_a_delayed_message_comes_when_it_is_due(program, broker, topic):
    name = topic("DELAY")
    program.producer(name)
    [sent] = program.send({"topic": name, "body": "later", "delay_s": broker.delay_s})
    assert "error" not in sent
    program.simple("g-" + name, name)
    assert program.receive(1, 3) == []

    broker.forward(broker.delay_s + 1)

    assert bodies(program.receive(1)) == ["later"]


@pytest.mark.scenario5("A delay of more than a day is refused", ALL, theirs=ALL)
def test_a_delay_that_is_too_long_is_refused(program, broker, topic):
    name = topic("DELAY")
    program.producer(name)

    [sent] = program.send({"topic": name, "body": "later", "delay_s": 100_000})

    assert "error" in sent


@pytest.mark.scenario5(
    "A delayed message is recalled", "java5 python5 node5", theirs="java5 python5"
)
def test_a_delayed_message_that_is_recalled_does_not_come(program, broker, topic):
    name = topic("DELAY")
    program.producer(name)
    first, _ = program.send(
        {"topic": name, "body": "recalled", "delay_s": broker.delay_s},
        {"topic": name, "body": "kept", "delay_s": broker.delay_s},
    )
    program.recall(name, first["handle"])
    with pytest.raises(ProgramFailedError):
        program.recall(name, "nonsense")
    broker.forward(broker.delay_s + 1)
    program.simple("g-" + name, name)

    assert bodies(program.receive(2, 10)) == ["kept"]


@pytest.mark.scenario5("Transactions: commit and rollback", ALL, theirs="java5 python5 go5")
def test_a_transaction_is_committed_or_rolled_back(program, broker, topic):
    name = topic("TRANSACTION")
    program.producer(name, checks=True)
    sent = program.send(
        *({"topic": name, "body": each, "end": each} for each in ("commit", "rollback"))
    )
    assert not any("error" in each for each in sent), sent
    program.simple("g-" + name, name)

    assert bodies(program.receive(2, 5)) == ["commit"]


@pytest.mark.scenario5("Transactions: check-back", ALL, theirs="java5 python5 go5 rust5")
def test_a_transaction_that_nobody_ends_is_asked_about(program, broker, topic):
    name = topic("TRANSACTION")
    program.producer(name, checks=True)
    program.send({"topic": name, "body": "orphan", "end": "nothing"})

    broker.forward(60)

    assert program.checked(1) == ["orphan"]
    program.simple("g-" + name, name)
    assert bodies(program.receive(1)) == ["orphan"]


@pytest.mark.scenario5("Simple consumer: tags", ALL, theirs=PUSH)
def test_tags_select(program, broker, topic):
    name = topic()
    put_with_tags(broker, name)
    program.simple("g-" + name, name, expression="paid || due")

    assert bodies(program.receive(4, 5)) == ["due", "paid", "paid"]


@pytest.mark.scenario5("Push consumer: tags", PUSH, theirs=PUSH)
def test_tags_select_what_is_pushed(program, broker, topic):
    name = topic()
    put_with_tags(broker, name)
    program.listen("g-" + name, name, expression="open")

    assert bodies(program.taken(1)) == ["open"]


def put_with_tags(broker: Broker, topic: str) -> None:
    for tag in ("paid", "open", "due", "paid"):
        broker.put(Message(topic, tag.encode(), tags=tag))


@pytest.mark.scenario5("Simple consumer: SQL92", ALL, theirs=PUSH)
def test_conditions_select(program, broker, topic):
    name = topic()
    put_with_numbers(broker, name)
    program.simple("g-" + name, name, sql="n BETWEEN 1 AND 2")

    assert bodies(program.receive(3, 5)) == ["1", "2"]


@pytest.mark.scenario5("Push consumer: SQL92", PUSH, theirs=PUSH)
def test_conditions_select_what_is_pushed(program, broker, topic):
    name = topic()
    put_with_numbers(broker, name)
    program.listen("g-" + name, name, sql="n > 2")

    assert bodies(program.taken(1)) == ["3"]


def put_with_numbers(broker: Broker, topic: str) -> None:
    for number in range(4):
        broker.put(Message(topic, b"%d" % number, properties={"n": str(number)}))


def _start(kind: Kind, directory: Path, broker: Broker, **options: Any) -> FiveProgram:
    return started_five(kind, directory, broker.endpoints, **options)


@pytest.mark.scenario5("Namespaces", "java5 python5 go5", no="node5")
def test_namespaces_are_apart(kind, tmp_path, broker, topic):
    name = topic()
    broker.create_topic(f"shop%{name}")
    with _start(kind, tmp_path / "shop", broker, namespace="shop") as shop:
        shop.producer(name)
        [sent] = shop.send({"topic": name, "body": "inside"})
        assert "error" not in sent
        broker.put(Message(name, b"outside"))
        shop.simple("g-" + name, name)

        assert bodies(shop.receive(2, 5)) == ["inside"]
    assert stored(broker, f"shop%{name}") == ["inside"]


def _sends(program: FiveProgram, topic: str) -> bool:
    try:
        program.producer(topic)
    except ProgramFailedError:
        return False
    [sent] = program.send({"topic": topic, "body": "two"})
    return "error" not in sent


@pytest.mark.scenario5("Requests signed with access keys", ALL)
def test_requests_are_signed(kind, tmp_path):
    with LocalBroker(grpc=True, access_keys={"key": "secret"}) as broker:
        broker.create_topic("orders")
        keys = {"access_key": "key", "secret_key": "secret"}
        with _start(kind, tmp_path / "right", broker, **keys) as right:
            right.producer("orders")
            [sent] = right.send({"topic": "orders", "body": "one"})
            assert "error" not in sent
            right.simple("g", "orders")
            assert bodies(right.receive(1)) == ["one"]
        with _start(kind, tmp_path / "wrong", broker, access_key="key", secret_key="no") as wrong:
            assert not _sends(wrong, "orders")
        assert stored(broker, "orders") == ["one"]


@pytest.mark.scenario5("TLS", ALL)
def test_connections_are_encrypted(kind, tmp_path, monkeypatch):
    files = make_certificates(tmp_path)
    monkeypatch.setitem(os.environ, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", files.ca)
    with LocalBroker(grpc=True, tls=files.tls(mode="permissive")) as broker:
        broker.create_topic("orders")
        with _start(kind, tmp_path / "tls", broker, tls=True) as program:
            program.producer("orders")
            [sent] = program.send({"topic": "orders", "body": "one"})
            assert "error" not in sent
            program.simple("g", "orders")

            assert bodies(program.receive(1)) == ["one"]


@pytest.mark.scenario5("Lite topics: send, subscribe, receive in order, unsubscribe", "java5")
def test_a_lite_push_consumer_gets_the_messages_of_its_lite_topics(program, broker, topic):
    name = topic("LITE")
    broker.create_group("g-" + name, ordered=True, parent=name)
    program.producer(name)
    program.lite("g-" + name, name)
    program.subscribe("a", "b")
    sent = [("a", "1"), ("b", "2"), ("c", "3"), ("a", "4")]
    program.send(*({"topic": name, "lite_topic": lite, "body": body} for lite, body in sent))

    taken = [(each["lite_topic"], each["body"]) for each in program.taken_lite(3)]

    assert sorted(taken) == [("a", "1"), ("a", "4"), ("b", "2")]
    assert [body for lite, body in taken if lite == "a"] == ["1", "4"]
    broker.wait_for("g-" + name)
    program.subscribe("c", removed=["a"])
    program.send(*({"topic": name, "lite_topic": each, "body": "late"} for each in "ab"))
    rows = program.taken_lite(5)
    assert sorted((each["lite_topic"], each["body"]) for each in rows[3:]) == [
        ("b", "late"),
        ("c", "3"),
    ]
