"""The broker for tests of programs: messages, time, faults, the fixture, the process."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from reput.record import Message
from reput_client import Client, SendError
from reput_server import LocalBroker, ServerError
from reput_server.testing.__main__ import answers


@pytest.fixture(scope="module")
def one() -> Iterator[LocalBroker]:
    """One broker for the tests of this module, which empty it."""
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def broker(one: LocalBroker) -> Iterator[LocalBroker]:
    yield one
    one.clear()


@pytest.fixture
def client(broker: LocalBroker) -> Iterator[Client]:
    with Client(broker.name_server) as found:
        yield found


def bodies(broker: LocalBroker, topic: str = "orders") -> list[bytes]:
    return [message.body for message in broker.messages(topic)]


def test_what_programs_sent_is_there_in_its_order(broker: LocalBroker, client: Client) -> None:
    with client.producer("shop") as producer:
        for number in range(10):
            producer.send(Message("orders", b"%d" % number))
        producer.send(Message("invoices", b"x"))

    assert bodies(broker) == [b"%d" % number for number in range(10)]
    assert broker.topics() == ["invoices", "orders"]
    assert broker.messages("others") == []


def test_what_a_test_puts_programs_get(broker: LocalBroker, client: Client) -> None:
    broker.put(Message("orders", b"1"), Message("orders", b"2"))

    with client.consumer("billing", "orders", start="earliest") as consumer:
        found = [consumer.next(20), consumer.next(20)]

    assert [each.body for each in found if each is not None] == [b"1", b"2"]


def test_a_group_is_waited_for(broker: LocalBroker, client: Client) -> None:
    broker.put(*(Message("orders", b"%d" % number) for number in range(5)))
    with pytest.raises(TimeoutError, match=r"'billing' .* no offsets yet"):
        broker.wait_for("billing", seconds=0)

    def consume() -> None:
        with client.consumer("billing", "orders", start="earliest") as consumer:
            for _ in range(5):
                consumer.next(20)

    thread = threading.Thread(target=consume)
    thread.start()
    broker.wait_for("billing", seconds=20)
    thread.join()
    broker.put(Message("orders", b"one more"))
    with pytest.raises(TimeoutError, match="1 in orders/0"):
        broker.wait_for("billing", seconds=0)


@pytest.mark.parametrize("time", [7_200, dt.timedelta(hours=2)])
def test_hours_go_by_at_once(broker: LocalBroker, client: Client, time: Any) -> None:
    with (
        client.producer("shop") as producer,
        client.consumer("billing", "orders", start="earliest") as consumer,
    ):
        producer.send(Message("orders", b"later"), level=18)
        assert consumer.next(0.1) is None
        broker.forward(time)
        found = consumer.next(20)

    assert found is not None
    with pytest.raises(ValueError, match="forwards alone"):
        broker.forward(-1)


def test_a_busy_broker_stores_nothing_and_is_asked_again(
    broker: LocalBroker, client: Client
) -> None:
    broker.faults.answer_busy(2)
    with client.producer("shop") as producer:
        producer.send(Message("orders", b"at the third try"))
        broker.faults.answer_busy(3)
        with pytest.raises(SendError, match="busy, as the test wants it"):
            producer.send(Message("orders", b"never"))

    assert bodies(broker) == [b"at the third try"]


def test_a_lost_answer_has_a_message_stored_twice(broker: LocalBroker, client: Client) -> None:
    broker.faults.lose_answers(1)
    with client.producer("shop") as producer, pytest.raises(SendError):
        # Long enough for the broker to store the message, however busy the machine is: otherwise
        # the next message would lose its answer.
        producer.send(Message("orders", b"stored"), timeout=2.5)
    with client.producer("shop") as producer:
        producer.send(Message("orders", b"stored"))

    assert bodies(broker) == [b"stored"] * 2


def test_connections_break_when_asked_to(broker: LocalBroker, client: Client) -> None:
    with client.producer("shop") as producer:
        producer.send(Message("orders", b"1"))
        broker.faults.drop_connections()
        producer.send(Message("orders", b"2"))
        broker.faults.cut_at(1)
        producer.send(Message("orders", b"3"))

    assert bodies(broker) == [b"1", b"2", b"3"]


def test_faults_can_be_taken_back(broker: LocalBroker, client: Client) -> None:
    broker.faults.answer_busy(100)
    broker.faults.clear()
    with client.producer("shop") as producer:
        assert producer.send(Message("orders", b"1")).is_ok
    with pytest.raises(ValueError, match="1 or more"):
        broker.faults.cut_at(0)


def test_an_emptied_broker_is_where_it_was_and_knows_nothing(broker: LocalBroker) -> None:
    addresses = broker.name_server, broker.address
    with Client(broker.name_server) as client, client.producer("shop") as producer:
        producer.send(Message("orders", b"1"))
        broker.forward(3_600)
        broker.faults.answer_busy(100)
        broker.clear()

        assert (broker.name_server, broker.address) == addresses
        assert broker.topics() == []
        producer.send(Message("orders", b"2"))  # over another connection

    (found,) = broker.messages("orders")
    assert found.body == b"2"
    assert found.queue_offset == 0


def test_outside_of_its_block_it_says_so() -> None:
    broker = LocalBroker()

    for use in (lambda: broker.name_server, lambda: broker.messages("t"), lambda: broker.faults):
        with pytest.raises(ServerError, match="inside of its with block"):
            use()


# --------------------------------------------------------------------------- the fixture


@pytest.mark.costly
def test_the_fixture_is_a_broker(rocketmq_broker: LocalBroker) -> None:
    rocketmq_broker.put(Message("orders", b"1"))

    assert bodies(rocketmq_broker) == [b"1"]


def test_the_fixture_is_empty_in_the_next_test(rocketmq_broker: LocalBroker) -> None:
    assert rocketmq_broker.topics() == []


# --------------------------------------------------------------------------- the process


def test_orders_are_carried_out_line_by_line(broker: LocalBroker) -> None:
    body = base64.b64encode(b"book").decode()
    message = {"topic": "orders", "body": body, "tags": "paid", "keys": ["k"]}
    orders = [
        {"do": "put", "messages": [message]},
        {"do": "topics"},
        {"do": "messages", "topic": "orders"},
        {"do": "forward", "seconds": 1},
        {"do": "busy", "times": 2},
        {"do": "lose"},
        {"do": "cut"},
        {"do": "drop"},
        {"do": "wait", "group": "billing", "seconds": 0},
        {"do": "clear"},
        {"do": "topics"},
    ]

    found = list(answers(broker, io.StringIO("\n".join(map(json.dumps, orders)))))

    assert found[0] == {}
    assert found[1] == {"topics": ["orders"]}
    (shown,) = found[2]["messages"]
    assert shown["body"] == body
    assert (shown["tags"], shown["keys"], shown["queueId"]) == ("paid", ["k"], 0)
    assert found[3:8] == [{}] * 5
    assert "no offsets yet" in found[8]["error"]
    assert found[9:] == [{}, {"topics": []}]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("nonsense", "JSONDecodeError"),
        ("[1]", '"do" expected'),
        ('{"do": "dance"}', "one of messages, put"),
        ('{"do": "messages"}', "the order lacks 'topic'"),
        ('{"do": "put", "messages": [{"topic": "t", "body": "%"}]}', "Error"),
        ('{"do": "forward", "seconds": "soon"}', "ValueError"),
    ],
)
def test_an_order_that_is_none_is_answered_with_what_is_wrong(
    broker: LocalBroker, line: str, error: str
) -> None:
    (found,) = answers(broker, ["\n", line])

    assert error in found["error"]


@pytest.mark.costly
def test_the_process_says_where_it_is_and_ends_with_its_input() -> None:
    command = [sys.executable, "-m", "reput_server.testing"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        with Client(told["nameServer"]) as client, client.producer("shop") as producer:
            producer.send(Message("orders", b"book"))
        rest, _ = process.communicate('{"do": "topics"}\n', timeout=60)

    assert json.loads(rest) == {"topics": ["orders"]}
    assert process.returncode == 0


@pytest.mark.costly
def test_an_address_that_is_taken_is_an_error_in_one_line(broker: LocalBroker) -> None:
    command = [sys.executable, "-m", "reput_server.testing", "--listen", broker.address]

    done = subprocess.run(command, capture_output=True, text=True, input="")

    assert done.returncode == 1
    assert done.stderr.startswith("Error: the broker cannot listen: ")
    assert "Traceback" not in done.stderr
