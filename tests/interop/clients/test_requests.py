"""Requests and replies of stock clients."""

from __future__ import annotations

import pytest
from stock import Program, ProgramFailedError

from reput_server import LocalBroker


@pytest.mark.scenario(
    "Request and reply: the caller waits for the reply", "java-4.9.8 go", no="java-5.3.3"
)
def test_who_asks_gets_the_reply(client: Program, broker: LocalBroker):
    assert_replied(client, broker, "sync")


@pytest.mark.scenario("Request and reply: a callback gets the reply", "java go")
def test_who_asks_is_called_with_the_reply(client: Program, broker: LocalBroker):
    assert_replied(client, broker, "callback")


def assert_replied(client: Program, broker: LocalBroker, how: str) -> None:
    client.listen("one", "prices", "orders", replies=True, instance="one")
    client.producer(instance="other")

    replies = [
        client.request({"topic": "orders", "body": body}, how) for body in ("how much?", "why?")
    ]

    assert replies == ["re: how much?", "re: why?"]
    assert [it.body for it in broker.messages("orders")] == [b"how much?", b"why?"]


@pytest.mark.scenario("Request and reply: a time limit without a reply", "java go")
def test_who_asks_nobody_is_told(client: Program, broker: LocalBroker):
    client.producer()

    with pytest.raises(ProgramFailedError):
        client.request({"topic": "orders", "body": "anybody?"}, ms=5_000)

    assert [it.body for it in broker.messages("orders")] == [b"anybody?"]
