"""Arrow reads with `check_crc` where each record must have a checksum of its own."""

from __future__ import annotations

import pytest

import reput
from reput import Message
from reput.errors import CorruptFileError
from reput.record.layout import CRC_PROPERTY_SIZE
from reput_arrow import scan
from reput_testing import QuickDisk


@pytest.fixture
def stored(tmp_path):
    with reput.open(
        tmp_path,
        plugins=(),
        config={"commitlog": {"file_size": 8_192, "record_crc": True}},
        threads=False,
        disk=QuickDisk(),
    ) as store:
        receipts = [store.put(Message("t", b"b", properties={"p": "10"})) for _ in range(9)]
    place = receipts[4].physical_offset + receipts[4].size - CRC_PROPERTY_SIZE + 3
    path = tmp_path / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    return tmp_path


def test_a_record_that_lost_its_checksum_is_damaged(stored):
    with pytest.raises(CorruptFileError, match="no checksum property"):
        list(scan(stored, check_crc=True))


def test_without_the_check_it_is_read(stored):
    assert sum(batch.num_rows for batch in scan(stored)) == 9
