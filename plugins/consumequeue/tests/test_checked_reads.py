"""Reads of queues where each record must have a checksum of its own (`record_crc`)."""

from __future__ import annotations

import pytest

import reput
from reput import Message
from reput.record.layout import CRC_PROPERTY_SIZE
from reput_consumequeue.reader import queueread
from reput_testing import QuickDisk

pytestmark = pytest.mark.shows("record-crc")


def stored(root, *, record_crc=True):
    """Put twelve messages of one queue; return their places and sizes."""
    options = {"file_size": 8_192, "record_crc": record_crc}
    with reput.open(
        root,
        plugins=["consumequeue"],
        config={"commitlog": options},
        threads=False,
        disk=QuickDisk(),
    ) as store:
        receipts = [store.put(Message("t", b"b", properties={"price": "10"})) for _ in range(12)]
    return [(each.physical_offset, each.size) for each in receipts]


def flip(root, position, bits=1):
    path = root / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[position] ^= bits
    path.write_bytes(data)


def price_at(root, place):
    return (root / "commitlog" / f"{0:020}").read_bytes().index(b"price\x0110", place) + 6


def read(root):
    """Return the queue offsets of the messages, and the reasons of those that are missing."""
    with reput.open(root, mode="w", threads=False, disk=QuickDisk()) as store:
        result = store.read("t", 0, 0, max_count=20)
        return [each.queue_offset for each in result.messages], [
            each.reason for each in result.holes
        ]


@pytest.mark.parametrize("what", ["a property", "the name of the checksum", "both"])
def test_a_changed_record_is_not_served(what, tmp_path):
    place, size = stored(tmp_path)[2]
    if what != "the name of the checksum":
        flip(tmp_path, price_at(tmp_path, place))
    if what != "a property":
        flip(tmp_path, place + size - CRC_PROPERTY_SIZE + 3)

    assert read(tmp_path) == (
        [0, 1, *range(3, 12)],
        ["the checksum of the whole record is missing or wrong"],
    )


def test_records_without_a_checksum_are_served_where_none_is_asked_for(tmp_path):
    place, _ = stored(tmp_path, record_crc=False)[2]
    flip(tmp_path, price_at(tmp_path, place))

    assert read(tmp_path) == (list(range(12)), [])


def test_only_records_that_must_have_a_checksum_are_looked_at_one_by_one(tmp_path, monkeypatch):
    stored(tmp_path)
    options = {"record_crc": False}
    with reput.open(tmp_path, config={"commitlog": options}, threads=False) as store:
        store.put_many([Message("t", b"b") for _ in range(40)])
        assert store.wait_dispatched()
        whole = store.read("t", 0, 0, max_count=52)
        assert [each.queue_offset for each in whole] == list(range(52))
        monkeypatch.setattr(queueread, "Collector", None)  # which looks at them

        assert len(store.read("t", 0, 12, max_count=40)) == 40
        for asked in ((0, 12), (4, 30)):
            with pytest.raises(TypeError):
                store.read("t", 0, *asked)
