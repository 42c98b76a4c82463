"""All first-party plugins in one store that is killed between every two file operations.

Whatever is under way then: a flush, closing, recovering, deliveries, compaction, retention, a
backfill or a rebuild. A reader looks at the directory at each of these moments; every copy is
opened for reading and for writing, with the clock where it was and beyond what was due, and
brought to rest. With ``REPUT_SOAK=1`` at every moment, else at some that are spread evenly.
"""

from __future__ import annotations

import os
import random

import pytest

pytest.importorskip("reput_compaction")
pytest.importorskip("reput_consumequeue")
pytest.importorskip("reput_filter")
pytest.importorskip("reput_index")
pytest.importorskip("reput_schedule")
pytest.importorskip("reput_transaction")

import mixedplan as plan
from mixedreader import Reader
from mixedrest import bring_to_rest, look_as_reader
from mixedshop import SECTIONS, Shop

import reput
from reput.log import ProgressEntry, StateFile
from reput_testing import KillPoints, QuickDisk, copy_store
from reput_tools.offline import rebuild

pytestmark = [pytest.mark.proof, pytest.mark.sizes(**plan.SIZES), pytest.mark.shows("kill")]

EVERY = 9
"""At each so many-th operation a reader looks and a copy is made, where time is short."""
MOST = 1
"""Copies of each story that are tried then."""
JUMPS_MS = (0, 700, 60_000)
"""How far the clock has gone when the store is opened again: what waits is not due, partly, all."""


class Beside:
    """Reads the directory itself at each of the moments; most of the time in one opening."""

    def __init__(self, root):
        self.root, self.lines, self.store = root, [], None
        self.reader = Reader(random.Random(7), self.note)
        self.count = 0

    def note(self, event, **facts):
        self.lines.append({"event": event, **facts})

    def look(self, operation):
        if self.store is None:
            self.store = reput.open(self.root, "r", disk=QuickDisk())
        self.reader.look(self.store)
        self.count += 1
        if self.count % 7 == 0:
            self.close()

    def close(self):
        if self.store is not None:
            self.store.close()
        self.store = None


@pytest.fixture
def shop(tmp_path):
    root = tmp_path / "store"
    root.mkdir()
    beside = Beside(root)
    disk = KillPoints(root, tmp_path / "killed", beside=beside.look, every=EVERY)
    shop = Shop(root, disk)
    shop.live()
    yield shop
    beside.close()
    if not shop.store.closed:
        shop.store.close()


def judge_each(shop, tmp_path, record_property):
    """Judge what a kill would have left at each of the moments, and what the reader saw."""
    disk = shop.disk
    lines = disk._beside.__self__.lines

    def check(root, point):
        judge, compares = shop.judge.copy(), point.number % 3 == 0
        look_as_reader(root, judge)
        now = shop.clock() + JUMPS_MS[point.number % 3]
        bring_to_rest(root, judge, SECTIONS, now, random.Random(7), compares=compares)

    count = disk.check_each(check, MOST)
    end = shop.judge.copy()
    end.floor = max(end.floor, shop.floor)
    look_as_reader(shop.root, end)
    end.check_reader(lines)
    assert lines
    record_property("kill points", count)


@pytest.mark.costly
def test_a_flush(shop, tmp_path, record_property):
    with shop.disk.watching():
        shop.store.flush()

    judge_each(shop, tmp_path, record_property)


@pytest.mark.costly
def test_deliveries_check_backs_and_the_flush_after_them(shop, tmp_path, record_property):
    with shop.disk.watching():
        shop.pass_time(500)
        shop.store.flush()

    judge_each(shop, tmp_path, record_property)


@pytest.mark.costly
def test_closing(shop, tmp_path, record_property):
    with shop.disk.watching():
        shop.close()

    judge_each(shop, tmp_path, record_property)


@pytest.mark.costly
def test_recovering_from_a_kill(shop, tmp_path, record_property):
    shop.store.flush()
    shop.some_of_all()
    killed(shop, tmp_path)

    with shop.disk.watching():
        shop.open()
        shop.store.wait_dispatched()
        shop.store.flush()

    judge_each(shop, tmp_path, record_property)


@pytest.mark.costly
def test_a_run_of_compaction(shop, tmp_path, record_property):
    for number in range(12):
        shop.keyed(number % 2)
    shop.store.wait_dispatched()

    with shop.disk.watching():
        shop.compact()
        shop.store.flush()

    judge_each(shop, tmp_path, record_property)


@pytest.mark.costly
def test_the_head_of_the_log_is_removed(shop, tmp_path, record_property):
    shop.pass_time(20_000)
    for _ in range(60):
        shop.plain()
    shop.store.wait_dispatched()
    shop.store.flush()

    with shop.disk.watching():
        shop.clean(2)
        shop.store.flush()

    assert shop.floor > 0
    judge_each(shop, tmp_path, record_property)


@pytest.mark.parametrize("plugin", ["consumequeue", "index", "schedule", "transaction"])
@pytest.mark.costly
def test_a_backfill(plugin, shop, tmp_path, record_property):
    shop.close()
    with shop.disk.watching():
        ProgressEntry(StateFile.of(str(shop.root), shop.disk), plugin).reset()
        shop.open()
        shop.store.wait_dispatched()
        shop.store.flush()

    judge_each(shop, tmp_path, record_property)


@pytest.mark.costly
def test_a_rebuild(shop, tmp_path, record_property):
    shop.close()

    with shop.disk.watching():
        rebuild(shop.root, jobs=1, disk=shop.disk)

    judge_each(shop, tmp_path, record_property)


def killed(shop, tmp_path):
    """Go on with what a kill leaves of the open store."""
    left = tmp_path / "left"
    copy_store(shop.root, left)
    shop.close()
    os.rename(shop.root, tmp_path / "closed")
    os.rename(left, shop.root)


def test_there_is_a_bit_of_everything_under_way(shop):
    waiting = {plan.kind_of(name) for name in shop.judge.told}

    assert waiting == set(plan.TOPIC_OF)
    assert shop.store.plugin("schedule").scheduled().message_count > 0
    assert shop.store.plugin("transaction").dangling()
