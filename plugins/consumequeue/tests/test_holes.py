"""Queues over a log that has lost records: places stay right, and readers get typed holes."""

from __future__ import annotations

import shutil

import pytest
from damaged_logs import FILE_SIZE, damage, flip, killed, log_bytes, open_store, views
from openstores import next_queue_offset

import reput
from reput.record.layout import RECORD_MIN_SIZE
from reput.status import ReadStatus
from reput_testing import snapshot

pytestmark = pytest.mark.shows("changed-log")


def _open(root, mode="w", **options):
    store = open_store(root, mode, plugins=["consumequeue"], **options)
    store.wait_dispatched()
    return store


def _written(root, count=30, queues=1, size=60):
    with _open(root) as store:
        return [
            store.put(reput.Message("T", b"%06d" % n * (size // 6), n % queues))
            for n in range(count)
        ]


def _read_all(store, queue_id=0, max_count=32, at=0):
    """Places of messages and of holes, from one end of the queue to the other."""
    messages, holes = {}, {}
    while True:
        answer = store.read("T", queue_id, at, max_count)
        if answer.status is ReadStatus.OFFSET_OVERFLOW_ONE:
            return messages, holes
        assert at < answer.next_queue_offset
        for place, message in zip(answer.queue_offsets, answer.messages, strict=True):
            assert place not in messages
            messages[place] = message
        for hole in answer.holes:
            assert at <= hole.queue_offset < answer.next_queue_offset
            assert hole.queue_offset not in holes
            holes[hole.queue_offset] = hole
        at = answer.next_queue_offset


@pytest.mark.parametrize("max_count", [1, 2, 3, 32])
@pytest.mark.parametrize("queues", [1, 3])
def test_every_message_behind_a_lost_one_keeps_its_place(tmp_path, queues, max_count):
    places = _written(tmp_path, queues=queues)
    lost = [places[7], places[8], places[20]]
    killed(tmp_path)
    for each in lost:
        flip(tmp_path, each.physical_offset + 90)

    with _open(tmp_path) as store:
        for queue_id in range(queues):
            of_queue = [each for each in places if each.queue_id == queue_id]
            messages, holes = _read_all(store, queue_id, max_count)
            assert {place: m.queue_offset for place, m in messages.items()} == {
                each.queue_offset: each.queue_offset for each in of_queue if each not in lost
            }
            assert set(holes) == {each.queue_offset for each in of_queue if each in lost}
        (info, *_) = store.queues()
        assert info.max_queue_offset == len(places) // queues
        assert len(store.losses()) == 2  # two of the lost ones are neighbours


def test_a_hole_tells_what_was_lost(tmp_path):
    places = _written(tmp_path)
    killed(tmp_path)
    flip(tmp_path, places[7].physical_offset + 90)

    with _open(tmp_path) as store:
        answer = store.read("T", 0, 7, 1)
        (loss,) = store.losses()

    (hole,) = answer.holes
    assert isinstance(hole, reput.MissingMessage)
    assert (hole.queue_offset, hole.physical_offset) == (7, places[7].physical_offset)
    assert hole.size == places[7].size == loss.size
    assert "BODY_CRC" in hole.reason
    assert [message.queue_offset for message in answer] == [8]
    assert answer.queue_offsets == (8,)


@pytest.mark.parametrize("lost", [3, 4, 5, 7, 8])
def test_holes_at_the_borders_of_queue_files_are_holes(tmp_path, lost):
    options = {"commitlog": {"file_size": FILE_SIZE}}
    options["consumequeue"] = {"units_per_file": 4}
    with reput.open(tmp_path, plugins=["consumequeue"], config=options, threads=False) as store:
        places = [store.put(reput.Message("T", b"x" * 50)) for _ in range(12)]
        store.wait_dispatched()
    killed(tmp_path)
    flip(tmp_path, places[lost].physical_offset + 90)

    with _open(tmp_path) as store:
        messages, holes = _read_all(store)

    assert set(holes) == {lost}
    assert set(messages) == set(range(12)) - {lost}


def test_a_consumer_of_rocketmq_gets_a_message_more_than_once_and_none_out_of_place(tmp_path):
    places = _written(tmp_path)
    killed(tmp_path)
    for number in (7, 8):
        flip(tmp_path, places[number].physical_offset + 90)

    with _open(tmp_path) as store:
        units = store.plugin_objects["consumequeue"].queues["T", 0].files.read(0, 30)

    expected = [each.physical_offset for each in places]
    expected[7] = expected[8] = expected[9]
    assert units["physical_offset"].tolist() == expected


def test_queues_built_again_from_a_filled_log_are_the_live_ones(tmp_path):
    places = _written(tmp_path, count=60, queues=3)
    killed(tmp_path)
    for number in (0, 4, 17, 18, 19, 20, 21, 40):
        flip(tmp_path, places[number].physical_offset + 90)
    with _open(tmp_path) as store:
        for number in range(10):
            store.put(reput.Message("T", b"more %d" % number, number % 3))
        store.wait_dispatched()
    live = snapshot(tmp_path / "consumequeue")

    shutil.rmtree(tmp_path / "consumequeue")
    with _open(tmp_path):
        pass

    assert snapshot(tmp_path / "consumequeue") == live


def test_a_gap_that_no_loss_explains_is_closed_up_as_rocketmq_does_it(tmp_path):
    with _open(tmp_path) as store:
        for _ in range(3):
            store.put(reput.Message("T", b"x"))
        next_queue_offset(store, "T", 0, 10)
        store.put(reput.Message("T", b"behind a gap"))
        store.wait_dispatched()

        (info,) = store.queues()
        assert info.max_queue_offset == 4
        assert store.read("T", 0, 3).messages[0].body == b"behind a gap"


def test_a_gap_that_is_larger_than_what_was_lost_is_closed_up(tmp_path):
    places = _written(tmp_path, count=5)
    killed(tmp_path)
    flip(tmp_path, places[2].physical_offset + 90)
    # The record behind states a place that so few bytes cannot explain.
    possible = places[2].size // RECORD_MIN_SIZE
    damage(tmp_path, places[3].physical_offset + 20, (3 + possible).to_bytes(8, "big"))
    damage(tmp_path, places[4].physical_offset + 20, (4 + possible).to_bytes(8, "big"))

    with _open(tmp_path) as store:
        (info,) = store.queues()
        assert info.max_queue_offset == 4


def test_a_body_that_does_not_match_is_a_hole_and_its_bytes_are_not_shown(tmp_path):
    places = _written(tmp_path, count=5)
    flip(tmp_path, places[2].physical_offset + 90)  # in a closed log: opening does not look there

    for mode in ("w", "r"):
        with _open(tmp_path, mode) as store:
            messages, holes = _read_all(store)
        assert set(messages) == {0, 1, 3, 4}
        assert (holes[2].physical_offset, holes[2].size) == (
            places[2].physical_offset,
            places[2].size,
        )
        assert "checksum" in holes[2].reason


def test_a_unit_that_points_to_no_record_is_a_hole(tmp_path):
    places = _written(tmp_path, count=5)
    damage(tmp_path, places[2].physical_offset + 4, b"\xff" * 4)

    with _open(tmp_path, "r") as store:
        messages, holes = _read_all(store)

    assert set(messages) == {0, 1, 3, 4}
    assert set(holes) == {2}
    assert "no whole record" in holes[2].reason


def test_a_result_of_holes_only_is_one_without_messages(tmp_path):
    with _open(tmp_path) as store:
        places = [store.put(reput.Message("T", b"message")) for _ in range(5)]
        store.put(reput.Message("T", b"message", 1))  # a closed log's last record is looked at
    for each in places:
        flip(tmp_path, each.physical_offset + 90)

    with _open(tmp_path, "r") as store:
        answer = store.read("T", 0, 0)

    assert answer.status is ReadStatus.MESSAGE_WAS_REMOVING
    assert (len(answer), answer.next_queue_offset) == (0, 5)
    assert [hole.queue_offset for hole in answer.holes] == [0, 1, 2, 3, 4]


def test_a_trimmed_message_is_no_hole(tmp_path):
    _written(tmp_path, count=80)
    (tmp_path / "commitlog" / f"{0:020d}").unlink()

    with _open(tmp_path, "r") as store:
        low = store.read("T", 0, 0)
        assert low.status is ReadStatus.OFFSET_TOO_SMALL
        messages, holes = _read_all(store, at=low.next_queue_offset)
    assert holes == {}
    assert set(messages) == set(range(low.next_queue_offset, 80))


def test_the_last_messages_of_a_queue_that_are_lost_keep_their_places(tmp_path):
    places = _written(tmp_path, count=9, queues=3)
    killed(tmp_path)
    flip(tmp_path, places[7].physical_offset + 90)  # T/1, queue offset 2; one of T/2 follows

    with _open(tmp_path) as store:
        receipt = store.put(reput.Message("T", b"next", 1))
        store.wait_dispatched()
        assert receipt.queue_offset == 3
        messages, holes = _read_all(store, 1)
    assert (set(messages), set(holes)) == ({0, 1, 3}, {2})


def test_what_a_reader_scans_and_what_it_reads_from_queues_is_the_same(tmp_path):
    places = _written(tmp_path, count=40)
    killed(tmp_path)
    flip(tmp_path, places[7].physical_offset + 90)
    before = log_bytes(tmp_path)

    with _open(tmp_path, "r") as store:
        messages, holes = _read_all(store)
        assert [view.physical_offset for view in views(store)] == [
            message.physical_offset for message in messages.values()
        ]
    assert set(holes) == {7}
    assert log_bytes(tmp_path) == before


@pytest.mark.parametrize("queues", [1, 3])
def test_a_queue_whose_first_messages_were_lost_begins_with_them(tmp_path, queues):
    places = _written(tmp_path, queues=queues)
    lost = [each for each in places if each.queue_id == 0][:1]
    killed(tmp_path)
    flip(tmp_path, lost[0].physical_offset + 90)
    shutil.rmtree(tmp_path / "consumequeue")

    with _open(tmp_path) as store:
        messages, holes = _read_all(store, 0)
        (info, *_) = store.queues()

    assert info.min_queue_offset == 0
    assert set(holes) == {0}
    assert sorted(messages) == list(range(1, len(places) // queues))
    units = (tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}").read_bytes()
    assert units[:20] == units[20:40], "RocketMQ skips a file of the log after any other unit"
