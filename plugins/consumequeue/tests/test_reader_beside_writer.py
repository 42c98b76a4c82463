"""A read-only store whose writer dies, comes back, and is caught in the middle of a write."""

from __future__ import annotations

import threading

import pytest

import reput
from reput.status import ReadStatus
from reput_consumequeue import ConsumeQueueConfig, ConsumeQueuePlugin
from reput_consumequeue.layout import UNIT, UNIT_SIZE
from reput_testing import Driver, QuickDisk, SmallLog


def _driver(root, log, **options):
    plugin = ConsumeQueuePlugin(ConsumeQueueConfig(units_per_file=4))
    return Driver(plugin, "consumequeue", root, log, **options)


def _log(count):
    return SmallLog.of([reput.Message("T", b"%d" % n) for n in range(count)])


def _bodies(plugin, start=0):
    found, at = [], start
    while result := plugin.reput_read("T", 0, at, 32, 1 << 20):
        found += [message.body for message in result]
        at = result.next_queue_offset
    return found


@pytest.mark.parametrize("kept", range(7))
def test_a_writer_that_lost_messages_in_a_crash_and_went_on_is_followed(tmp_path, kept):
    whole = _log(7)
    with _driver(tmp_path, whole) as writer:
        writer.catch_up()
    log = whole.copy()
    with _driver(tmp_path, log, writable=False) as reader:
        assert len(_bodies(reader.plugin)) == 7

        # The same object for both, as both would read the same files.
        log.__dict__.update(whole.first(kept).__dict__)
        with _driver(tmp_path, log, clean=False, progress=whole.max_physical_offset) as writer:
            writer.catch_up()
            for number in range(6):
                log.append(reput.Message("T", b"other message %d" % number))
            writer.catch_up()

            expected = [b"%d" % n for n in range(kept)]
            expected += [b"other message %d" % n for n in range(6)]
            assert _bodies(writer.plugin) == expected
            (info,) = reader.plugin.reput_queues()
            assert info.max_queue_offset == kept + 6
            assert _bodies(reader.plugin) == expected


def _with_unit(root, number, unit):
    path = root / "consumequeue" / "T" / "0" / f"{number // 4 * 4 * UNIT_SIZE:020d}"
    with open(path, "r+b") as file:
        file.seek(number % 4 * UNIT_SIZE)
        before = file.read(UNIT_SIZE)
        file.seek(number % 4 * UNIT_SIZE)
        file.write(unit)
    return before


@pytest.mark.parametrize("number", [1, 2, 5, 6])
def test_a_unit_caught_while_it_is_being_written_is_read_again_and_not_skipped(tmp_path, number):
    """Half of its bytes are there: it looks like a unit, and points to nothing."""
    log = _log(7)
    with _driver(tmp_path, log) as writer:
        writer.catch_up()
    with _driver(tmp_path, log, writable=False) as reader:
        offset = log.starts[number]
        whole = _with_unit(
            tmp_path, number, UNIT.pack(offset & ~0xFF, log.ends[number] - offset, 0)
        )
        first = number // 4 * 4  # a read ends with its file
        answer = reader.plugin.reput_read("T", 0, first, 32, 1 << 20)
        assert [m.body for m in answer] == [b"%d" % n for n in range(first, number)]
        assert answer.next_queue_offset == number

        _with_unit(tmp_path, number, whole)
        assert _bodies(reader.plugin, number) == [b"%d" % n for n in range(number, 7)]


def test_a_reader_does_not_stop_at_a_unit_that_stays_unreadable(tmp_path):
    log = _log(7)
    with _driver(tmp_path, log) as writer:
        writer.catch_up()
    _with_unit(tmp_path, 1, UNIT.pack(log.starts[1] + 1, 95, 0))

    with _driver(tmp_path, log, writable=False) as reader:
        found, at, statuses = [], 0, []
        while at < 7:
            answer = reader.plugin.reput_read("T", 0, at, 32, 1 << 20)
            found += [int(message.body) for message in answer]
            statuses.append(answer.status)
            assert answer.next_queue_offset > at
            at = answer.next_queue_offset

    assert found == [0, 2, 3, 4, 5, 6]
    assert set(statuses) == {ReadStatus.FOUND}


def test_many_threads_of_a_reader_see_one_extent(tmp_path):
    with reput.open(
        tmp_path,
        plugins=["consumequeue"],
        config={"commitlog": {"file_size": 1 << 16}, "consumequeue": {"units_per_file": 10}},
        disk=QuickDisk(),
    ) as writer:
        writer.put(reput.Message("T", b"0"))
        assert writer.wait_dispatched(10)
        with reput.open(tmp_path, "r", plugins=["consumequeue"]) as reader:
            errors, done = [], threading.Event()

            def look():
                try:
                    while not done.is_set():
                        for info in reader.queues():
                            assert info.max_queue_offset <= writer.log.queue_offsets["T", 0]
                            at = max(info.max_queue_offset - 3, 0)
                            for message in reader.read("T", 0, at):
                                assert message.body == b"%d" % message.queue_offset
                except BaseException as error:
                    errors.append(error)

            threads = [threading.Thread(target=look) for _ in range(4)]
            for thread in threads:
                thread.start()
            for number in range(1, 300):
                writer.put(reput.Message("T", b"%d" % number))
            assert writer.wait_dispatched(10)
            done.set()
            for thread in threads:
                thread.join()

            assert errors == []
            (info,) = reader.queues()
            assert (info.min_queue_offset, info.max_queue_offset) == (0, 300)
