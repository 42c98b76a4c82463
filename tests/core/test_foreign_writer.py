"""Readers beside a program that writes the size of a record before the rest, as RocketMQ does."""

from __future__ import annotations

from pathlib import Path

import pytest
from foreignwriter import CONFIG, ForeignWriter, HandDisk, foreign_store

import reput
from reput.files import Disk
from reput.log import Writer
from reput.storefiles import StoreLock

pytestmark = pytest.mark.shows("incomplete-record")

COUNT = 40
QUIET = 1.0


def opened(root: Path, disk: HandDisk) -> reput.Store:
    return reput.open(root, "r", plugins=(), disk=disk, config=CONFIG)


def offsets(store: reput.Store, start: int = 0) -> list[int]:
    return [at for batch in store.log.scan(start) for at in batch.physical_offset.tolist()]


def written_in_part(writer: ForeignWriter, without: int) -> int:
    """Write the next record up to so many bytes before its end; return its offset."""
    offset, data = writer.pieces.pop(0)
    for _ in writer.steps(offset, data[:-without]):
        pass
    return offset


def finish(writer: ForeignWriter, offset: int, data: bytes) -> None:
    for _ in writer.steps(offset, data):
        pass


def test_what_a_reader_gets_between_any_two_writes_is_whole(tmp_path: Path):
    disk, got, at = HandDisk(), [], 0
    with foreign_store(tmp_path, COUNT) as writer:
        whole = {offset: data for offset, data in writer.pieces if len(data) > 8}
        pieces, writer.pieces = writer.pieces, []
        with opened(writer.root, disk) as store:
            for offset, data in pieces:
                for _ in writer.steps(offset, data):
                    for batch in store.log.scan(at):
                        assert batch.finding is None
                        for row in range(len(batch)):
                            got.append(batch.message(row).physical_offset)
                            assert bytes(batch.record(row)) == whole[got[-1]]
                        at = batch.end_offset
            before, last = list(got), offset
            disk.now += QUIET
            got += offsets(store, at)

            assert (store.losses(), store.log.damages) == ([], ())
        assert len(list((writer.root / "commitlog").iterdir())) > 2
    assert before == sorted(whole)[:-1]
    assert got == sorted(whole)
    assert last == got[-1]


def test_a_read_of_a_record_that_is_not_whole_returns_nothing(tmp_path: Path):
    disk = HandDisk()
    with foreign_store(tmp_path, 3) as writer, opened(writer.root, disk) as store:
        (first,) = writer.write(1)
        size = len(writer.pieces[0][1])
        second = written_in_part(writer, without=5)

        assert store.log.read_message(first) is not None
        assert store.log.read_message(second) is None
        assert store.log.read(second, size) == b""
        assert store.log.store_timestamp_at(second) == -1
        with pytest.raises(LookupError):
            store.get(second)


def test_the_last_record_is_read_when_it_has_not_changed_for_a_second(tmp_path: Path):
    disk = HandDisk()
    with foreign_store(tmp_path, 3) as writer, opened(writer.root, disk) as store:
        first, second = writer.write(2)

        assert offsets(store) == [first]
        disk.now += QUIET / 2
        assert offsets(store) == [first]
        disk.now += QUIET / 2
        assert offsets(store) == [first, second]


def test_a_record_that_changed_is_waited_for_anew(tmp_path: Path):
    disk = HandDisk()
    with foreign_store(tmp_path, 3) as writer, opened(writer.root, disk) as store:
        writer.write(1)
        offset, data = writer.pieces[0]
        written_in_part(writer, without=2)
        assert offset not in offsets(store)
        disk.now += QUIET * 0.9
        finish(writer, offset, data)

        assert offset not in offsets(store)
        disk.now += QUIET * 0.9
        assert offset not in offsets(store)
        disk.now += QUIET * 0.1
        assert offset in offsets(store)


def test_a_record_whose_properties_end_in_zeros_is_not_read_however_long_they_stay(tmp_path: Path):
    disk = HandDisk()
    with foreign_store(tmp_path, 3) as writer, opened(writer.root, disk) as store:
        writer.write(1)
        offset, data = writer.pieces[0]
        written_in_part(writer, without=2)
        assert offset not in offsets(store)
        disk.now += 100 * QUIET

        assert offset not in offsets(store)
        finish(writer, offset, data)
        assert offset not in offsets(store)
        disk.now += QUIET
        assert offset in offsets(store)


def test_a_record_before_a_blank_is_whole_although_no_next_file_exists(tmp_path: Path):
    disk = HandDisk()
    with foreign_store(tmp_path, COUNT) as writer, opened(writer.root, disk) as store:
        blank = next(at for at, (_, data) in enumerate(writer.pieces) if len(data) == 8)
        written = writer.write(blank)
        assert offsets(store) == written[:-1]

        finish(writer, *writer.pieces[0])

        assert offsets(store) == written


def test_opening_waits_for_the_last_record_a_second_at_most(tmp_path: Path):
    disk = HandDisk()
    with foreign_store(tmp_path, 3) as writer:
        written = writer.write(2)
        before = disk.now
        with opened(writer.root, disk) as store:
            assert offsets(store) == written
        assert QUIET <= disk.now - before < QUIET + 0.1

        torn = written_in_part(writer, without=2)
        before = disk.now
        with opened(writer.root, disk) as store:
            assert torn not in offsets(store)
        assert disk.now - before < QUIET + 0.1


def test_opening_waits_no_longer_than_until_the_next_record_is_there(tmp_path: Path):
    disk = HandDisk()
    with foreign_store(tmp_path, 4) as writer:
        written = writer.write(2)

        class Busy(HandDisk):
            def sleep(self, seconds: float) -> None:
                super().sleep(seconds)
                writer.write(1)

        disk = Busy()
        before = disk.now
        with opened(writer.root, disk) as store:
            assert offsets(store)[:2] == written
        assert disk.now - before < QUIET / 10


def test_when_the_writer_has_closed_the_store_the_last_record_is_whole(tmp_path: Path):
    disk = HandDisk()
    with foreign_store(tmp_path, 3) as writer, opened(writer.root, disk) as store:
        first, second = writer.write(2)
        assert offsets(store) == [first]

        writer.end()

        assert offsets(store) == [first, second]


def test_a_part_of_a_record_that_a_killed_writer_left_is_not_read(tmp_path: Path):
    disk = HandDisk()
    with foreign_store(tmp_path, 3) as writer, opened(writer.root, disk) as store:
        (first,) = writer.write(1)
        second = written_in_part(writer, without=2)

        writer.end()

        assert offsets(store) == [first]
        disk.now += QUIET
        assert second not in offsets(store)


def test_beside_a_writer_of_reput_every_record_is_read_at_once(tmp_path: Path):
    disk = HandDisk()
    with (
        reput.open(tmp_path / "store", plugins=(), config=CONFIG) as writer,
        opened(tmp_path / "store", disk) as reader,
    ):
        for number in range(COUNT):
            offset = writer.put(reput.Message("orders", b"%d" % number)).physical_offset
            assert offsets(reader)[-1] == offset
    assert disk.now == HandDisk().now


def test_the_lock_tells_which_program_writes(tmp_path: Path):
    with foreign_store(tmp_path, 1) as writer:
        lock = StoreLock(f"{writer.root}/lock", str(writer.root), Disk().at(str(writer.root)))
        beside = lock.writer()
        writer.end()
        after = lock.writer()
        with reput.open(writer.root, plugins=(), config=CONFIG):
            ours = lock.writer()

    assert (beside, after, ours) == (Writer.OTHER, Writer.NONE, Writer.REPUT)
