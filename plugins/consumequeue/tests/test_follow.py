"""A read-only store beside its writer: it sees what comes, and leaves no trace."""

from __future__ import annotations

import shutil
import struct

import pytest
from openstores import bodies_in

import reput
from reput.status import ReadStatus
from reput_consumequeue.layout import UNIT_SIZE
from reput_testing import QuickDisk, ReadOnlyDisk

SMALL = {"commitlog": {"file_size": 4096}, "consumequeue": {"units_per_file": 4}}


@pytest.fixture
def writer(tmp_path):
    with reput.open(
        tmp_path / "store", plugins=["consumequeue"], config=SMALL, disk=QuickDisk()
    ) as store:
        yield store


@pytest.fixture
def reader(writer):
    with _reader(writer) as store:
        yield store


def _reader(writer):
    return reput.open(writer.root, "r", plugins=["consumequeue"], disk=ReadOnlyDisk())


def _put(store, *messages):
    for message in messages:
        store.put(reput.Message(*message))
    assert store.wait_dispatched(10)


def _extents(store):
    return {
        (info.topic, info.queue_id): (info.min_queue_offset, info.max_queue_offset)
        for info in store.queues()
    }


def test_new_messages_new_files_new_queues_and_new_topics_are_seen(writer, reader):
    assert reader.read("T", 0, 0).status is ReadStatus.NO_MESSAGE_IN_QUEUE
    assert reader.queues() == []
    sent = []

    for number in range(30):  # eight files of the queue, more than one of the log
        _put(writer, ("T", b"%d" % number))
        sent.append(b"%d" % number)
        assert reader.read("T", 0, number, 1).messages[0].body == sent[-1]
        if number % 7 == 0:
            assert bodies_in(reader) == sent
    _put(writer, ("T", b"another queue", 5), ("New-Topic", b"another topic", 2))

    assert bodies_in(reader, "T", 5) == [b"another queue"]
    assert _extents(reader) == {("T", 0): (0, 30), ("T", 5): (0, 1), ("New-Topic", 2): (0, 1)}
    assert bodies_in(reader, "New-Topic", 2) == [b"another topic"]
    assert _extents(reader) == _extents(writer)


def test_offsets_by_time_know_new_messages(writer, reader):
    _put(writer, ("T", b"0"))
    assert reader.offset_by_time("T", 0, 0) == 0

    _put(writer, *[("T", b"%d" % number) for number in range(1, 10)])

    assert reader.offset_by_time("T", 0, 1 << 50) == 10
    assert reader.offset_by_time("T", 0, 1 << 50, "upper") == 9


def test_units_of_records_that_the_log_does_not_show_are_not_shown(writer, reader):
    _put(writer, *[("T", b"%d" % number) for number in range(5)])
    assert len(bodies_in(reader)) == 5
    path = f"{writer.root}/consumequeue/T/0/{4 * UNIT_SIZE:020d}"
    ghost = struct.pack(">qiq", writer.log.max_physical_offset, 100, 0)
    with open(path, "r+b") as file:
        file.seek(UNIT_SIZE)
        file.write(ghost)

    assert len(bodies_in(reader)) == 5
    assert reader.queues()[0].max_queue_offset == 5
    with _reader(writer) as fresh:
        assert fresh.queues()[0].max_queue_offset == 5
        assert len(bodies_in(fresh)) == 5

    with open(path, "r+b") as file:
        file.seek(UNIT_SIZE)
        file.write(bytes(UNIT_SIZE))


def test_a_queue_that_begins_in_the_middle_begins_there_for_a_reader_too(tmp_path):
    """The queues were lost together with the log's head: what is left begins pre-blank."""
    root = tmp_path / "store"
    with reput.open(root, plugins=["consumequeue"], config=SMALL, disk=QuickDisk()) as store:
        _put(store, *[("T", b"%d" % number) for number in range(70)])
    min(root.joinpath("commitlog").iterdir()).unlink()
    shutil.rmtree(root / "consumequeue")
    with reput.open(root, "r", plugins=["consumequeue"], disk=ReadOnlyDisk()) as reader:
        assert reader.queues() == []
        with reput.open(root, plugins=["consumequeue"], disk=QuickDisk()) as writer:
            assert writer.wait_dispatched(10)
            expected = _extents(writer)
            low = expected["T", 0][0]
            assert low % 4 != 0

            assert _extents(reader) == expected
            first = reader.read("T", 0, low, 1)
            assert [message.body for message in first] == [b"%d" % low]
            assert reader.read("T", 0, low - 1).status is ReadStatus.OFFSET_TOO_SMALL


def test_a_reader_that_looked_away_while_the_head_was_trimmed_goes_on_behind_it(writer, reader):
    _put(writer, *[("T", b"%d" % number) for number in range(3)])
    assert reader.queues()[0].max_queue_offset == 3
    reader.plugin_objects["consumequeue"].files.pool.close()  # as if other files had pushed it out

    _put(writer, *[("T", b"%d" % number) for number in range(3, 120)])
    assert reader.log.max_physical_offset == writer.log.max_physical_offset
    low = writer.log.file_size * 2
    writer.log.files.trim(low)
    writer.plugin_objects["consumequeue"].reput_trim(min_physical_offset=low)
    expected = _extents(writer)

    assert expected["T", 0][0] > 4
    assert _extents(reader)["T", 0][1] == 120
    answer = reader.read("T", 0, 0)
    assert answer.status is ReadStatus.OFFSET_TOO_SMALL
    first = answer.next_queue_offset  # a file's beginning, as long as its log keeps the old head
    assert first <= expected["T", 0][0]
    low = expected["T", 0][0]
    assert bodies_in(reader, at=low) == [b"%d" % number for number in range(low, 120)]


def test_reading_what_is_not_there_leaves_nothing_in_memory_either(writer, reader):
    for number in range(50):
        reader.read(f"T{number}", 0, 0)
        writer.read(f"T{number}", 0, 0)

    assert reader.queues() == writer.queues() == []
