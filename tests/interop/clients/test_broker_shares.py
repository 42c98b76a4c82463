"""What a client of 5.x does that leaves sharing to the broker: it pulls its queues, or pops."""

from __future__ import annotations

import pytest
from stock import Program

from reput.record import Message
from reput_consumer import ConsumerPlugin, RequestMode
from reput_server import LocalBroker


def put(broker: LocalBroker, *bodies: str) -> None:
    broker.put(
        *(Message("orders", body.encode(), queue_id=at % 4) for at, body in enumerate(bodies))
    )


def have_mode(broker: LocalBroker, group: str, *, pops: bool) -> None:
    """Set how a group takes messages, as ``mqadmin setConsumeMode`` does."""
    broker.create_group(group)
    modes = broker.store.plugin(ConsumerPlugin).popper.modes
    modes.put("orders", group, RequestMode(pops=pops))


@pytest.mark.scenario("Pop: messages of all queues, to all members", "java-5.3.3")
def test_members_that_pop_take_from_all_queues(client: Program, broker: LocalBroker):
    have_mode(broker, "pops", pops=True)
    bodies = [str(number) for number in range(40)]
    put(broker, *bodies)

    for name in ("one", "two"):
        client.listen(name, "pops", "orders", broker_shares=True, instance=name)
    broker.wait_for("pops", seconds=60)
    found = client.bodies("one", 40, seconds=1) + client.bodies("two", 40, seconds=1)

    assert sorted(found) == sorted(bodies)


@pytest.mark.scenario("Pop: a refused message is redelivered", "java-5.3.3")
def test_a_refused_message_comes_again_by_pop(client: Program, broker: LocalBroker):
    have_mode(broker, "pops", pops=True)
    put(broker, "once 1", "2")

    client.listen("one", "pops", "orders", broker_shares=True)
    assert len(client.taken("one", 2)) == 2
    retries, forwards = "%RETRY%pops_orders", 0
    while not broker.messages(retries) and forwards < 30:  # the refusal may be under way yet
        broker.forward(20)
        forwards += 1
        client.taken("one", 3, seconds=1)
    taken = client.taken("one", 3)

    assert sorted(row["body"] for row in taken) == ["2", "once 1", "once 1"]
    assert {row["topic"] for row in taken} <= {"orders"}
    broker.wait_for("pops", seconds=60)


@pytest.mark.scenario("The broker assigns queues to consumers", "java-5.3.3")
def test_members_that_pull_are_told_their_queues(client: Program, broker: LocalBroker):
    bodies = [str(number) for number in range(40)]
    put(broker, *bodies)

    client.listen("one", "shared", "orders", broker_shares=True)

    assert client.bodies("one", 40) == sorted(bodies)
