"""Values that are read from plain requests: by both engines the same, of any bytes."""

from __future__ import annotations

import os
import random

import pytest
import sendlanes
import wiremutants
from hypothesis import given, settings
from hypothesis import strategies as st

from reput_client.remoting import Command, HeaderKind, RequestCode, encode_frame, plain_values

FRAMES = 1_000_000 if os.environ.get("REPUT_SOAK") else 3_000
SIZES = sendlanes.SIZES.frame_max, sendlanes.SIZES.header_max
WANTED = (
    ((310, 10), ("a", "b", "i", "more"), ("e", "g", "h")),
    ((11, 361), ("consumerGroup", "topic", "subscription"), ("queueId", "queueOffset")),
)
FIELDS = {"consumerGroup": "billing", "topic": "orders", "queueId": "1", "queueOffset": "7"}


def assert_same(data, begin=0):
    found = [plain_values(data, begin, *wanted, SIZES) for wanted in WANTED]
    reference = getattr(plain_values, "__wrapped__", plain_values)
    assert found == [reference(data, begin, *wanted, SIZES) for wanted in WANTED]
    return found


def pull(body=b"", kind=HeaderKind.JSON, **changed):
    fields = {name: text for name, text in {**FIELDS, **changed}.items() if text is not None}
    return encode_frame(Command(RequestCode.PULL_MESSAGE, fields, body, 77), kind)


@settings(max_examples=300, deadline=None)
@given(sendlanes.streams(), st.integers(0, 40), st.booleans())
def test_both_engines_read_the_same_of_any_bytes(data, begin, is_array):
    assert_same(bytearray(data) if is_array else data, begin)
    for body in (b"body", b"x" * 65_536):
        assert_same(data.replace(body, b""))


def test_both_engines_read_the_same_of_mutated_requests():
    chance, read = random.Random(11), 0
    for _ in range(FRAMES):
        changed = {
            chance.choice(list(FIELDS)): chance.choice([None, *wiremutants.NASTY, "12"])
            for _ in range(chance.randrange(3))
        }
        data = bytearray(pull(kind=chance.choice(list(HeaderKind)), **changed))
        if chance.randrange(3) == 0:
            data[chance.randrange(len(data))] = chance.randrange(256)
        read += assert_same(data)[1] is not None
    assert read > FRAMES / 5


@pytest.mark.parametrize("kind", HeaderKind)
def test_a_value_is_none_where_the_request_has_no_such_field(kind):
    data = pull(kind=kind)

    assert assert_same(data + b"rest") == [
        None,
        (len(data), 11, 77, 0, ("billing", "orders", None, 1, 7)),
    ]
    assert assert_same(b"before" + data, 6)[1][0] == 6 + len(data)
    assert assert_same(pull(queueId=None, kind=kind))[1][4][3] is None


@pytest.mark.parametrize(
    "frame",
    [
        pull(queueId="-1"),
        pull(queueId=""),
        pull(queueOffset="1" * 19),
        pull(queueOffset="\u0663"),
        pull(body=b"body"),
        pull()[:-1],
        b"",
    ],
)
def test_what_is_not_plain_is_left(frame):
    assert assert_same(frame) == [None, None]
