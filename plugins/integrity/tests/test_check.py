"""Any changed bit is found, and named with its message; what is sound is not accused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import reput
from reput.files import file_name
from reput_integrity import IntegrityPlugin, check
from reput_integrity.layout import UNIT_DTYPE
from reput_testing import ManualClock
from reput_tools.offline import rebuild

SMALL = {"commitlog": {"file_size": 4096}}


def filled(root: Path, count: int = 60, clock: Any = None, **options: Any) -> Path:
    """A store of several log files whose records have sums."""
    options = {"config": SMALL, "plugins": ["integrity"], "threads": False} | options
    with reput.open(root, clock=clock or ManualClock(), **options) as store:
        for number in range(count):
            message = reput.Message("orders", b"%04d" % number * 10, tags="new", keys=f"k{number}")
            store.put(message)
        store.wait_dispatched()
    return root


def log_file(root: Path, base: int = 0) -> Path:
    return root / "commitlog" / file_name(base)


def sums_file(root: Path, base: int = 0) -> Path:
    return root / "integrity" / "sums" / file_name(base)


def flip(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def records_of(root: Path) -> list[tuple[int, int, int]]:
    """Physical offset, size and queue offset of every record."""
    with reput.open(root, "r", plugins=[]) as store:
        return [
            (int(at), int(size), int(number))
            for batch in store.log.scan()
            for at, size, number in zip(
                batch.physical_offset, batch.size, batch.queue_offset, strict=True
            )
        ]


def test_a_sound_store_has_no_findings(tmp_path):
    root = filled(tmp_path / "s")

    assert list(check(root)) == []
    assert len(list((root / "integrity" / "sums").iterdir())) > 2


@pytest.mark.shows("sums")
@pytest.mark.costly
def test_every_flipped_bit_of_the_log_is_found_and_its_record_named(tmp_path):
    root = filled(tmp_path / "s", 40)
    records = records_of(root)
    start, size, number = records[len(records) // 2]
    path, at = log_file(root, start // 4096 * 4096), start % 4096
    whole = path.read_bytes()

    for position in range(size):
        flip(path, at + position, position % 8)
        found = list(check(root))
        path.write_bytes(whole)

        assert [each.kind for each in found] == ["record"]
        assert (found[0].physical_offset, found[0].size) == (start, size)
        assert (found[0].path, found[0].position) == (f"commitlog/{path.name}", at)
        if found[0].topic == "orders" and found[0].key == f"k{number}":
            assert found[0].queue_id == 0 or position < 24


@pytest.mark.shows("sums")
@pytest.mark.costly
def test_every_flipped_bit_of_the_sums_is_found(tmp_path):
    root = filled(tmp_path / "s", 20)
    path = sums_file(root)
    size = path.stat().st_size

    for position in range(size):
        flip(path, position, position % 8)
        found = list(check(root))
        flip(path, position, position % 8)

        assert [each.kind for each in found if each.is_damage] == []
        first = found[0]
        assert first.kind in ("sums", "uncovered")
        assert any(
            each.kind == "sums"
            and each.position == position // UNIT_DTYPE.itemsize * UNIT_DTYPE.itemsize
            for each in found
        )


@pytest.mark.parametrize("damage", ["removed", "emptied", "torn", "swapped"])
def test_files_of_sums_that_do_not_cover_the_log_are_named(tmp_path, damage):
    root = filled(tmp_path / "s")
    path = sums_file(root, 4096)
    if damage == "removed":
        path.unlink()
    elif damage == "emptied":
        path.write_bytes(b"")
    elif damage == "torn":
        os.truncate(path, path.stat().st_size // 2)
    else:
        path.write_bytes(sums_file(root).read_bytes())

    found = list(check(root))

    assert found
    assert {each.kind for each in found} <= {"sums", "uncovered"}
    assert all(4096 <= each.physical_offset < 8192 for each in found)


def test_a_part_of_the_log_is_checked_alone(tmp_path):
    root = filled(tmp_path / "s")
    records = records_of(root)
    first, last = records[3], records[-2]
    flip(log_file(root, first[0] // 4096 * 4096), first[0] % 4096 + 5)
    flip(log_file(root, last[0] // 4096 * 4096), last[0] % 4096 + 60)
    middle = records[10][0]

    head, tail = list(check(root, None, middle)), list(check(root, middle))

    assert [each.physical_offset for each in head] == [first[0]]
    assert [each.physical_offset for each in tail] == [last[0]]


def test_a_log_whose_last_record_is_damaged_has_lost_it(tmp_path):
    root = filled(tmp_path / "s")
    start, size, _ = records_of(root)[-1]
    flip(log_file(root, start // 4096 * 4096), start % 4096 + 50)

    (found,) = check(root)

    assert (found.kind, found.physical_offset, found.size) == ("missing", start, size)
    assert found.is_damage


def test_a_record_is_said_to_be_summed_as_it_was_written(tmp_path):
    root = filled(tmp_path / "s")
    start = records_of(root)[7][0]
    flip(log_file(root, start // 4096 * 4096), start % 4096 + 50)

    (found,) = check(root)

    assert (found.origin, found.made) == ("written", None)


def test_what_was_summed_later_vouches_only_for_what_was_read_then(tmp_path):
    clock = ManualClock()
    root = filled(tmp_path / "s", clock=clock, plugins=[])
    rotten = records_of(root)[7][0]
    flip(log_file(root, rotten // 4096 * 4096), rotten % 4096 + 50)
    clock.now += 86_400_000

    filled(root, 5, clock)  # the plugin is added, and sums what it finds
    late, fresh = records_of(root)[9][0], records_of(root)[-2][0]
    flip(log_file(root, late // 4096 * 4096), late % 4096 + 50)
    flip(log_file(root, fresh // 4096 * 4096), fresh % 4096 + 50)
    found = list(check(root))

    assert [each.physical_offset for each in found] == [late, fresh]
    assert (found[0].origin, found[0].made) == ("later", clock.now)
    assert (found[1].origin, found[1].made) == ("written", None)


@pytest.mark.shows("sums")
def test_mending_keeps_sums_that_are_sound(tmp_path):
    """A bit that flipped in the log meanwhile must not be vouched for."""
    clock = ManualClock()
    root = filled(tmp_path / "s", clock=clock)
    rotten = records_of(root)[2]
    flip(log_file(root), rotten[0] + 45)
    flip(sums_file(root), UNIT_DTYPE.itemsize * 5 + 9)  # of another record of the same file
    clock.now += 3_600_000

    with reput.open(root, clock=clock, threads=False) as store:
        store.wait_dispatched()
    found = list(check(root))

    assert [(each.kind, each.physical_offset, each.origin) for each in found] == [
        ("record", rotten[0], "written")
    ]
    with reput.open(root, "r", plugins=["integrity"]) as store:
        facts = store.plugin(IntegrityPlugin).reput_report()
    assert facts["log_size_summed_later"] == records_of(root)[5][1]


def test_records_summed_long_after_they_were_stored_are_summed_later(tmp_path):
    clock = ManualClock()
    options = {"config": SMALL, "plugins": ["integrity"], "threads": False, "clock": clock}
    with reput.open(tmp_path / "s", **options) as store:
        first = store.put(reput.Message("orders", b"quick"))
        store.wait_dispatched()
        second = store.put(reput.Message("orders", b"slow"))
        clock.now += 61_000
        store.wait_dispatched()
        checker = store.plugin(IntegrityPlugin).checker()
        origins = checker.origins()

        assert origins.of(first.physical_offset) == ("written", None)
        assert origins.of(second.physical_offset) == ("later", clock.now)


@pytest.mark.parametrize("damage", ["removed", "garbled"])
def test_without_origins_nothing_is_said_of_them(tmp_path, damage):
    root = filled(tmp_path / "s")
    start = records_of(root)[7][0]
    flip(log_file(root, start // 4096 * 4096), start % 4096 + 50)
    path = root / "integrity" / "origins"
    if damage == "removed":
        path.unlink()
    else:
        flip(path, 13)

    (found,) = check(root)
    with reput.open(root, threads=False, clock=ManualClock()) as store:
        store.wait_dispatched()
    (again,) = check(root)

    assert found.origin == "unknown"
    assert again.origin == "later"  # nobody knows better


def test_a_rebuild_gives_the_same_sums_and_keeps_what_they_vouch_for(tmp_path):
    root = filled(tmp_path / "s")
    before = {path.name: path.read_bytes() for path in (root / "integrity" / "sums").iterdir()}

    (checked,) = rebuild(root, ["integrity"], jobs=1, check=True)
    rebuild(root, ["integrity"], jobs=1)

    assert checked.differences == ()
    after = {path.name: path.read_bytes() for path in (root / "integrity" / "sums").iterdir()}
    assert after == before
    start = records_of(root)[7][0]
    flip(log_file(root, start // 4096 * 4096), start % 4096 + 50)
    (found,) = check(root)
    assert found.origin == "written"


def test_a_rebuild_says_which_sums_are_new(tmp_path):
    clock = ManualClock()
    root = filled(tmp_path / "s", clock=clock)
    sums_file(root, 4096).unlink()
    flip(sums_file(root), UNIT_DTYPE.itemsize * 5 + 9)

    rebuild(root, ["integrity"], jobs=1)
    records = records_of(root)
    inside = next(each for each in records if 4096 <= each[0] < 8192)
    flip(log_file(root, 4096), inside[0] % 4096 + 50)
    flip(log_file(root), records[4][0] + 50)
    flip(log_file(root), records[5][0] + 50)
    found = list(check(root))

    assert [each.physical_offset for each in found] == [records[4][0], records[5][0], inside[0]]
    assert [each.origin for each in found] == ["written", "later", "later"]


@pytest.mark.shows("sums")
def test_a_rebuild_hides_no_damage(tmp_path):
    clock = ManualClock()
    root = filled(tmp_path / "s", clock=clock)
    record = records_of(root)[7]
    at = bytes(log_file(root).read_bytes()).index(b"k7", record[0])
    flip(log_file(root), at)
    (before,) = check(root)

    for _ in range(2):
        rebuild(root, ["integrity"], jobs=1)
    with reput.open(root, clock=clock, threads=False) as store:
        store.wait_dispatched()
        beside = list(store.plugin(IntegrityPlugin).check())
    (after,) = check(root)
    (checked,) = rebuild(root, ["integrity"], jobs=1, check=True)
    flip(log_file(root), at)  # a copy brings the byte back

    assert after == before
    assert beside == [before]
    assert (after.physical_offset, after.origin) == (record[0], "written")
    assert [each.kind for each in checked.differences] == ["record"]
    assert list(check(root)) == []


@pytest.mark.costly
def test_disputes_that_are_damaged_are_told(tmp_path):
    root = filled(tmp_path / "s")
    record = records_of(root)[7]
    flip(log_file(root), bytes(log_file(root).read_bytes()).index(b"k7", record[0]))
    rebuild(root, ["integrity"], jobs=1)
    path = root / "integrity" / "disputes"
    size = path.stat().st_size

    for position in range(size):
        flip(path, position, position % 8)
        found = list(check(root))
        flip(path, position, position % 8)

        assert [(each.kind, each.path) for each in found] == [("sums", "integrity/disputes")]


def test_disputes_go_with_the_records_that_they_are_about(tmp_path):
    root = filled(tmp_path / "s")
    record = records_of(root)[7]
    flip(log_file(root), bytes(log_file(root).read_bytes()).index(b"k7", record[0]))
    rebuild(root, ["integrity"], jobs=1)
    log_file(root).unlink()

    with reput.open(root, threads=False, clock=ManualClock()) as store:
        store.wait_dispatched()
        disputes = store.plugin(IntegrityPlugin).checker().files
        disputes.load()

        assert disputes.disputes.rows == ()
    assert list(check(root)) == []


def test_a_trimmed_log_takes_its_sums_along(tmp_path):
    root = filled(tmp_path / "s")
    for folder in (log_file(root), sums_file(root)):
        assert folder.exists()
    log_file(root).unlink()

    with reput.open(root, threads=False, clock=ManualClock()) as store:
        store.wait_dispatched()

    assert not sums_file(root).exists()
    assert list(check(root)) == []


def test_a_store_open_for_writing_checks_itself(tmp_path):
    root = filled(tmp_path / "s")
    start = records_of(root)[7][0]
    with reput.open(root, threads=False, clock=ManualClock()) as store:
        plugin = store.plugin(IntegrityPlugin)
        sound = list(plugin.check())
        flip(log_file(root, start // 4096 * 4096), start % 4096 + 50)
        with reput.open(root, "r", plugins=["integrity"]) as reader:
            beside = list(reader.plugin(IntegrityPlugin).check())
        store.put(reput.Message("orders", b"meanwhile"))
        store.wait_dispatched()
        found = list(plugin.check())

    assert sound == []
    assert [each.physical_offset for each in beside] == [start]
    assert [each.physical_offset for each in found] == [start]


def test_a_comparison_with_a_rebuild_says_whether_the_log_or_the_sum_has_changed(tmp_path):
    root = filled(tmp_path / "s")
    start, size, number = records_of(root)[2]
    flip(sums_file(root), UNIT_DTYPE.itemsize * 5 + 9)

    (checked,) = rebuild(root, ["integrity"], jobs=1, check=True)
    position = bytes(log_file(root).read_bytes()).index(b"k2", start) + 1
    flip(log_file(root), position)  # in the properties, of which RocketMQ has no checksum
    (again,) = rebuild(root, ["integrity"], jobs=1, check=True)

    unit, record = checked.differences[0], again.differences[0]
    assert (unit.kind, unit.path) == ("unit", f"integrity/sums/{file_name(0)}")
    assert unit.position == UNIT_DTYPE.itemsize * 5
    assert (record.kind, record.path) == ("record", f"commitlog/{file_name(0)}")
    assert (record.position, record.size) == (start, size)
    assert record.messages[0].queue_offset == number


@pytest.mark.parametrize("damage", ["removed", "garbled"])
def test_a_comparison_names_origins_that_are_not_sound(tmp_path, damage):
    root = filled(tmp_path / "s")
    path = root / "integrity" / "origins"
    (before,) = rebuild(root, ["integrity"], jobs=1, check=True)
    if damage == "removed":
        path.unlink()
    else:
        flip(path, 12)

    (after,) = rebuild(root, ["integrity"], jobs=1, check=True)

    assert (before.differences, before.not_compared) == ((), ())
    assert [each.path for each in after.differences] == ["integrity/origins"]
