"""Transaction producers of stock clients. The first word of a body is what the producer says at
once, the second what it says when it is asked."""

from __future__ import annotations

import pytest
from stock import Program

from reput_server import LocalBroker


def send(client: Program, *bodies: str) -> None:
    client.producer(transaction=True)
    sent = client.send([{"topic": "orders", "body": body} for body in bodies], "transaction")
    assert {answer.get("status") for answer in sent} == {"SEND_OK"}


def visible(broker: LocalBroker, count: int) -> list[str]:
    """Bodies that consumers see, once these are as many; what producers say comes one-way."""
    for _ in range(500):
        found = sorted(it.body.decode() for it in broker.messages("orders"))
        if len(found) >= count:
            break
    return found


def ask_back(client: Program, broker: LocalBroker, count: int) -> list[str]:
    """Have time go by until the producer was asked so often; after which bodies."""
    for turn in range(1, 41):
        broker.forward(60)
        found = client.checked(turn, seconds=0.5)
        if len(found) >= count:
            break
    return found


@pytest.mark.scenario("Transactions: commit and rollback", "java go")
def test_what_is_committed_is_seen_and_nothing_else(client: Program, broker: LocalBroker):
    send(client, "commit 1", "rollback 2", "commit 3")
    client.listen("one", "billing", "orders")

    taken = client.taken("one", 2)

    assert sorted(row["body"] for row in taken) == ["commit 1", "commit 3"]
    assert visible(broker, 2) == ["commit 1", "commit 3"]
    assert len({row["properties"]["UNIQ_KEY"] for row in taken}) == 2


@pytest.mark.scenario("Transactions: check-back", "java go")
def test_who_does_not_know_yet_is_asked(client: Program, broker: LocalBroker):
    send(client, "unknown commit", "unknown rollback")
    assert visible(broker, 0) == []

    # Who is slow to answer is asked again.
    for count in range(2, 20):
        asked = set(ask_back(client, broker, count))
        if len(asked) == 2:
            break

    assert asked == {"unknown commit", "unknown rollback"}
    assert visible(broker, 1) == ["unknown commit"]


@pytest.mark.scenario("Transactions: another check-back after no answer", "java go")
def test_who_never_knows_is_asked_again_and_again(client: Program, broker: LocalBroker):
    send(client, "unknown unknown")

    asked = ask_back(client, broker, 3)

    assert asked[:3] == ["unknown unknown"] * 3
    assert visible(broker, 0) == []
