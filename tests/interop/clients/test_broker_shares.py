"""What a client of 5.x does that leaves sharing to the broker, which ours does not do."""

from __future__ import annotations

import pytest
from stock import Program

from reput.record import Message
from reput_server import LocalBroker


@pytest.mark.scenario("Pop: the broker shares messages out", "java-5.3.3", works=False)
def test_who_leaves_sharing_to_the_broker_gets_nothing_and_harms_nobody(
    client: Program, broker: LocalBroker
):
    broker.put(Message("orders", b"1"))

    client.listen("one", "pops", "orders", broker_shares=True, instance="one")
    client.listen("two", "billing", "orders", instance="two")

    assert client.bodies("two", 1) == ["1"]
    assert client.bodies("one", 1, seconds=2) == []
