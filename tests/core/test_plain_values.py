"""What a message says is stored as it is, of whatever class the texts, bytes and numbers are."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import reput
from reput.errors import MessageIllegalError
from reput.record.encoding.encoder import Encoder

pytestmark = pytest.mark.shows("values")


class Own(str):
    """A text of a program's own."""

    __slots__ = ()


class OwnBytes(bytes):
    """Bytes of a program's own."""


class OwnNumber(int):
    """A number of a program's own."""


def _of_enum(text):
    return enum.StrEnum("Texts", {"IT": text}).IT


def _of_mixed_enum(text):
    return enum.Enum("Texts", {"IT": text}, type=str).IT  # prints its name


TEXTS = {"numpy": np.str_, "enum": _of_enum, "mixed": _of_mixed_enum, "own": Own}
BYTES = {
    "numpy": np.bytes_,
    "own": OwnBytes,
    "bytearray": bytearray,
    "view": memoryview,
    "words": lambda data: memoryview(np.frombuffer(data, np.uint16)),
    "reversed": lambda data: memoryview(data[::-1])[::-1],
}
NUMBERS = {
    "bool": bool,
    "enum": lambda number: enum.IntEnum("Numbers", {"IT": number}).IT,
    "own": OwnNumber,
    "i4": np.int32,
    "u1": np.uint8,
}
PLAIN = {
    "topic": "orders",
    "tags": "paid",
    "keys": "k1 k2",
    "properties": {"region": "eu", "DELAY": None},
}
ROWS = 3
SMALL = {"commitlog": {"file_size": 1 << 16}}


def _changed(field, make):
    """Fields of a message, one of them made of another class."""
    value = PLAIN[field.partition(".")[0]]
    match field:
        case "properties.value":
            value = {"region": make("eu"), "DELAY": None}
        case "properties.name":
            value = {make("region"): "eu", make("DELAY"): None}
        case "keys.word":
            value = [make("k1"), make("k2")]
        case _:
            value = make(value)
    return {**PLAIN, field.partition(".")[0]: value}


def _spread(fields):
    return {name: [value] * ROWS for name, value in fields.items()}


def _columns_by_name(fields):
    texts = {name: value for name, value in fields["properties"].items() if value is not None}
    return {**_spread(fields), "properties": {name: [text] * ROWS for name, text in texts.items()}}


WAYS = {
    "put": lambda store, fields: [store.put(reput.Message(**fields)) for _ in range(ROWS)],
    "put_many": lambda store, fields: store.put_many([reput.Message(**fields)] * ROWS),
    # Rows that are not alike go another way.
    "mixed": lambda store, fields: store.put_many(
        [
            reput.Message(**fields),
            reput.Message("other", properties={"键": "v"}),
            reput.Message(**fields),
        ]
    ),
    "columns": lambda store, fields: store.put_many(
        reput.Columns(body=[b"b"] * ROWS, **_spread(fields))
    ),
    "column_of_each_name": lambda store, fields: store.put_many(
        reput.Columns(body=[b"b"] * ROWS, **_columns_by_name(fields))
    ),
    "one_value_for_all": lambda store, fields: store.put_many(
        reput.Columns(
            body=[b"b"] * ROWS,
            **{**fields, "keys": [fields["keys"]] * ROWS},
        )
    ),
}


def _opened(path, clock=None):
    return reput.open(path, plugins=[], config=SMALL, clock=clock, threads=False)


def _stored(tmp_path, name, put):
    """The log's bytes, and what the next put of the queue gets for a place."""
    now = 1_700_000_000_000
    with _opened(tmp_path / name, lambda: now) as store:
        put(store)
        end = store.log.max_physical_offset
        after = store.put(reput.Message("orders")).queue_offset
    data = next((tmp_path / name / "commitlog").iterdir()).read_bytes()[:end]
    return data, after


