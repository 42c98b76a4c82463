"""Every damage of a log is listed, record by record, and what is sound is counted."""

from __future__ import annotations

import pytest
from statefiles import forget_progress

import reput
from reput_tools.cli.messages.topiccensus import census
from reput_tools.offline import find_damages

pytestmark = pytest.mark.shows("repair")

FILE_SIZE = 4096


def made(root, count=60, **log):
    """A closed store; physical offset and size of each message."""
    config = {"commitlog": {"file_size": FILE_SIZE, **log}}
    with reput.open(root, plugins=[], config=config, threads=False) as store:
        receipts = [
            store.put(reput.Message("t", b"body %03d" % number * 8, number % 3))
            for number in range(count)
        ]
    return [(receipt.physical_offset, receipt.size) for receipt in receipts]


def change(root, offset, data=None):
    """Change bytes of the log in a closed store."""
    base = offset - offset % FILE_SIZE
    with open(root / "commitlog" / f"{base:020d}", "r+b") as file:
        file.seek(offset - base)
        old = file.read(1 if data is None else len(data))
        file.seek(offset - base)
        file.write(bytes([old[0] ^ 1]) if data is None else data)


def listed(root):
    with reput.open(root, "r", plugins=[]) as store:
        found = find_damages(store.log, store.recovery.finding)
        counted = census(store, lambda done, total: None)
    assert counted.damages == found
    return found, counted


def test_each_changed_body_is_listed_and_the_rest_is_counted(tmp_path):
    places = made(tmp_path)
    wrong = [3, 10, 11, 12, 29, 58]
    for number in wrong:
        change(tmp_path, places[number][0] + 90)

    found, counted = listed(tmp_path)

    assert [(each.start_offset, each.size) for each in found] == [places[n] for n in wrong]
    assert {each.reason for each in found} == {"BODY_CRC"}
    assert [(each.topic, each.queue_id, each.queue_offset) for each in found] == [
        ("t", number % 3, number // 3) for number in wrong
    ]
    assert all(each.detail for each in found)
    assert counted.message_count == 60 - len(wrong)
    assert sum(queue.message_count for queue in counted.queues) == 60 - len(wrong)


def test_a_changed_header_is_listed_where_records_have_checksums(tmp_path):
    places = made(tmp_path, record_crc=True)
    offset, size = places[7]
    change(tmp_path, offset + 16)  # a flag, which no other checksum covers

    (damage,), counted = listed(tmp_path)

    assert (damage.start_offset, damage.size, damage.reason) == (offset, size, "RECORD_CRC")
    assert counted.message_count == 59


@pytest.mark.parametrize("number", [0, 20, 21, 22, 40])
@pytest.mark.parametrize("position", [0, 4, 20, 28, 84])
def test_a_damaged_header_costs_that_record_alone(tmp_path, number, position):
    places = made(tmp_path)
    change(tmp_path, places[number][0] + position)
    change(tmp_path, places[50][0] + 90)

    found, counted = listed(tmp_path)

    # A header has no checksum: what keeps all lengths and its own place reads as it is.
    if position == 20:
        assert [each.start_offset for each in found] == [places[50][0]]
    else:
        assert [each.start_offset for each in found] == [places[number][0], places[50][0]]
        assert [each.size for each in found] == [places[number][1], places[50][1]]
        assert counted.message_count == 58


def test_damage_across_files_is_listed_file_by_file(tmp_path):
    places = made(tmp_path)
    change(tmp_path, 3000, bytes(FILE_SIZE - 3000))
    change(tmp_path, FILE_SIZE, bytes(2000))

    found, counted = listed(tmp_path)

    assert [each.start_offset // FILE_SIZE for each in found] == [0, 1]
    assert all(each.start_offset % FILE_SIZE + each.size <= FILE_SIZE for each in found)
    assert sum(each.size for each in found) < 2 * FILE_SIZE
    sound = [at for at, size in places if not (3000 - size < at < FILE_SIZE + 2000)]
    assert counted.message_count == len(sound)


def test_damage_at_the_end_is_listed_with_the_damage_before_it(tmp_path):
    places = made(tmp_path)
    change(tmp_path, places[5][0] + 90)
    change(tmp_path, places[59][0] + 90)

    found, counted = listed(tmp_path)

    assert [each.start_offset for each in found] == [places[5][0], places[59][0]]
    assert counted.message_count == 58


def test_holes_that_opening_found_and_their_neighbours_are_all_listed(tmp_path):
    places = made(tmp_path, 20)
    for number in (8, 9, 12):
        change(tmp_path, places[number][0] + 90)
    (tmp_path / "abort").touch()
    forget_progress(tmp_path)
    (tmp_path / "checkpoint").unlink(missing_ok=True)

    found, counted = listed(tmp_path)

    assert [each.start_offset for each in found] == [places[n][0] for n in (8, 9, 12)]
    assert counted.message_count == 17


def test_a_sound_log_has_no_damage(tmp_path):
    made(tmp_path)

    found, counted = listed(tmp_path)

    assert (found, counted.message_count) == ([], 60)
