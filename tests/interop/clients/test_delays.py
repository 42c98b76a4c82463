"""Messages of stock producers that come later. The clock of the server is moved."""

from __future__ import annotations

import datetime as dt

import pytest
from stock import Program

from reput_server import LocalBroker

HOUR = 3_600


@pytest.mark.scenario("Delays by level", "java go node")
def test_a_level_is_waited_for(client: Program, broker: LocalBroker):
    client.producer()
    client.listen("one", "billing", "orders")

    client.send([{"topic": "orders", "body": "later", "level": 17}])
    client.send([{"topic": "orders", "body": "now"}])
    early = client.bodies("one", 2, seconds=2)
    broker.forward(HOUR - 30)
    still_early = client.bodies("one", 2, seconds=2)
    broker.forward(60)

    assert early == still_early == ["now"]
    (late,) = [row for row in client.taken("one", 2) if row["body"] == "later"]
    assert late["topic"] == "orders"


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
@pytest.mark.scenario("Delays by time", "java-5.3.3")
def test_a_time_is_waited_for(client: Program, broker: LocalBroker, name: str):
    now = dt.datetime.now(dt.UTC).timestamp()
    value = {
        "TIMER_DELAY_SEC": 7_200,
        "TIMER_DELAY_MS": 7_200_000,
        "TIMER_DELIVER_MS": int((now + 7_200) * 1_000),
    }[name]
    client.producer()
    client.listen("one", "billing", "orders")

    client.send([{"topic": "orders", "body": "later", "properties": {name: f"{value}"}}])
    broker.forward(7_100)
    early = client.bodies("one", 1, seconds=2)
    broker.forward(200)

    assert early == []
    assert client.bodies("one", 1) == ["later"]