TEXT_FIELDS = ("topic", "tags", "keys", "keys.word", "properties.name", "properties.value")
NUMBER_FIELDS = ("queue_id", "flag", "sys_flag", "reconsume_times", "born_timestamp")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_of_any_class_is_stored_as_the_plain_one(tmp_path, kind, way):
    def put_with(make):
        return lambda store: [WAYS[way](store, _changed(field, make)) for field in TEXT_FIELDS]

    found = _stored(tmp_path, "other", put_with(TEXTS[kind]))

    assert found == _stored(tmp_path, "plain", put_with(str))


@pytest.mark.parametrize("kind", BYTES)
def test_bytes_of_any_class_are_stored_as_the_plain_ones(tmp_path, kind):
    def put_with(make):
        message = reput.Message("orders", make(b"four"))
        encoded = reput.Message("orders", b"", properties=make(b"name\x01of\x02"))
        rows = reput.Columns(topic="orders", body=[make(b"four")] * 2)
        return lambda store: (
            store.put(message),
            store.put(encoded),
            store.put_many([message, encoded]),
            store.put_many(rows),
        )

    found = _stored(tmp_path, "other", put_with(BYTES[kind]))

    assert found == _stored(tmp_path, "plain", put_with(bytes))


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_of_any_class_is_stored_as_the_plain_one(tmp_path, kind):
    def put_with(make):
        def put(store):
            for field in NUMBER_FIELDS:
                message = reput.Message("orders", **{field: make(1)})
                store.put(message)
                store.put(message)
                store.put_many([message] * 2)
                for column in ([make(1)] * 2, make(1)):
                    store.put_many(reput.Columns(topic="orders", body=[b""] * 2, **{field: column}))

        return put

    found = _stored(tmp_path, "other", put_with(NUMBERS[kind]))

    assert found == _stored(tmp_path, "plain", put_with(int))


def test_a_receipt_names_a_plain_queue_of_a_plain_topic(tmp_path):
    with _opened(tmp_path) as store:
        receipts = [
            store.put(reput.Message(np.str_("orders"), queue_id=np.int16(3))),
            store.put_many([reput.Message(np.str_("orders"), queue_id=np.int16(3))])[0],
        ]

    assert [type(receipt.topic) for receipt in receipts] == [str, str]
    assert [type(receipt.queue_id) for receipt in receipts] == [int, int]
    assert [receipt.queue_offset for receipt in receipts] == [0, 1]


WRONG = [
    ({"topic": 5}, "topic"),
    ({"topic": b"orders"}, "topic"),
    ({"topic": ["orders"]}, "topic"),
    ({"body": "text"}, "body"),
    ({"body": None}, "body"),
    ({"body": 5}, "body"),
    ({"queue_id": "0"}, "queue_id"),
    ({"queue_id": 1.0}, "queue_id"),
    ({"tags": 5}, "tags"),
    ({"tags": b"paid"}, "tags"),
    ({"keys": 5}, "keys"),
    ({"keys": b"key"}, "keys"),
    ({"keys": ["k", 5]}, "keys"),
    ({"properties": "a=b"}, "properties"),
    ({"properties": ["a"]}, "properties"),
    ({"properties": {"a": 5}}, "property 'a'"),
    ({"properties": {"a": b"b"}}, "property 'a'"),
    ({"properties": {5: "b"}}, "properties"),
    ({"flag": "1"}, "flag"),
    ({"sys_flag": 1.5}, "sys_flag"),
    ({"reconsume_times": "1"}, "reconsume_times"),
    ({"born_timestamp": "now"}, "born_timestamp"),
    ({"born_host": "127.0.0.1:1"}, "born_host"),
    ({"born_host": ("127.0.0.1", "1")}, "born_host"),
]


def _message(fields):
    return reput.Message(**{"topic": "orders", **fields})


def _row(fields):
    row = {"topic": "orders", "body": b"", **fields}
    return reput.Columns(**{name: [value] for name, value in row.items()})


