"""Bodies: RocketMQ's JSON, batches of messages, registrations, locks."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_client.remoting import (
    BatchEntry,
    BodyError,
    BrokerData,
    ClusterInfo,
    ConsumerData,
    Heartbeat,
    QueueData,
    QueueLocks,
    QueueName,
    Registration,
    Subscription,
    TopicRoute,
    TopicSettings,
    decode_batch,
    decode_locked,
    encode_batch,
    encode_locked,
    parse_body,
    write_body,
)

QUEUES = st.builds(QueueName, st.text(max_size=9), st.text(max_size=9), st.integers(0, 99))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=9), inner, max_size=3)
        | st.dictionaries(QUEUES, inner, max_size=3)
        | st.dictionaries(st.integers(-(1 << 63), 1 << 63), inner, max_size=3)
    ),
    max_leaves=10,
)
ROUTE = TopicRoute(
    queues=(QueueData(broker="broker-a", read_queues=4, write_queues=4, permissions=6),),
    brokers=(BrokerData(cluster="C", broker="broker-a", addresses={0: "a:1", 1: "b:1"}),),
)


def as_read(value):
    """Keys that were integers are texts when they are read."""
    if isinstance(value, dict):
        return {
            str(key) if isinstance(key, int) else key: as_read(each) for key, each in value.items()
        }
    return list(map(as_read, value)) if isinstance(value, list) else value


@given(VALUES)
def test_a_body_is_read_as_it_was_written(value):
    assert parse_body(write_body(value), "value") == as_read(value)


def test_keys_are_bare_integers_and_objects_as_java_writes_them():
    queue = QueueName("T", "broker-a", 0)

    found = write_body({"offsetTable": {queue: {"maxOffset": 5}}, "T@G": {0: 12, 1: 9}})

    assert found == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:{"maxOffset":5}},'
        b'"T@G":{0:12,1:9}}'
    )
    assert parse_body(b' {0 : 1 , "1":2,} ', "offsets") == {"0": 1, "1": 2}
    assert parse_body(b"{1:2 3:4}", "offsets") == {"1": 2, "3": 4}  # as MapDeserializer reads it
    assert write_body({0: 1}, is_strict=True) == b'{"0":1}'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "position 1"),
        (b"{1}", "position 2: ':' expected"),
        (b"{1:2}}", "position 5: more text behind the value"),
        (b"{1:" + b"[" * 100, "more than 64 levels"),
        (b"{{1:2}:3}", "position 1: a queue with topic, brokerName and queueId expected"),
        (b"{1:" + b"9" * 5_000 + b"}", "offsets"),
        (b"{a:2 b:4}", "position 5: ',' or '}' expected"),
        (b"{'a:1}", "position 1: a text without its end"),
        (rb'{a:"\q"}', "position 3: an escape that is not valid"),
        (b"{a:b}", "position 3: a value expected"),
        (b"{a:1 /* b }", "position 11"),
        (b"\xff", "position 0"),
    ],
)
def test_what_is_no_body_is_named(body, said):
    with pytest.raises(BodyError) as caught:
        parse_body(body, "offsets")

    assert said in str(caught.value)


@given(st.binary(max_size=100) | st.text("{}[]:,\"0123 \\tnu'", max_size=60).map(str.encode))
def test_any_bytes_are_a_value_or_a_body_error(body):
    for read in (
        lambda: parse_body(body, "any"),
        lambda: Heartbeat.decode(body),
        lambda: TopicRoute.decode(body),
        lambda: ClusterInfo.decode(body),
        lambda: Registration.decode(body),
        lambda: Registration.decode(zlib.compress(body), is_packed=True),
        lambda: Registration.decode(body, is_packed=True),
        lambda: QueueLocks.decode(body),
        lambda: decode_locked(body),
        lambda: decode_batch(body),
    ):
        with contextlib.suppress(BodyError):  # any other error fails the test
            read()


# --------------------------------------------------------------------------- batches

ENTRIES = st.lists(
    st.builds(BatchEntry, st.binary(max_size=30), st.binary(max_size=30), st.integers(-5, 1 << 30)),
    max_size=4,
)


@given(ENTRIES)
def test_a_batch_is_read_as_it_was_written(entries):
    assert decode_batch(encode_batch(entries)) == entries


def test_a_batch_is_the_bytes_that_rocketmq_makes():
    entries = [BatchEntry(b"a", b"KEYS\x01ka\x02", 1), BatchEntry(b"bb", b"", 2)]
    of_rocketmq = bytes.fromhex(
        "0000001f000000000000000000000001000000016100084b455953016b6102"
        "000000180000000000000000000000020000000262620000"
    )

    assert encode_batch(entries) == of_rocketmq
    assert decode_batch(of_rocketmq) == entries


@given(ENTRIES.filter(bool), st.data())
def test_a_torn_or_changed_batch_is_a_batch_or_a_body_error(entries, data):
    body = bytearray(encode_batch(entries))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))
    torn = bytes(body[: data.draw(st.integers(0, len(body)))])

    for each in (bytes(body), torn):
        try:
            found = decode_batch(each)
        except BodyError:
            continue
        assert sum(22 + len(e.body) + len(e.properties) for e in found) == len(each)


def test_properties_that_no_client_may_send_are_refused():
    with pytest.raises(BodyError, match="properties of 32768 bytes"):
        encode_batch([BatchEntry(b"", bytes(32_768))])


# --------------------------------------------------------------------------- named bodies


def test_a_heartbeat_of_java_is_read():
    body = {
        "clientID": "10.0.0.5@4711",
        "producerDataSet": [{"groupName": "PG"}],
        "consumerDataSet": [
            {
                "groupName": "CG",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "BROADCASTING",
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "subscriptionDataSet": [
                    {
                        "topic": "T",
                        "subString": "a || b",
                        "tagsSet": ["a", "b"],
                        "codeSet": [97, 98],
                        "subVersion": 1_700_000_000_000,
                        "expressionType": "TAG",
                        "classFilterMode": False,
                    }
                ],
                "unitMode": False,
            }
        ],
    }

    found = Heartbeat.decode(json.dumps(body).encode())

    assert found.client_id == "10.0.0.5@4711"
    assert found.producer_groups == ("PG",)
    assert found.consumers == (
        ConsumerData(
            group="CG",
            message_model="BROADCASTING",
            consume_from="CONSUME_FROM_FIRST_OFFSET",
            subscriptions=(
                Subscription(
                    topic="T",
                    expression="a || b",
                    tags=("a", "b"),
                    codes=(97, 98),
                    version=1_700_000_000_000,
                ),
            ),
        ),
    )
    assert Heartbeat.decode(found.encode()) == found


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"b":[true,null],"c":"x","d":1.5}',
        b"{a:1,'b':[true,null],\"c\":'x',d:1.5}",
        b'\xef\xbb\xbf/* one */ {,a: 1L,, b:[,true,undefined,], // two\n c:"\\x78", d:+1.5,}',
        b'{"a":01,"b":[true,NaN],"c":"x","d":15e-1}',
    ],
)
def test_a_body_may_be_written_with_less_care(body):
    assert parse_body(body, "any") == {"a": 1, "b": [True, None], "c": "x", "d": 1.5}


def test_names_of_members_may_differ_in_case_and_hyphens():
    body = b'{"client_id":"c","PRODUCERDATASET":[{"group-name":"p"}],"withoutSub":"true"}'

    assert Heartbeat.decode(body) == Heartbeat(client_id="c", producer_groups=("p",), is_short=True)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "the member 'clientID' is missing; a text expected"),
        (b'{"clientID":"c","producerDataSet":{}}', "producerDataSet is '{}'; a list expected"),
        (b'{"clientID":"c","consumerDataSet":[1]}', "an object expected"),
        (b"[]", "an object expected, list found"),
        (
            (
                b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":'
                b'[{"topic":"T","codeSet":["9x"]}]}]}'
            ),
            "a list of integers of 32 bits expected",
        ),
    ],
)
def test_a_heartbeat_with_a_wrong_member_is_named(body, said):
    with pytest.raises(BodyError) as caught:
        Heartbeat.decode(body)

    assert said in str(caught.value)


def test_a_route_has_bare_keys_for_go_and_quoted_ones_for_who_asks():
    assert b'"brokerAddrs":{0:"a:1",1:"b:1"}' in ROUTE.encode()
    assert json.loads(ROUTE.encode(is_strict=True))["brokerDatas"][0]["brokerAddrs"]["1"] == "b:1"
    assert TopicRoute.decode(ROUTE.encode()) == ROUTE
    assert TopicRoute.decode(ROUTE.encode(is_strict=True)) == ROUTE


def test_cluster_info_is_read_as_it_was_written():
    info = ClusterInfo(brokers={"broker-a": ROUTE.brokers[0]}, clusters={"C": ("broker-a",)})

    assert ClusterInfo.decode(info.encode()) == info


def test_a_registration_is_read_as_json_and_packed():
    topics = {
        "T": TopicSettings(topic="T", read_queues=8, write_queues=4, permissions=6),
        "C": TopicSettings(topic="C", attributes={"cleanup.policy": "COMPACTION"}),
    }
    sized = lambda data: struct.pack(">i", len(data)) + data  # noqa: E731
    packed = zlib.compress(
        sized(b'{"counter":3,"timestamp":7}')
        + struct.pack(">i", 2)
        + sized(b"T 8 4 6 SINGLE_TAG")
        + sized(b'C 16 16 6 SINGLE_TAG {"cleanup.policy":"COMPACTION"}')
        + sized(b"[]")
    )
    registration = Registration(topics=topics, version={"counter": 3, "timestamp": 7})

    assert Registration.decode(registration.encode()) == registration
    assert Registration.decode(packed, is_packed=True) == registration


@pytest.mark.costly
def test_a_packed_registration_that_would_unpack_to_too_much_is_refused():
    bomb = zlib.compress(bytes(65 << 20))

    with pytest.raises(BodyError, match="unpacks to more than"):
        Registration.decode(bomb, is_packed=True)


def test_locks_are_read_as_they_were_written():
    queues = frozenset({QueueName("T", "broker-a", 0), QueueName("T", "broker-a", 1)})
    locks = QueueLocks(group="g", client_id="c", queues=queues)

    assert QueueLocks.decode(locks.encode()) == locks
    assert decode_locked(encode_locked(queues)) == queues
    assert decode_locked(encode_locked([])) == frozenset()
