"""Consumers of stock clients that ask for messages themselves."""

from __future__ import annotations

import pytest
from stock import Program

from reput.record import Message
from reput_server import LocalBroker


def spread(broker: LocalBroker, count: int, first: int = 0) -> list[str]:
    """Put messages into four queues, with tags a and b in turn; their bodies, sorted."""
    broker.put(
        *(
            Message("orders", b"%d" % at, queue_id=at % 4, tags="ab"[at // 4 % 2])
            for at in range(first, first + count)
        )
    )
    return sorted(str(at) for at in range(first, first + count))


@pytest.mark.scenario("Lite pull consumer that subscribes", "java go")
def test_polled_messages_come_once_and_count_as_taken(client: Program, broker: LocalBroker):
    expected = spread(broker, 60)

    client.poll("one", "billing", "orders")
    found = client.bodies("one", 60)
    client.stop("one")

    assert found == expected
    broker.wait_for("billing")


@pytest.mark.scenario("Lite pull consumer: tags and SQL92", "java")
def test_polled_messages_are_selected(client: Program, broker: LocalBroker):
    spread(broker, 40)

    client.poll("some", "audit", "orders", expression="b", instance="some")
    client.poll("asked", "report", "orders", sql="TAGS = 'a'", instance="asked")

    assert {row["tags"] for row in client.taken("some", 20)} == {"b"}
    assert {row["tags"] for row in client.taken("asked", 20)} == {"a"}


@pytest.mark.scenario("Lite pull consumer with queues of its choice", "java")
def test_who_names_queues_and_places_gets_what_is_there(client: Program, broker: LocalBroker):
    spread(broker, 40)

    client.poll("one", "billing", "orders", assign=True, seek=7)

    taken = client.taken("one", 12)
    assert sorted(row["queue_offset"] for row in taken) == [7] * 4 + [8] * 4 + [9] * 4


@pytest.mark.scenario("Pull consumer, queue by queue", "java", no="go")
def test_a_pull_consumer_goes_on_where_it_was(client: Program, broker: LocalBroker):
    expected = spread(broker, 60)
    first = client.pull("billing", "orders", 60, instance="first")
    later = spread(broker, 20, first=60)

    second = client.pull("billing", "orders", 20, instance="second")

    assert sorted(row["body"] for row in first) == expected
    assert sorted(row["body"] for row in second) == later


@pytest.mark.scenario("Pull consumer: tags", "java")
def test_a_pull_consumer_gets_its_tags(client: Program, broker: LocalBroker):
    spread(broker, 40)

    found = client.pull("billing", "orders", 20, expression="a || c")

    assert {row["tags"] for row in found} == {"a"}
    assert len({row["body"] for row in found}) == 20
