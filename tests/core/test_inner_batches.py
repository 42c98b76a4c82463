"""Inner batches: the messages of their records, and bodies that hold none."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reput
from reput.record import Decoder, Encoder, MessageView, pack_host, unwrapped, unwrapped_batch

ENTRIES = st.lists(
    st.tuples(
        st.integers(-(1 << 31), (1 << 31) - 1),
        st.binary(max_size=20),
        st.sampled_from([b"", b"KEYS\x01k\x02", b"a\x01b"]),
    ),
    min_size=1,
    max_size=5,
)
TOPICS = st.sampled_from(["T", "%RETRY%" + "g" * 130])


def body_of(entries):
    return b"".join(
        struct.pack(">iiiii", 22 + len(body) + len(text), 1, 2, flag, len(body))
        + body
        + struct.pack(">h", len(text))
        + text
        for flag, body, text in entries
    )


def view_of(body, topic="T", sys_flag=0xC0, host="127.0.0.1"):
    message = reput.Message(
        topic, body, 3, sys_flag=sys_flag, born_timestamp=7, born_host=(host, 50_000)
    )
    encoder = Encoder(pack_host(host, 10_911))
    return MessageView(encoder.encode(message, 5, 1_000, 9), 1_000)


@given(ENTRIES, TOPICS, st.sampled_from(["127.0.0.1", "fe80::1"]), st.booleans())
def test_each_entry_is_a_message_with_the_batchs_place_times_and_hosts(
    entries, topic, host, is_packed
):
    body = zlib.compress(body_of(entries)) if is_packed else body_of(entries)
    batch = view_of(body, topic, 0xC1 if is_packed else 0xC0, host)

    found = unwrapped(batch)

    assert [(each.flag, each.body, each.properties_text) for each in found] == entries
    assert [each.queue_offset for each in found] == list(range(5, 5 + len(entries)))
    for each in found:
        assert each.body_matches()
        assert each.sys_flag == batch.sys_flag & 0x30
        for name in ("topic", "queue_id", "physical_offset", "stated_offset", "msg_id"):
            assert getattr(each, name) == getattr(batch, name)
        for name in ("born_timestamp", "store_timestamp", "born_host", "store_host"):
            assert getattr(each, name) == getattr(batch, name)
        assert unwrapped(each) == (each,)


@given(st.binary(max_size=80) | ENTRIES.map(lambda each: body_of(each)[:-1]))
def test_a_body_that_is_not_whole_entries_stays_one_message(body):
    batch = view_of(body)

    found = unwrapped(batch)

    if found != (batch,):  # a body by chance: it is what its entries say
        assert b"".join(each.body for each in found) in body


@pytest.mark.parametrize("sys_flag", [0x40, 0, 0xC1])
def test_other_messages_and_bodies_that_cannot_be_unpacked_stay_as_they_are(sys_flag):
    message = view_of(body_of([(1, b"x", b"")]), sys_flag=sys_flag)

    assert unwrapped(message) == (message,)


def test_a_batch_of_columns_has_the_messages_in_their_places():
    plain, batch = view_of(b"p", sys_flag=0), view_of(body_of([(1, b"a", b""), (2, b"bc", b"")]))
    window = np.frombuffer(plain.record + batch.record + plain.record, np.uint8)
    stored = Decoder(check_offset=False).decode(window, 0).batch
    stored.stand_at(np.array([0, 200, 900]))

    found = unwrapped_batch(stored)

    assert [found.message(row).body for row in range(4)] == [b"p", b"a", b"bc", b"p"]
    assert found.physical_offset.tolist() == [0, 200, 200, 900]
    assert (found.start_offset, found.end_offset) == (0, stored.end_offset)
    assert unwrapped_batch(stored[:1]).record(0) == plain.record
