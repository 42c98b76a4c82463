"""Members in the types that other clients write: the server reads what a broker 5.3.3 reads.

The table of that broker is recorded; `tests/interop/test_peer_bodies.py` records it again.
"""

from __future__ import annotations

import json
import logging

import pytest
from peerbodies import Servers, differing, read_recorded, table, unexpected
from wirepeer import WirePeer

from reput_client.remoting import RequestCode, ResponseCode, parse_address, parse_body
from reput_server import LocalBroker

SOME = frozenset(
    {
        *("(missing)", "null", "true", "1", "2", "1.5", "[]", "{}", "[1]"),
        *('""', '"1"', '"true"', '"null"', '"Y"', '"abc"', '"+1"', '"1,000"'),
        *('"BROADCASTING"', '"consume_passively"', "34.0", '"CPP"'),
    }
)
CPP_HEARTBEAT = {
    "clientID": "10.0.0.1@7@cpp",
    "consumerDataSet": [
        {
            "consumeFromWhere": 0,
            "consumeType": 1,
            "groupName": "billing",
            "messageModel": 1,
            "subscriptionDataSet": [
                {
                    "codeSet": ["97"],
                    "subString": "a",
                    "subVersion": "1700000000000",
                    "tagsSet": ["a"],
                    "topic": "orders",
                }
            ],
        }
    ],
    "producerDataSet": [{"groupName": "shop"}],
}


def servers_of(broker: LocalBroker) -> Servers:
    return Servers(parse_address(broker.address), parse_address(broker.name_server))


def peer_of(broker: LocalBroker) -> WirePeer:
    return WirePeer(parse_address(broker.address))


@pytest.mark.proof
@pytest.mark.costly
def test_members_are_read_as_a_real_broker_reads_them(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.CRITICAL)

    with LocalBroker() as broker:
        ours = table(servers_of(broker), SOME)

    assert sum(map(len, ours.values())) > 1_000
    assert list(unexpected(differing(read_recorded(), ours))) == []


def test_a_heartbeat_of_a_client_in_cpp_makes_a_member():
    with LocalBroker() as broker, peer_of(broker) as peer:
        answer = peer.ask(RequestCode.HEART_BEAT, body=json.dumps(CPP_HEARTBEAT).encode())

        assert answer.code == ResponseCode.SUCCESS, answer.remark
        fields = {"consumerGroup": "billing"}
        asked = peer.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, more=fields)
        found = parse_body(asked.body, "connections")

    assert found["messageModel"] == "CLUSTERING"
    assert found["consumeType"] == "CONSUME_PASSIVELY"
    assert found["consumeFromWhere"] == "CONSUME_FROM_LAST_OFFSET"
    assert found["subscriptionTable"]["orders"]["subVersion"] == 1_700_000_000_000
    assert found["subscriptionTable"]["orders"]["codeSet"] == [97]


def test_a_refused_heartbeat_is_reported_once_for_each_client(caplog: pytest.LogCaptureFixture):
    refused = json.dumps({**CPP_HEARTBEAT, "consumerDataSet": [{"groupName": "a/b"}]}).encode()

    with LocalBroker() as broker:
        for _ in range(2):
            with peer_of(broker) as peer:
                codes = [peer.ask(RequestCode.HEART_BEAT, body=refused).code for _ in range(3)]
                assert 0 not in codes

    reported = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert len(reported) == 2
    assert all("heartbeat refused" in each and "a/b" in each for each in reported)


def test_a_refused_registration_is_reported(caplog: pytest.LogCaptureFixture):
    fields = {"brokerName": "b", "brokerAddr": "h:1", "clusterName": "c", "brokerId": "0"}

    with LocalBroker() as broker, WirePeer(parse_address(broker.name_server)) as peer:
        answer = peer.ask(RequestCode.REGISTER_BROKER, more=fields, body=b"[]")

    assert answer.code != ResponseCode.SUCCESS
    assert ["registration refused" in each.getMessage() for each in caplog.records] == [True]


def test_a_topic_with_an_unknown_kind_of_tags_is_refused():
    fields = {
        "topic": "odd",
        "defaultTopic": "TBW102",
        "readQueueNums": "1",
        "writeQueueNums": "1",
        "perm": "6",
        "topicFilterType": "NONE_SUCH",
    }

    with LocalBroker() as broker, peer_of(broker) as peer:
        answer = peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, more=fields)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "SINGLE_TAG, MULTI_TAG" in str(answer.remark)
