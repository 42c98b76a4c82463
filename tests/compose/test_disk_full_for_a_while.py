"""All first-party plugins in one store whose disk is full for some operations, then has space.

Whichever operation finds the disk full, at an opening, a put, a dispatch, a flush, a delivery or a
compaction: puts may fail meanwhile, and all goes on by itself afterwards. No plugin is suspended,
nothing acknowledged is missing, and the files are those of a rebuild.
"""

from __future__ import annotations

import random

import attrs
import pytest

pytest.importorskip("reput_compaction")
pytest.importorskip("reput_consumequeue")
pytest.importorskip("reput_filter")
pytest.importorskip("reput_index")
pytest.importorskip("reput_schedule")
pytest.importorskip("reput_transaction")

import mixedplan as plan
from mixedrest import bring_to_rest, check_back, look_as_reader
from mixedshop import SECTIONS, Shop

from reput.errors import ReputError
from reput_testing import FaultyDisk, ManualClock, QuickDisk, copy_store
from reput_testing.casebudget import is_soak, part
from reput_testing.crashes.faultsweep import no_pauses
from reput_testing.disks.failingdisk import CHANGING

pytestmark = [pytest.mark.proof, pytest.mark.sizes(**plan.SIZES)]

WRITING = CHANGING - {"flush", "flush_directory", "remove"}
"""Operations that find a disk full, and lose nothing then."""
EVERY = 24 if is_soak() else 61
"""Every how many operations one finds the disk full."""
FIRST = range(1, EVERY + 1) if is_soak() else [1]
"""The first that does."""
COUNTS = (1, 3, 40)
"""Operations for which the disk is full."""


def lived(root, disk):
    """A store whose life is over, but for the closing; what fails meanwhile is not repeated."""
    shop = Shop(root, disk)
    opened(shop)
    shop.store.plugin("transaction").on_check(check_back)
    for _ in range(2):
        for step in (shop.some_of_all, lambda: shop.pass_time(700), shop.compact):
            tried(step)
            tried(shop.store.wait_dispatched)
            tried(shop.store.flush)
    return shop


def opened(shop):
    for _ in range(max(COUNTS) + 2):
        if tried(shop.open):
            return
    pytest.fail("the store cannot be opened, though there is space")


def tried(call):
    """Whether a call returns; a program that is told of the failure goes on, too."""
    try:
        call()
    except (ReputError, OSError):
        return False
    return True


@pytest.mark.shows("full-disk")
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.costly
def test_the_store_goes_on_by_itself(first, tmp_path, record_property):
    root = tmp_path / "counted"
    disk = FaultyDisk(operations=WRITING)
    with no_pauses():
        lived(root, disk).close()
    numbers = part(range(first, len(disk.calls), EVERY))

    for number in numbers:
        root, count = tmp_path / str(number), COUNTS[number % len(COUNTS)]
        disk = FaultyDisk(number, count=count, operations=WRITING)
        with no_pauses():
            shop = lived(root, disk)
            disk.mend()
            first_full = disk.calls[number - 1 : number]  # none: threads make no fixed number
            goes_on(shop, f"{first_full}, {count} operations from {number} on")
        look_as_reader(root, shop.judge)
        bring_to_rest(
            root, shop.judge, SECTIONS, shop.clock(), random.Random(7), compares=number % 2 == 0
        )

    record_property("full disks", len(numbers))


@pytest.mark.shows("full-disk")
@pytest.mark.costly
def test_an_opening_after_a_kill_that_finds_the_disk_full_changes_no_answer(
    tmp_path, record_property
):
    shop = Shop(tmp_path / "store", QuickDisk())
    shop.live()
    killed = tmp_path / "killed"
    copy_store(shop.root, killed)
    shop.learn()
    shop.close()
    disk = FaultyDisk(operations=WRITING)
    copy_store(killed, tmp_path / "counted")
    counted = attrs.evolve(shop, root=tmp_path / "counted", disk=disk)
    counted.open()
    numbers = part(range(1, len(disk.calls) + 1, 1 if is_soak() else 7))
    counted.close()

    for number in numbers:
        is_closed = number % 4 > 1
        disk = FaultyDisk(number, count=COUNTS[number % len(COUNTS)], operations=WRITING)
        left = attrs.evolve(
            shop,
            root=tmp_path / str(number),
            disk=disk,
            clock=ManualClock(shop.clock()),
            judge=shop.judge.copy(),
            chance=random.Random(number),
        )
        copy_store(killed, left.root)
        with no_pauses():
            opened(left)
            disk.mend()
            works_and_trims(left)
            if is_closed:
                left.close()
                left.open()
            goes_on(left, f"{disk.calls[number - 1 : number]}, closed {is_closed}")
        look_as_reader(left.root, left.judge)
        bring_to_rest(
            left.root, left.judge, SECTIONS, left.clock(), random.Random(7), compares=False
        )

    record_property("full disks", len(numbers))


def works_and_trims(shop):
    """Use the store while some plugins may not be usable."""
    tried(shop.some_of_all)
    tried(lambda: shop.pass_time(700))
    tried(lambda: shop.clean(2))


def goes_on(shop, what):
    """Check that all plugins run, and close the store."""
    store = shop.store
    store._parts.writing().members.tick()  # on a thread of the store's, if it has any
    assert store.wait_dispatched(60), what
    store.flush()
    states = {each.name: (each.state, each.last_error) for each in store.plugins()}
    assert {state for state, _ in states.values()} == {"running"}, (what, states)
    shop.some_of_all()
    shop.pass_time(700)
    store.flush()
    shop.close()
