"""Push consumers of stock clients."""

from __future__ import annotations

import pytest
from stock import Program, Row

from reput.record import Message
from reput_server import LocalBroker


def put(broker: LocalBroker, *bodies: str, queue_id: int = 0, tags: str = "") -> None:
    broker.put(
        *(
            Message("orders", body.encode(), queue_id=queue_id, properties={"TAGS": tags})
            for body in bodies
        )
    )


def spread(broker: LocalBroker, count: int, first: int = 0) -> list[str]:
    """Put messages into four queues, with tags a and b in turn; their bodies, sorted."""
    broker.put(
        *(
            Message("orders", b"%d" % at, queue_id=at % 4, tags="ab"[at // 4 % 2])
            for at in range(first, first + count)
        )
    )
    return sorted(str(at) for at in range(first, first + count))


@pytest.mark.scenario("Push consumer, messages handled concurrently", "java go node")
def test_all_messages_come_once(client: Program, broker: LocalBroker):
    expected = spread(broker, 100)

    client.listen("one", "billing", "orders")
    taken = client.taken("one", 100)
    client.stop("one")

    assert sorted(row["body"] for row in taken) == expected
    places = {(it.queue_id, it.queue_offset): it.body.decode() for it in broker.messages("orders")}
    assert {(row["queue_id"], row["queue_offset"]): row["body"] for row in taken} == places
    broker.wait_for("billing")


@pytest.mark.scenario(
    "A consumer that waits for a message gets it as soon as it arrives", "java go node"
)
def test_what_arrives_later_comes_at_once(client: Program, broker: LocalBroker):
    spread(broker, 4)
    client.listen("one", "billing", "orders")
    client.taken("one", 4)

    expected = spread(broker, 40)

    # Sooner than a pull that waits ends by itself, after 15 s and more.
    assert sorted(set(client.bodies("one", 44, seconds=10))) == expected


@pytest.mark.scenario("Tags", "java go node")
def test_tags_part_what_comes(client: Program, broker: LocalBroker):
    spread(broker, 80)

    client.listen("some", "audit", "orders", expression="b || c")
    taken = client.taken("some", 40)

    assert {row["tags"] for row in taken} == {"b"}
    assert len({row["body"] for row in taken}) == 40


@pytest.mark.scenario("SQL92", "java go node")
def test_conditions_part_what_comes(client: Program, broker: LocalBroker):
    broker.put(
        *(
            Message("orders", b"%d" % at, queue_id=at % 4, properties={"price": f"{at}"})
            for at in range(40)
        )
    )

    client.listen("dear", "audit", "orders", sql="price BETWEEN 30 AND 35 OR price = 3")

    assert client.bodies("dear", 7) == ["3", "30", "31", "32", "33", "34", "35"]


@pytest.mark.scenario("Push consumer, in order", "java go")
def test_what_is_in_order_comes_in_order(client: Program, broker: LocalBroker):
    for queue_id in range(4):
        put(broker, *(f"{queue_id} {at}" for at in range(10)), queue_id=queue_id)

    client.listen("one", "billing", "orders", orderly=True)
    taken = client.taken("one", 40)

    for queue_id in range(4):
        of_queue = [row["body"] for row in taken if row["queue_id"] == queue_id]
        assert of_queue == [f"{queue_id} {at}" for at in range(10)]


@pytest.mark.scenario("In order: a refused message blocks its queue", "java go")
def test_a_refused_message_comes_again_before_the_next(client: Program, broker: LocalBroker):
    put(broker, "1", "once 2", "3")

    client.listen("one", "billing", "orders", orderly=True)
    taken = client.taken("one", 4)

    assert [row["body"] for row in taken] == ["1", "once 2", "once 2", "3"]


@pytest.mark.scenario("Push consumer, broadcasting", "java go node")
def test_a_broadcast_comes_to_each(client: Program, broker: LocalBroker):
    expected = spread(broker, 20)

    for name in ("one", "two"):
        client.listen(name, "billing", "orders", broadcast=True, instance=name)
    found = [client.bodies(name, 20) for name in ("one", "two")]
    client.stop("one")
    client.stop("two")

    assert found == [expected, expected]
    known = broker.store.plugin("consumer").progress("billing").queues
    assert "orders" not in {queue.topic for queue in known}  # offsets are the clients'


@pytest.mark.scenario("A group continues at its offset", "java go node")
def test_a_consumer_that_comes_back_goes_on(client: Program, broker: LocalBroker):
    spread(broker, 20)
    client.listen("one", "billing", "orders", instance="first")
    client.taken("one", 20)
    client.stop("one")

    expected = spread(broker, 20, first=20)
    client.listen("two", "billing", "orders", instance="second")

    assert client.bodies("two", 21, seconds=4) == expected


@pytest.mark.scenario("A group starts at the end", "java go node")
def test_who_starts_at_the_end_gets_what_comes(client: Program, broker: LocalBroker):
    # RocketMQ starts at the beginning of a queue that still has its first message in memory.
    spread(broker, 20)
    client.listen("one", "billing", "orders", start="last")
    early = client.bodies("one", 20, seconds=5)

    expected = spread(broker, 20, first=20)
    late = client.bodies("one", len(early) + 20)

    assert sorted(set(late) - set(early)) == expected
    assert len(late) == len(early) + 20


@pytest.mark.scenario("Two members share the queues, and one leaves", "java go node")
def test_members_share_and_take_over(client: Program, broker: LocalBroker):
    spread(broker, 4)
    for name in ("one", "two"):
        client.listen(name, "billing", "orders", instance=name)
    shared(client, broker, ["one", "two"])

    client.stop("one")
    before = len(client.taken("two", 0, seconds=0))
    expected = spread(broker, 40, first=1_000)

    last = client.taken("two", before + 40, seconds=60)[before:]
    assert sorted({row["body"] for row in last}) == expected


def shared(client: Program, broker: LocalBroker, names: list[str]) -> None:
    """Return once each member has got messages that were put after it came."""
    seen: dict[str, list[Row]] = {}
    for turn in range(30):
        expected = set(spread(broker, 8, first=100 * turn + 10_000))
        for name in names:
            # Node's client looks for other members every ten seconds, and is not told.
            rows = client.taken(name, len(seen.get(name, ())) + 8, seconds=1)
            seen[name] = rows
        new = {name: {row["body"] for row in seen[name]} & expected for name in names}
        parted = all(len(found) == 8 // len(names) for found in new.values())
        if parted and set().union(*new.values()) == expected:
            return
    raise AssertionError(f"not shared: { ({name: len(rows) for name, rows in seen.items()}) }")


@pytest.mark.scenario("A refused message is redelivered later", "java go node")
def test_a_refused_message_comes_again(client: Program, broker: LocalBroker):
    put(broker, "once 1", "2")
    client.listen("one", "billing", "orders")
    client.taken("one", 2)

    first, again = again_of(client, broker, "once 1")

    assert (first["reconsume_times"], again["reconsume_times"]) == (0, 1)
    assert again["topic"] == "orders"
    assert len(client.taken("one", 3)) == 3


def again_of(client: Program, broker: LocalBroker, body: str) -> list[Row]:
    """Both times that a message came, the second one after its delay."""
    for _ in range(40):
        broker.forward(10)  # it may take a moment until it is sent back
        found = [row for row in client.taken("one", 3, seconds=0.5) if row["body"] == body]
        if len(found) == 2:
            return found
    raise AssertionError(f"it has not come again: {found}")


@pytest.mark.scenario("A message refused too often becomes a dead letter", "java go node")
def test_what_fails_becomes_a_dead_letter(client: Program, broker: LocalBroker):
    put(broker, "fail 1")
    client.listen("one", "billing", "orders", max_reconsume=1)

    for _ in range(60):
        broker.forward(30)
        client.taken("one", 3, seconds=0.5)
        found = broker.messages("%DLQ%billing")
        if found:
            break

    assert [it.body for it in found] == [b"fail 1"]
    assert found[0].properties["RETRY_TOPIC"] == "orders"
    assert [row["reconsume_times"] for row in client.taken("one", 2)] == [0, 1]
