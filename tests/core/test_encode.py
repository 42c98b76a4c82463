from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from reput.errors import MessageIllegalError, MessageTooLargeError, PropertiesSizeError
from reput.record.encoding.encoder import Encoder, check_topic
from reput.record.messageids import offset_message_id, pack_host, parse_message_id
from reput.record.messages.message import Message, encode_property_text
from reput.record.messageview import MessageView


def _vectors():
    spec = importlib.util.spec_from_file_location("vectors", Path(__file__).with_name("vectors.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules["vectors"] = module
    spec.loader.exec_module(module)
    return module


v = _vectors()
HOST = pack_host("127.0.0.1", 10_911)


def test_a_v1_record_is_the_one_that_rocketmq_writes():
    assert Encoder(HOST).encode(v.message(), 5, 1 << 30, v.STORED) == v.V1


def test_a_topic_of_more_than_127_characters_makes_a_v2_record():
    assert Encoder(HOST).encode(v.message(topic=v.V2_TOPIC), 5, 0, v.STORED) == v.V2


def test_ipv6_hosts_move_what_follows_them():
    encoder = Encoder(pack_host("fe80::1", 10_911))
    message = v.message(topic="T6", body=b"", properties=None, born_host=("2001:db8::1", 50_000))

    assert encoder.encode(message, 5, 0, v.STORED) == v.V6


def test_the_whole_record_checksum_is_rocketmqs():
    encoder = Encoder(HOST, record_crc=True)

    assert encoder.encode(v.message(), 5, 1 << 30, v.STORED) == v.WITH_CRC


def test_a_checksum_of_an_earlier_record_is_replaced():
    encoder = Encoder(HOST, record_crc=True)
    stale = v.PROPERTIES.encode() + b"__CRC32#\x019999999999\x02"

    assert encoder.encode(v.message(properties=stale), 5, 1 << 30, v.STORED) == v.WITH_CRC


def test_properties_of_keys_and_tags_come_first_and_nulls_are_left_out():
    message = Message(
        "T", keys=["k1", "k2"], tags="TagA", properties={"a": "1", "gone": None, "empty": ""}
    )

    text = encode_property_text(message)

    assert text == b"KEYS\x01k1 k2\x02TAGS\x01TagA\x02a\x011\x02empty\x01\x02"


@pytest.mark.parametrize(
    "changes",
    [
        {"properties": {"na\x01me": "v"}},
        {"properties": {"na\x02me": "v"}},
        {"properties": {"name": "v\x02w"}},
        {"properties": {"": "v"}},
        {"properties": {7: "v"}},
        {"properties": {"name": "\ud800"}},
        {"properties": b"a\x01b\x02", "tags": "T"},
        {"keys": ["a b"]},
        {"tags": "a\x02b"},
        {"body": "text"},
        {"body": None},
        {"queue_id": -1},
        {"queue_id": 1 << 31},
        {"queue_id": "1"},
        {"flag": 1 << 31},
        {"sys_flag": 1 << 40},
        {"born_timestamp": 1 << 63},
        {"reconsume_times": -(1 << 31) - 1},
        {"prepared_transaction_offset": 1 << 63},
        {"born_host": ("no address", 1)},
        {"born_host": ("127.0.0.1", 70_000)},
    ],
)
def test_what_a_record_cannot_hold_is_refused_by_name(changes):
    fields = {"topic": "T", "body": b"b", **changes}

    with pytest.raises(MessageIllegalError) as caught:
        Encoder(HOST).encode(Message(**fields), 0, 0, 0)

    assert caught.value.status.name == "MESSAGE_ILLEGAL"
    assert caught.value.field in {*changes, "host", "port", "properties"}


@pytest.mark.parametrize(
    "topic",
    [
        "",
        ".",
        "..",
        "a.b",
        "a/b",
        "../up",
        "a\\b",
        "a\0b",
        "主题",
        " ",
        "a" * 128,
        "%DLQ%" + "g" * 251,
        None,
    ],
)
def test_a_name_that_rocketmq_would_not_take_is_no_topic(topic):
    with pytest.raises(MessageIllegalError):
        check_topic(topic)


@pytest.mark.parametrize(
    "topic",
    ["TopicTest", "%RETRY%g", "a|b-c_1", "a" * 127, "%RETRY%" + "g" * 248, "%DLQ%" + "g" * 250],
)
def test_names_that_rocketmq_takes_are_topics(topic):
    check_topic(topic)


def test_limits_are_exact_and_name_field_limit_and_value():
    encoder = Encoder(HOST, max_message_size=100)
    encoder.prepare(Message("T", b"x" * 100))
    encoder.prepare(Message("T", properties=b"p" * 32_767))

    with pytest.raises(MessageTooLargeError) as too_large:
        encoder.prepare(Message("T", b"x" * 101))
    with pytest.raises(PropertiesSizeError) as too_many:
        encoder.prepare(Message("T", properties=b"p" * 32_768))

    assert (too_large.value.field, too_large.value.value, too_large.value.limit) == (
        "body",
        101,
        100,
    )
    assert (too_many.value.value, too_many.value.limit) == (32_768, 32_767)
    assert too_many.value.status.name == "PROPERTIES_SIZE_EXCEEDED"


def test_the_checksum_takes_its_room_from_the_properties():
    encoder = Encoder(HOST, record_crc=True)
    encoder.prepare(Message("T", properties=b"p" * 32_746))

    with pytest.raises(PropertiesSizeError):
        encoder.prepare(Message("T", properties=b"p" * 32_748))


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("127.0.0.1", "7F00000100002A9F0000000040000000"),
        ("fe80::1", "FE80000000000000000000000000000100002A9F0000000040000000"),
    ],
)
def test_offset_message_ids_are_rocketmqs_and_read_back(address, text):
    host = pack_host(address, 10_911)

    assert offset_message_id(host, 1 << 30) == text
    assert parse_message_id(text) == (host, 1 << 30)


