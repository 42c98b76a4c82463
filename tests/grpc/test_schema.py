"""The reader of ``messages.proto``, and what it makes."""

from __future__ import annotations

import pytest

from reput_server.grpc.calls.send import consistent_hash
from reput_server.grpc.messagetypes import m, milliseconds_of, set_milliseconds
from reput_server.grpc.protoschema import classes_of

HEAD = 'syntax = "proto3"; package a.b;\n'


def test_a_message_is_written_by_the_public_numbers_of_its_fields():
    message = m.Message(topic=m.Resource(name="T"), body=b"x")
    message.user_properties["k"] = "v"
    message.system_properties.queue_offset = 5

    data = message.SerializeToString()

    # topic=1 {name=2 "T"}, user_properties=2 {1 "k", 2 "v"}, system_properties=3 {14: 5}, body=4
    assert data == b"\n\x03\x12\x01T\x12\x06\n\x01k\x12\x01v\x1a\x02p\x05\x22\x01x"
    assert m.Message.FromString(data) == message


def test_optional_fields_and_groups_of_one_are_told_apart():
    made = classes_of(
        HEAD + "message A { optional string s = 1; oneof o { int32 x = 2; string y = 3; } }"
    )["A"]

    assert not made().HasField("s")
    assert made(s="").HasField("s")
    assert made(x=1).WhichOneof("o") == "x"
    assert made.FromString(made(y="z").SerializeToString()).WhichOneof("o") == "y"


def test_two_readings_do_not_collide():
    one, other = (classes_of(HEAD + "message A { string s = 1; }")["A"] for _ in range(2))
    assert one is not other


@pytest.mark.parametrize(
    "text", ["", "message A { }", HEAD + "enum A { }", HEAD + "message A { string s 1; }"]
)
def test_a_file_of_another_form_is_an_error(text):
    with pytest.raises(ValueError, match="expected"):
        classes_of(text)


@pytest.mark.parametrize("milliseconds", [0, 1, 999, 1_000, 1_700_000_000_123])
def test_times_go_there_and_back(milliseconds):
    value = m.Timestamp()
    set_milliseconds(value, milliseconds)
    assert milliseconds_of(value) == milliseconds


def test_queues_of_message_groups_are_those_of_guava():
    # What Guava's own tests name: Hashing.consistentHash(10863919174838991, 11) and others.
    assert consistent_hash(10_863_919_174_838_991, 11) == 6
    assert consistent_hash(1_673_758_223_894_951_030, 11) == 5
    assert consistent_hash(2, 100_001) == 80_343
    assert consistent_hash(2_201, 100_001) == 22_152
    assert consistent_hash(2_202, 100_001) == 15_018
    assert {consistent_hash(-number, 1) for number in range(100)} == {0}
