"""Options: what operators are told, what they may change while a broker runs, and what not."""

from __future__ import annotations

import json

import pytest
import wirescript
from hypothesis import given
from hypothesis import strategies as st
from wirepeer import message

import reput
from reput_client.remoting import (
    CreateTopic,
    RequestCode,
    ResponseCode,
    TopicRoute,
    TopicRouteOf,
    UpdateGroupOffset,
    parse_body,
)
from reput_server.javaproperties import parse_properties_text, properties_text


def told(peer, code=RequestCode.GET_BROKER_CONFIG):
    answer = peer.ask(code)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return parse_properties_text(answer.body)


def changed(peer, text):
    return peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text)


# --------------------------------------------------------------------------- properties


def test_properties_are_read_as_java_does():
    text = (
        b"# a remark\n! another\n\n  a=1\r\nb : two words \nc\t3\nlong = x\\\n   y\n"
        b"e\\=f=g\\u0041\\\\\\t\nempty\nlast=\\"
    )

    assert parse_properties_text(text) == {
        "a": "1",
        "b": "two words ",
        "c": "3",
        "long": "xy",
        "e=f": "gA\\\t",
        "empty": "",
        "last": "",
    }


@given(st.dictionaries(st.from_regex(r"\A[a-zA-Z0-9._]+\Z"), st.text().map(str.strip)))
def test_properties_come_back(settings):
    assert parse_properties_text(properties_text(settings).encode("utf-8", "replace")) == {
        name: value.encode("utf-8", "replace").decode() for name, value in settings.items()
    }


@given(st.binary(max_size=200))
def test_no_bytes_are_worse_than_refused(data):
    try:
        parse_properties_text(data)
    except ValueError:
        pass


# --------------------------------------------------------------------------- the broker


def test_a_broker_tells_its_options(serve):
    retention = {"reserved_ms": 72 * 3_600_000, "delete_when": "04", "disk_max_ratio": 0.75}
    served = serve(sections={"retention": retention, "consumer": {"broker_name": "b7"}})

    answer = served.peer().ask(RequestCode.GET_BROKER_CONFIG)

    found = parse_properties_text(answer.body)
    expected = {
        "autoCreateTopicEnable": "true",
        "brokerClusterName": "DefaultCluster",
        "brokerName": "b7",
        "brokerPermission": "6",
        "deleteWhen": "04",
        "diskMaxUsedSpaceRatio": "75",
        "fileReservedTime": "72",
        "flushDiskType": "ASYNC_FLUSH",
        "listenPort": str(served.server.address[1]),
        "mappedFileSizeCommitLog": str(1 << 20),
        "mappedFileSizeConsumeQueue": "20000",
        "storePathRootDir": str(served.store.root),
        "timerMaxDelaySec": "259200",
        "transactionTimeOut": "6000",
        "waitTimeMillsInSendQueue": "1000",
    }
    assert expected.items() <= found.items()
    assert found["messageDelayLevel"].startswith("1s 5s 10s")
    assert json.loads(answer.fields["version"])["counter"] == 0
    assert "ecret" not in answer.body.decode()


def test_options_are_changed_while_the_broker_runs(served):
    peer = served.peer()

    answer = changed(
        peer, b"autoCreateTopicEnable=false\nwaitTimeMillsInSendQueue=77\nlistenPort="
        + str(served.server.address[1]).encode(),
    )  # fmt: skip
    refused = peer.ask(RequestCode.SEND_MESSAGE_V2, message("new"), body=b"x")

    found = told(peer)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    assert refused.code == ResponseCode.TOPIC_NOT_EXIST
    assert (found["autoCreateTopicEnable"], found["waitTimeMillsInSendQueue"]) == ("false", "77")
    assert served.server.broker.context.options.limits.send_wait_ms == 77
    version = json.loads(peer.ask(RequestCode.GET_BROKER_CONFIG).fields["version"])
    assert version["counter"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"flushDiskType=SYNC_FLUSH", "cannot be changed while the broker runs"),
        (b"noSuchOption=1", "this broker has no such option"),
        (b"autoCreateTopicEnable=perhaps", "true or false expected"),
        (b"waitTimeMillsInSendQueue=0", "a positive integer expected"),
        (b"waitTimeMillsInSendQueue=99999999999999", "a positive integer expected"),
        (b"brokerPermission=9", "the sum of 4 for reading and 2 for writing expected"),
        (b"\xff=1", "utf-8"),
    ],
)
def test_what_cannot_be_changed_is_refused_with_a_word(served, text, said):
    peer = served.peer()
    before = told(peer)

    answer = changed(peer, b"autoCreateTopicEnable=false\n" + text)

    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert said in answer.remark
    assert told(peer) == before


def test_a_broker_without_permission_is_left_by_producers(served):
    peer, names = served.peer(), served.names()
    ordered = CreateTopic(
        topic="ordered", read_queue_nums=1, write_queue_nums=1, perm=6, order=True
    )
    peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ordered)
    peer.ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"x")

    def permissions():
        asked = TopicRouteOf(topic="orders")
        route = TopicRoute.decode(names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, asked).body)
        return [each.permissions for each in route.queues]

    before = permissions()
    changed(peer, b"brokerPermission=4")
    after = permissions()
    in_order = peer.ask(RequestCode.SEND_MESSAGE_V2, message("ordered"), body=b"x")
    changed(peer, b"brokerPermission=2")
    pull = wirescript.pull(max_msg_nums=1, suspend_timeout_millis=0)

    assert (before, after) == ([6], [4])
    assert in_order.code == ResponseCode.NO_PERMISSION
    assert peer.ask(RequestCode.PULL_MESSAGE, pull).code == ResponseCode.NO_PERMISSION


def test_offsets_and_delays_are_handed_out(served):
    peer = served.peer()
    served.store.put_many([reput.Message("orders", b"x")] * 3)
    served.store.wait_dispatched()
    served.store.plugin("consumer").subscription_groups.ensure("g")
    update = UpdateGroupOffset(consumer_group="g", topic="orders", queue_id=0, commit_offset=2)
    peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)

    offsets = parse_body(peer.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body, "answer")
    delays = parse_body(peer.ask(RequestCode.GET_ALL_DELAY_OFFSET).body, "answer")

    assert offsets["offsetTable"] == {"orders@g": {"0": 2}}
    assert len(delays["offsetTable"]) == 18
    assert set(delays["offsetTable"].values()) == {0}


# --------------------------------------------------------------------------- the name server


def test_a_name_server_tells_its_options_and_changes_none(served):
    names = served.names()
    found = told(names, RequestCode.GET_NAMESRV_CONFIG)

    same = names.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableAllTopicList=true")
    other = names.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"enableAllTopicList=false")
    wrong = names.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"\xff=")

    assert found["listenPort"] == str(served.server.name_server[1])
    assert same.code == ResponseCode.SUCCESS
    assert other.code == wrong.code == ResponseCode.INVALID_PARAMETER
    assert "start reput serve with other options" in other.remark
