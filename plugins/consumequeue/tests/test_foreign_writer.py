"""Queues are read beside a program that writes the size of a record before the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from foreignwriter import CONFIG, ForeignWriter, HandDisk, foreign_store

import reput
from reput.status import ReadStatus

pytestmark = pytest.mark.shows("incomplete-record")

COUNT = 30
QUIET = 1.0
UNIT_SIZE = 20


class Units:
    """The units of the one queue, which appear one by one, as early as they ever could."""

    def __init__(self, writer: ForeignWriter) -> None:
        (self.path,) = (writer.root / "consumequeue" / "orders" / "0").iterdir()
        self.all = self.path.read_bytes()
        self.path.write_bytes(bytes(len(self.all)))

    def add(self, number: int) -> None:
        with self.path.open("r+b") as file:
            file.seek(number * UNIT_SIZE)
            file.write(self.all[number * UNIT_SIZE : (number + 1) * UNIT_SIZE])


def opened(root: Path, disk: HandDisk) -> reput.Store:
    return reput.open(root, "r", plugins=["consumequeue"], disk=disk, config=CONFIG)


def test_what_a_consumer_reads_between_any_two_writes_is_whole(tmp_path: Path):
    disk, got, number = HandDisk(), [], 0
    with foreign_store(tmp_path, COUNT, ("consumequeue",)) as writer:
        units, pieces = Units(writer), writer.pieces
        with opened(writer.root, disk) as store:
            for offset, data in pieces:
                for step, _ in enumerate(writer.steps(offset, data)):
                    if step == 0 and len(data) > 8:
                        units.add(number)
                        number += 1
                    found = store.read("orders", 0, len(got))
                    assert not found.holes
                    assert found.next_queue_offset == len(got) + len(found)
                    got += [(each.body, each.properties["last"]) for each in found]
            before = len(got)
            last = store.read("orders", 0, len(got))
            disk.now += QUIET
            got += [
                (each.body, each.properties["last"]) for each in store.read("orders", 0, before)
            ]

            assert store.losses() == []
    assert last.status is ReadStatus.OFFSET_OVERFLOW_ONE
    assert before == COUNT - 1
    assert got == [(b"%d" % each, str(each)) for each in range(COUNT)]


def test_a_record_that_a_queue_knows_and_that_is_not_whole_yet_is_no_loss(tmp_path: Path):
    disk = HandDisk()
    with foreign_store(tmp_path, 4, ("consumequeue",)) as writer:
        units = Units(writer)
        writer.write(2)
        offset, data = writer.pieces.pop(0)
        for _ in writer.steps(offset, data[:-2]):
            pass
        for number in range(3):
            units.add(number)

        with opened(writer.root, disk) as store:
            losses, found = store.losses(), store.read("orders", 0, 0)
            for _ in writer.steps(offset, data):
                pass
            assert len(store.read("orders", 0, 2)) == 0
            disk.now += QUIET
            rest = store.read("orders", 0, 2)

    assert losses == []
    assert [each.body for each in found] == [b"0", b"1"]
    assert [each.body for each in rest] == [b"2"]
