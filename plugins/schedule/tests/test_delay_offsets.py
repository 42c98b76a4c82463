"""``delayOffset.json``: what RocketMQ wrote is read, and what we write is what it writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import CorruptFileError, ReputError
from reput_schedule.delaylevels.offsetsfile import DelayOffsets, decode_offsets, encode_offsets

RELEASE_4_8 = b'{\n\t"offsetTable":{1:10,2:0\n\t}\n}'
RELEASE_5 = (
    b'{\n\t"dataVersion":{\n\t\t"counter":2,\n\t\t"stateVersion":0,\n\t\t'
    b'"timestamp":1700000000000\n\t},\n\t"offsetTable":{1:10,2:0,3:7\n\t}\n}'
)


def test_the_file_of_every_release_is_read():
    assert decode_offsets(RELEASE_4_8, "f") == DelayOffsets({1: 10, 2: 0})
    assert decode_offsets(RELEASE_5, "f") == DelayOffsets({1: 10, 2: 0, 3: 7}, None, 2)
    assert decode_offsets(b'{"offsetTable":{"1":4}}', "f") == DelayOffsets({1: 4})
    assert decode_offsets(b"{}", "f") == DelayOffsets()
    noted = b'{"note":"{1:2}, 3:4","offsetTable":{ 5 :6}}'
    assert decode_offsets(noted, "f") == DelayOffsets({5: 6})


def test_it_is_written_as_the_newest_release_does_it():
    state = DelayOffsets({3: 7, 1: 10, 2: 0}, None, 2)

    assert encode_offsets(state, 1_700_000_000_000) == RELEASE_5


def test_our_member_stands_behind_theirs():
    data = encode_offsets(DelayOffsets({1: 1}, 4_096, 1), 5)

    assert data.endswith(b'"offsetTable":{1:1\n\t},\n\t"reputOffset":4096\n}')


@given(
    st.dictionaries(st.integers(1, 1_024), st.integers(0, (1 << 63) - 1)),
    st.none() | st.integers(0, (1 << 63) - 1),
    st.integers(0, 1 << 40),
)
def test_what_is_written_is_read_back(offsets, delivered_to, counter):
    state = DelayOffsets(offsets, delivered_to, counter)

    assert decode_offsets(encode_offsets(state, 7), "f") == state


def test_levels_that_cannot_be_are_left_out():
    found = decode_offsets(b'{"offsetTable":{0:1,-1:2,1025:3,99999999999999:4,5:6}}', "f")

    assert found.offsets == {5: 6}


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"offsetTable":[]}',
        b'{"offsetTable":{1:-1}}',
        b'{"offsetTable":{1:1.5}}',
        b'{"offsetTable":{1:true}}',
        b'{"offsetTable":{1:9223372036854775808}}',
        b'{"reputOffset":-1}',
        b'{"reputOffset":"x"}',
        b"[" * 200_000,
        b'{"offsetTable":{1:' + b"9" * 10_000 + b"}}",
        b" " * (1 << 21),
    ],
)
def test_what_is_no_such_file_is_said(data):
    with pytest.raises(CorruptFileError, match="f, byte"):
        decode_offsets(data, "f")


@given(st.binary(max_size=200) | st.text().map(json.dumps).map(str.encode))
def test_any_bytes_are_read_or_refused(data):
    try:
        decode_offsets(data, "f")
    except ReputError:
        pass
