"""What stock clients tell about their messages, read back by our decoder of traces."""

from __future__ import annotations

from typing import Any

import pytest
from stock import Program, have_topic

from reput_arrow.tables.messagetrace import TRACE_TOPIC, records_of
from reput_server import LocalBroker


def traces(client: Program, broker: LocalBroker, kinds: set[str]) -> dict[str, dict[str, Any]]:
    """The last record of each kind, once there is one of each; clients send them a bit later."""
    found: dict[str, dict[str, Any]] = {}
    for _ in range(100):
        for message in broker.messages(TRACE_TOPIC):
            found.update((record["kind"], record) for record in records_of(message.body))
        if kinds <= set(found):
            break
        client.taken("one", 1_000, seconds=0.2)
    assert set(found) >= kinds
    return found


@pytest.mark.scenario("Message trace", "java go")
def test_traces_say_who_sent_and_who_took(client: Program, broker: LocalBroker):
    have_topic(broker, TRACE_TOPIC)
    client.producer(trace=True, instance="sends")
    client.listen("one", "billing", "orders", trace=True, instance="takes")
    (sent,) = client.send([{"topic": "orders", "body": "12345", "tags": "a", "keys": "k1"}])
    client.taken("one", 1)

    found = traces(client, broker, {"Pub", "SubBefore", "SubAfter"})

    pub = found["Pub"]
    assert (pub["group"], pub["topic"], pub["msg_id"]) == ("shop", "orders", sent["msg_id"])
    assert (pub["tags"], pub["keys"], pub["body_size"]) == ("a", "k1", 5)
    assert pub["is_success"]
    assert pub["store_host"] == broker.address
    assert found["SubBefore"]["group"] == "billing"
    assert found["SubBefore"]["msg_id"] == found["SubAfter"]["msg_id"] == sent["msg_id"]
    assert found["SubAfter"]["is_success"]


@pytest.mark.scenario("Message trace of transactions", "java-5.3.3")
def test_traces_say_how_a_transaction_ended(client: Program, broker: LocalBroker):
    client.listen("one", "billing", "orders")
    client.producer(trace=True, transaction=True, instance="sends")
    client.send([{"topic": "orders", "body": "commit 1"}], "transaction")

    found = traces(client, broker, {"Pub", "EndTransaction"})

    assert found["Pub"]["message_type"] == "half"
    assert found["EndTransaction"]["transaction_state"] == "COMMIT_MESSAGE"
    assert found["EndTransaction"]["from_check"] is False
