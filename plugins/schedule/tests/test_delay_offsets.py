"""``delayOffset.json``: what RocketMQ wrote is read, and what we write is what it writes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_schedule.delaylevels.offsetsfile import DelayOffsets, fill_in, offsets_in
from reput_tools.brokerfiles import encode, object_of

RELEASE_4_8 = b'{\n\t"offsetTable":{1:10,2:0\n\t}\n}'
RELEASE_5 = (
    b'{\n\t"dataVersion":{\n\t\t"counter":2,\n\t\t"stateVersion":0,\n\t\t'
    b'"timestamp":1700000000000\n\t},\n\t"offsetTable":{1:10,2:0,3:7\n\t}\n}'
)


def read(data: bytes) -> DelayOffsets:
    return offsets_in(object_of(data))


def written(state: DelayOffsets, before: bytes = b"{}") -> bytes:
    document = object_of(before)
    fill_in(document, state)
    return encode(document)


def test_the_file_of_every_release_is_read():
    assert read(RELEASE_4_8) == DelayOffsets({1: 10, 2: 0})
    assert read(RELEASE_5) == DelayOffsets({1: 10, 2: 0, 3: 7}, None)
    assert read(b'{"offsetTable":{"1":4}}') == DelayOffsets({1: 4})
    assert read(b"{}") == DelayOffsets()
    noted = b'{"note":"{1:2}, 3:4","offsetTable":{ 5 :6}}'
    assert read(noted) == DelayOffsets({5: 6})


def test_it_is_written_as_the_newest_release_does_it():
    state = DelayOffsets({3: 7, 1: 10, 2: 0}, None)
    before = RELEASE_5.replace(b"1:10,2:0,3:7", b"1:9")

    assert written(state, before) == RELEASE_5


def test_our_member_stands_behind_theirs_and_goes_with_a_state_that_has_none():
    data = written(DelayOffsets({1: 1}, 4_096), RELEASE_5)

    assert data.endswith(b'"offsetTable":{1:1\n\t},\n\t"reputOffset":4096\n}')
    assert b"reputOffset" not in written(DelayOffsets({1: 1}), data)


@given(
    st.dictionaries(st.integers(1, 1_024), st.integers(0, (1 << 63) - 1)),
    st.none() | st.integers(0, (1 << 63) - 1),
)
def test_what_is_written_is_read_back(offsets, delivered_to):
    state = DelayOffsets(offsets, delivered_to)

    assert read(written(state)) == state


def test_levels_that_cannot_be_are_left_out():
    found = read(b'{"offsetTable":{0:1,-1:2,1025:3,5:6}}')

    assert found.offsets == {5: 6}


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"offsetTable":[]}',
        b'{"offsetTable":{1:-1}}',
        b'{"offsetTable":{1:null}}',
        b'{"offsetTable":{1:{}}}',
        b'{"offsetTable":{99999999999999:4}}',
        b'{"offsetTable":{1:9223372036854775808}}',
        b'{"reputOffset":-1}',
        b'{"reputOffset":"x"}',
        b"[" * 200_000,
        b'{"offsetTable":{1:' + b"9" * 10_000 + b"}}",
        b" " * (1 << 21),
    ],
)
def test_what_is_no_such_file_is_a_value_error(data):
    with pytest.raises(ValueError, match=r"."):
        read(data)


@given(st.binary(max_size=200) | st.text().map(json.dumps).map(str.encode))
def test_any_bytes_are_read_or_refused(data):
    try:
        read(data)
    except ValueError:
        pass