@pytest.mark.parametrize("text", ["", "7F", "zz" * 16, "7F00000100002A9F00000000400000", "7F" * 20])
def test_what_is_no_message_id_is_refused(text):
    with pytest.raises(ValueError, match="not an offset message id"):
        parse_message_id(text)


def test_a_view_shows_every_field_of_a_record():
    view = MessageView(v.V1)

    assert (view.topic, view.queue_id, view.queue_offset, view.physical_offset) == (
        "TopicTest",
        3,
        5,
        1 << 30,
    )
    assert (view.body, view.flag, view.reconsume_times) == (b"hello world", 7, 1)
    assert (view.born_timestamp, view.store_timestamp) == (v.BORN, v.STORED)
    assert (view.born_host, view.store_host) == (("127.0.0.1", 50_000), ("127.0.0.1", 10_911))
    assert (view.tags, view.keys, view.tags_code) == ("TagA", ("k1", "k2"), 2598919)
    assert view.unique_key == "7F00000100002A139A1857C5D7A10000"
    assert view.msg_id == "7F00000100002A9F0000000040000000"
    assert view.body_matches()
    assert view.compression is None


def test_a_view_of_an_ipv6_record_finds_what_the_hosts_moved():
    view = MessageView(v.V6)

    assert (view.born_host, view.store_host) == (("2001:db8::1", 50_000), ("fe80::1", 10_911))
    assert (view.topic, view.body, view.properties) == ("T6", b"", {})
    assert view.msg_id == "FE80000000000000000000000000000100002A9F0000000000000000"


@pytest.mark.parametrize("record", [v.V1, v.V2, v.V6])
def test_a_message_made_from_a_view_encodes_to_the_same_bytes(record):
    view = MessageView(record)
    encoder = Encoder(pack_host(*view.store_host))

    again = encoder.encode(
        view.to_message(), view.queue_offset, view.physical_offset, view.store_timestamp
    )

    assert again == record
