"""Every request that the admin tools of 4.7.1, 4.9.8 and 5.5.0 can send gets an answer."""

from __future__ import annotations

import logging

import pytest
from toolcodes import recorded_codes
from wirepeer import WirePeer

from reput_client.remoting import (
    Command,
    RequestCode,
    ResponseCode,
    parse_address,
    parse_body,
    sign,
)
from reput_server import LocalBroker

CODES = sorted({code for codes in recorded_codes().values() for code in codes})


def test_the_codes_of_each_release_are_recorded():
    assert list(recorded_codes()) == ["4.7.1", "4.9.8", "5.5.0"]
    assert {RequestCode.GET_BROKER_CLUSTER_ACL_INFO, 10, 34, 106, 319} <= set(CODES)


@pytest.mark.parametrize("port", ["broker", "name server"])
@pytest.mark.parametrize(
    "fields", [{}, {"topic": "orders", "group": "billing"}], ids=["no", "some"]
)
def test_each_request_is_answered_or_refused_with_a_text(
    port: str, fields: dict[str, str], caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.ERROR)
    answers: dict[int, Command] = {}

    with LocalBroker() as broker:
        address = parse_address(broker.address if port == "broker" else broker.name_server)
        for code in CODES:
            with WirePeer(address) as peer:
                answers[code] = peer.ask(code, more=fields)

    silent = [code for code, each in answers.items() if each.code and not each.remark]
    assert silent == []
    unknown = {code for code, each in answers.items() if each.code == 3}
    assert all(str(code) in str(answers[code].remark) for code in unknown)
    # No handler has ended in an error that nobody foresaw.
    assert [each.getMessage() for each in caplog.records] == []


@pytest.mark.parametrize("keys", [{}, {"key": "secret"}], ids=["open", "keys"])
def test_the_version_of_access_keys_is_the_time_of_the_start(keys: dict[str, str]):

    with LocalBroker(access_keys=keys) as broker, WirePeer(parse_address(broker.address)) as peer:
        asked = Command.request(RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        sent = sign(asked, "key", "secret") if keys else asked
        answer = peer.answer_to(peer.send(sent))

        assert answer.code == ResponseCode.SUCCESS, answer.remark
        assert answer.fields["brokerAddr"] == broker.address
    version = parse_body(answer.fields["version"].encode(), "version")
    files = parse_body(answer.fields["allAclFileVersion"].encode(), "files")
    assert version["counter"] == 0
    assert version["timestamp"] > 1_600_000_000_000
    assert files == ({"access-keys": version} if keys else {})
