"""What an answer to a fetch holds: whole messages, or an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import CorruptFileError
from reput.record import Encoder, Message
from reput_client.consumer.pendingpulls import messages_in
from reput_client.remoting import BatchEntry, encode_batch

_RECORDS = [
    Encoder().encode(Message("orders", b"body %d" % number, tags="t"), number, 100 * number, 1)
    for number in range(3)
]
_BODY = b"".join(_RECORDS)


def test_messages_of_a_batch_are_unwrapped_from_where_the_fetch_begins() -> None:
    body = encode_batch([BatchEntry(b"%d" % at, b"TAGS\x01t\x02") for at in range(3)])
    record = Encoder().encode(Message("orders", body, sys_flag=0xC0), 7, 100, 1)

    found = messages_in(_BODY + record, "10.0.0.1:10911", 8)

    assert [(each.queue_offset, each.body) for each in found[3:]] == [(8, b"1"), (9, b"2")]
    assert [each.tags for each in found[3:]] == ["t", "t"]
    assert len(found) == 5


def test_an_answer_that_is_cut_is_an_error_that_names_the_broker_and_the_place() -> None:
    for end in range(1, len(_BODY)):
        if end % len(_RECORDS[0]) == 0:
            continue
        with pytest.raises(CorruptFileError, match=r"10\.0\.0\.1:10911, byte"):
            messages_in(_BODY[:end], "10.0.0.1:10911")


def test_a_body_that_does_not_match_its_checksum_is_an_error() -> None:
    damaged = _BODY.replace(b"body 1", b"body X")

    with pytest.raises(CorruptFileError, match=f"byte {len(_RECORDS[0])}: .*checksum"):
        messages_in(damaged, "10.0.0.1:10911")


@given(st.integers(0, len(_BODY) - 1), st.integers(1, 255))
def test_a_garbled_answer_gives_messages_or_that_error(place: int, change: int) -> None:
    garbled = bytearray(_BODY)
    garbled[place] ^= change

    try:
        found = messages_in(bytes(garbled), "10.0.0.1:10911")
    except CorruptFileError:
        return
    assert [each.body for each in found] == [b"body 0", b"body 1", b"body 2"]


@given(st.binary(max_size=300))
def test_any_bytes_give_messages_or_that_error(body: bytes) -> None:
    try:
        found = messages_in(body, "10.0.0.1:10911")
    except CorruptFileError:
        return
    assert sum(each.size for each in found) == len(body)
