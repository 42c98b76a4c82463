"""Frames: what goes out comes in again, wherever bytes are parted; nothing else gets through."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_client.remoting import (
    FRAME_SIZE_MAX,
    Command,
    FrameError,
    FrameReader,
    HeaderKind,
    Language,
    encode_frame,
)

TEXTS = st.text(max_size=40)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
SHORTS = st.integers(-(1 << 15) + 1, (1 << 15) - 1)
COMMANDS = st.builds(
    Command,
    code=SHORTS,
    fields=st.dictionaries(TEXTS, TEXTS, max_size=5),
    body=st.binary(max_size=100),
    opaque=INTS,
    flag=INTS,
    remark=st.none() | st.text(min_size=1, max_size=20),
    language=st.sampled_from(Language),
    version=SHORTS,
)
# A request and its answer as a client and a server of 4.8 write them.
REQUEST = (
    b'{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":0,'
    b'"serializeTypeCurrentRPC":"JSON","version":373}'
)
ANSWER = (
    b'{"code":0,"flag":1,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON",'
    b'"version":373}'
)


def framed(header, body=b"", kind=0):
    length = 4 + len(header) + len(body)
    return struct.pack(">iI", length, kind << 24 | len(header)) + header + body


def read_all(reader, data):
    reader.feed(data)
    commands = []
    while (command := reader.next_command()) is not None:
        commands.append(command)
    return commands


@given(st.lists(COMMANDS, max_size=4), st.sampled_from(HeaderKind), st.data())
def test_commands_come_out_of_a_connection_as_they_went_in(commands, kind, data):
    stream = b"".join(encode_frame(each, kind) for each in commands)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader, found = FrameReader(), []

    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += read_all(reader, stream[start:end])

    assert found == commands
    assert reader.held_size == 0


def test_a_request_of_a_java_client_is_read():
    (command,) = read_all(FrameReader(), framed(REQUEST))

    assert command == Command(
        105, {"topic": "TopicTest"}, opaque=0, language=Language.JAVA, version=373
    )
    assert not command.is_response
    assert not command.is_one_way


def test_an_answer_is_written_as_java_writes_it():
    command = Command(105, opaque=0, language=Language.JAVA, version=373)

    answer = command.answer(0)

    assert answer.is_response
    frame = encode_frame(Command(0, flag=1, language=Language.JAVA, version=373))
    assert frame == framed(ANSWER)


def test_the_binary_header_is_the_one_of_the_specification():
    command = Command(105, {"topic": "T"}, b"x", 7, 2, "why", Language.PYTHON, 373)

    frame = encode_frame(command, HeaderKind.BINARY)

    field = struct.pack(">h5si1s", 5, b"topic", 1, b"T")
    header = struct.pack(">hBhiii3si", 105, 3, 373, 7, 2, 3, b"why", len(field)) + field
    assert frame == framed(header, b"x", kind=1)


def test_numbers_and_booleans_in_fields_are_taken_as_texts():
    """C++ and npm send them without quotes."""
    fields = {"queueId": 3, "unitMode": False, "a": None, "b": 1.5, "c": {"d": [1]}}
    header = {"code": 11, "extFields": fields}

    (command,) = read_all(FrameReader(), framed(json.dumps(header).encode()))

    assert command.fields == {"queueId": "3", "unitMode": "false", "b": "1.5", "c": '{"d":[1]}'}
    assert command.language is Language.JAVA


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b'{"code":"34","flag":"","opaque":"1,000","version":true,"language":1}', (34, 0, 1000, 1)),
        (b"{code:34.7,'flag':0.0,opaque:+7,version:5L,language:'cpp',}", (34, 0, 7, 5)),
        (
            b'{"code":34.0,"flag":null,"opaque":"7","version":10.9,"language":"CPP"}',
            (34, 0, 7, 10),
        ),
    ],
)
def test_members_of_a_header_may_have_other_types(header, expected):
    (command,) = read_all(FrameReader(), framed(header))

    assert (command.code, command.flag, command.opaque, command.version) == expected
    assert command.language is Language.CPP


def test_members_that_are_null_or_unknown_do_not_matter():
    header = b'{"code":1,"remark":null,"extFields":null,"new":{},"flag":3}'

    (command,) = read_all(FrameReader(), framed(header))

    assert (command.remark, command.fields) == (None, {})
    assert command.is_response
    assert command.is_one_way


def test_half_of_a_surrogate_pair_becomes_a_question_mark():
    header = b'{"code":1,"extFields":{"a":"\\ud800","b":"\\u00e9"}}'

    (command,) = read_all(FrameReader(), framed(header))

    assert command.fields == {"a": "?", "b": "é"}


@pytest.mark.parametrize("length", [-1, 0, 3, FRAME_SIZE_MAX - 3, (1 << 31) - 1])
def test_a_length_is_refused_before_its_bytes_are_waited_for(length):
    reader = FrameReader()
    reader.feed(struct.pack(">i", length))

    with pytest.raises(FrameError, match=rf"byte 0: found a length of {length}"):
        reader.next_command()

    assert reader.held_size == 0
    with pytest.raises(FrameError):
        reader.next_command()


def test_the_longest_frame_is_read_and_a_longer_one_not_written():
    start = len(encode_frame(Command(0)))
    body = bytes(FRAME_SIZE_MAX - start)

    (command,) = read_all(FrameReader(), encode_frame(Command(0, body=body)))

    assert len(command.body) == len(body)
    with pytest.raises(FrameError, match="16777216 or fewer"):
        encode_frame(Command(0, body=body + b"x"))


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (framed(b"{}"), "code = None"),
        (framed(b"[1]"), "a header that is list"),
        (framed(b"{"), "not JSON"),
        (framed(b"[" * 100_000), "not JSON"),
        (framed(b'{"code":"1 "}'), "code = 1 "),
        (framed(b'{"code":[1]}'), "code = [1]"),
        (framed(b'{"code":1,"version":"new"}'), "version = new"),
        (framed(b'{"code":2147483648}'), "code = 2147483648"),
        (framed(b'{"code":' + b"9" * 5_000 + b"}"), "not JSON"),
        (framed(b'{"code":1,"extFields":[]}'), "extFields as list"),
        (framed(b"", kind=2), "header kind 2"),
        (framed(b"x" * 20, kind=1), "a header of 20 bytes"),
        (struct.pack(">iI", 10, 7) + b"x" * 6, "a header of 7 bytes"),
        (framed(struct.pack(">hBhiiii", 1, 0, 0, 0, 0, 9, 0), kind=1), "remark of 9 bytes"),
        (framed(struct.pack(">hBhiiii", 1, 0, 0, 0, 0, -1, 0), kind=1), "remark of -1 bytes"),
        (framed(struct.pack(">hBhiiii", 1, 0, 0, 0, 0, 0, 9), kind=1), "fields up to byte 30"),
        (framed(struct.pack(">hBhiiiih", 1, 0, 0, 0, 0, 0, 2, 5), kind=1), "a name of 5 bytes"),
        (framed(struct.pack(">hBhiiiih", 1, 0, 0, 0, 0, 0, 2, 0), kind=1), "the value of ''"),
    ],
)
def test_what_is_no_frame_is_named(frame, said):
    reader = FrameReader()
    reader.feed(frame)

    with pytest.raises(FrameError) as caught:
        reader.next_command()

    assert said in str(caught.value)
    assert "close the connection" in str(caught.value)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_commands_or_a_frame_error(data, is_framed):
    try:
        commands = read_all(FrameReader(), framed(data, b"", len(data) % 3) if is_framed else data)
    except FrameError:
        return
    assert all(isinstance(each, Command) for each in commands)


@given(COMMANDS, st.sampled_from(HeaderKind), st.data())
def test_a_changed_byte_gives_a_command_or_a_frame_error(command, kind, data):
    frame = bytearray(encode_frame(command, kind))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))

    try:
        commands = read_all(FrameReader(), bytes(frame))
    except FrameError:
        return
    for each in commands:  # what was read can be passed on
        assert read_all(FrameReader(), encode_frame(each)) == [each]


def test_a_code_of_more_than_16_bits_needs_json():
    with pytest.raises(FrameError, match="a JSON header"):
        encode_frame(Command(200_050), HeaderKind.BINARY)
