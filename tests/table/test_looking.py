"""What the page about plugins shows of a batch."""

from __future__ import annotations

import zlib

import pytest
from looking import (
    bodies,
    damaged_places,
    has_property,
    keys,
    rows_of_own_topics,
    sizes_by_topic,
    unpacked,
)

import reput
from reput.record.layout import COMPRESSED
from reput_testing import SmallLog, garbled_at


@pytest.fixture
def batch():
    log = SmallLog()
    log.append(reput.Message("orders", b"12345", keys="a b", properties={"region": "north"}))
    log.append(reput.Message("payments", b"1"))
    log.append(reput.Message("orders", b"12", keys="c"))
    batches = log.batches()
    yield next(batches)
    assert list(batches) == []  # valid until here


def test_rows_of_own_topics_leave_out_those_of_the_store():
    log = SmallLog()
    topics = ["orders", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "bills", "%RETRY%billing"]
    for topic in [*topics, "RMQ_SYS_TRANS_HALF_TOPIC", "orders"]:
        log.append(reput.Message(topic, b"body"))
    (batch,) = log.batches()

    rows = rows_of_own_topics(batch)

    assert [batch.topics[code] for code in batch.topic_code[rows]] == ["orders", "bills", "orders"]


def test_bodies_keys_and_properties_come_out_of_a_batch(batch):
    assert bodies(batch) == [b"12345", b"1", b"12"]
    assert sizes_by_topic(batch) == {"orders": 7, "payments": 1}
    assert keys(batch) == [("a", "b"), (), ("c",)]
    assert has_property(batch, "region").tolist() == [True, False, False]


def view_of(body, sys_flag=COMPRESSED):
    log = SmallLog()
    log.append(reput.Message("orders", body, sys_flag=sys_flag))
    (view,) = log.messages()
    return view


def test_a_compressed_body_is_unpacked_within_a_limit():
    packed = zlib.compress(b"x" * 1000)

    assert unpacked(view_of(packed)) == b"x" * 1000
    assert unpacked(view_of(b"plain", 0)) == b"plain"
    with pytest.raises(ValueError, match="more than 999 bytes"):
        unpacked(view_of(packed), 999)
    with pytest.raises(ValueError, match="cut short"):
        unpacked(view_of(packed[:-3]))
    with pytest.raises(ValueError, match="not valid zlib data"):
        unpacked(view_of(b"plain"))
    with pytest.raises(ValueError, match="compressed by"):
        unpacked(view_of(packed, COMPRESSED | 0x100))


def test_damage_is_found_and_read_past(tmp_path):
    with reput.open(tmp_path, plugins=[]) as store:
        receipts = [store.put(reput.Message("orders", b"12345")) for _ in range(3)]
    (log,) = [path for path in (tmp_path / "commitlog").iterdir() if path.name.isdigit()]
    garbled_at(log, receipts[1].physical_offset + 90)

    found = damaged_places(str(tmp_path))

    assert [each.physical_offset for each in found] == [receipts[1].physical_offset]