REFUSING = {
    "put": lambda store, fields: store.put(_message(fields)),
    "put_many": lambda store, fields: store.put_many([_message(fields)]),
    "mixed": lambda store, fields: store.put_many([_message({"keys": "k"}), _message(fields)]),
    "columns": lambda store, fields: store.put_many(_row(fields)),
}


@pytest.mark.parametrize("way", REFUSING)
def test_a_value_of_a_wrong_type_is_refused_with_its_name(tmp_path, way):
    found = []
    wrong = [(fields, field) for fields, field in WRONG if way != "columns" or field != "born_host"]
    with _opened(tmp_path) as store:
        for fields, _ in wrong:
            with pytest.raises(MessageIllegalError) as caught:
                REFUSING[way](store, fields)
            found.append((fields, caught.value.field))

        assert store.log.max_physical_offset == 0

    assert found == wrong


@pytest.mark.parametrize("first", [None, "one", ["one"]])
def test_keys_may_be_an_array_in_some_rows(tmp_path, first):
    keys = [first, np.array(["a", "b"])]
    with _opened(tmp_path) as store:
        receipts = [
            *store.put_many([reput.Message("t", keys=each) for each in keys]),
            *store.put_many(reput.Columns(topic="t", body=[b""] * 2, keys=keys)),
        ]

        found = [store.get(each.physical_offset).keys for each in receipts]

    assert found == [() if first is None else ("one",), ("a", "b")] * 2


def test_messages_that_come_one_by_one_are_all_stored(tmp_path):
    with _opened(tmp_path) as store:
        receipt = store.put_many(reput.Message("t", b"%d" % number) for number in range(5))

        assert [store.get(each.physical_offset).body for each in receipt] == [
            b"0",
            b"1",
            b"2",
            b"3",
            b"4",
        ]


WAITS = [
    ({"WAIT": "false"}, False),
    ({"a": "b", "WAIT": "false"}, False),
    (b"WAIT\x01false", False),
    (b"a\x01b\x02WAIT\x01false", False),
    ({"WAIT": "true"}, True),
    ({"MUST_WAIT": "false"}, True),
    ({"MUST_NOT_WAIT": "false"}, True),
    ({"WAIT": "falsehood"}, True),
    ({"note": "WAIT\x01false"}, True),
    ({"note": "a WAIT\x01false"}, True),
    (b"note\x01WAIT\x01false", True),
    (b"WAIT\x01false\x02WAIT\x01true\x02", True),
    (b"WAIT\x01true\x02WAIT\x01false\x02", False),
    (b"\x01WAIT\x01false\x02", True),
    (b"\x02WAIT\x01false\x02", False),
    (b"WAIT\x01\x01false\x02", True),
]


@pytest.mark.shows("wait")
@pytest.mark.parametrize(("properties", "waits"), WAITS)
@pytest.mark.parametrize("way", ["put", "put_many"])
def test_only_the_property_itself_spares_the_wait_for_the_disk(
    tmp_path, monkeypatch, properties, waits, way
):
    config = {"commitlog": {"flush": "sync", "file_size": 1 << 16}}
    message = reput.Message("t", b"body", properties=properties)
    with reput.open(tmp_path, plugins=[], config=config) as store:
        asked = []
        real = store.log.wait_flushed
        monkeypatch.setattr(
            store.log, "wait_flushed", lambda *args: asked.append(args) or real(*args)
        )
        if way == "put":
            store.put(message)
        else:
            store.put_many([message, message])

    assert bool(asked) == (waits or way == "put_many")


@pytest.mark.shows("wait")
@pytest.mark.parametrize("text", [text for text, _ in WAITS])
def test_the_wait_is_decided_as_by_the_parsed_properties(text):
    encoder = Encoder()
    record = encoder.prepare(reput.Message("t", properties=text))[7]

    from reput.record.messages.message import waits_for_disk
    from reput.record.text.properties import parse_properties

    assert waits_for_disk(record) == (parse_properties(record).get("WAIT") != "false")
