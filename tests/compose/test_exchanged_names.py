"""Files whose names carry their order, exchanged, doubled, shifted or gone: verify reports them.

``REPUT_FUZZ_EXAMPLES`` is the number of random cases; ``REPUT_FUZZ_CASE`` is the one to repeat.
"""

from __future__ import annotations

import os
import random
import shutil

import mixedplan as plan
import pytest
from dledgerlog import DLedgerLog
from mixedshop import Shop
from zoo.names import DAMAGES, numbered
from zoo.stores import records_of

from reput_testing import QuickDisk, snapshot
from reput_tools.doctor import Severity, verify

for module in ("compaction", "consumequeue", "filter", "index", "schedule", "transaction"):
    pytest.importorskip(f"reput_{module}")

# A timer log of many files.
SIZES = {**plan.SIZES, "schedule": {**plan.SIZES["schedule"], "timer_log_file_size": 1_040}}
pytestmark = [pytest.mark.sizes(**SIZES), pytest.mark.proof, pytest.mark.costly]

DIRECTORIES = (
    "commitlog",
    "compaction/compactionCq/latest/1",
    "compaction/compactionLog/latest/1",
    "consumequeue/latest/1",
    "consumequeue_ext/rmq_sys_wheel_timer/0",
    "index",
    "reput/compaction/latest/1",
    "timerlog",
    "transaction",
)
UNSEEN = {
    # An older snapshot is used, and more of the log is read.
    ("transaction", "lose_first"),
    ("transaction", "lose_middle"),
    ("transaction", "lose_last"),
}
CASE_VARIABLE = "REPUT_FUZZ_CASE"


def make(root):
    """Make a store with several files of each kind, and close it."""
    shop = Shop(root, QuickDisk())
    shop.open()
    for number in range(24):
        shop.timed(100_000 + number * 500)
    for number in range(60):
        shop.keyed(number % 30)
        shop.half(plan.COMMITTED, ends=number % 3 > 0)
    shop.store.wait_dispatched()
    shop.pass_time(6_000)
    shop.compact()
    shop.close()


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """The files of such a store, which verify finds healthy; made once."""
    found = {}

    def files(root):
        if not found:
            make(root)
            assert verify(root, jobs=1).findings == ()
            found["root"] = shutil.copytree(root, tmp_path_factory.mktemp("names") / "store")
        return found["root"]

    return files


@pytest.fixture
def store(healthy, tmp_path):
    """Such a store."""
    return healthy(tmp_path / "store")


def damage_of(root):
    """Return what verify calls damage, or worse."""
    return {each.kind for each in verify(root, jobs=1).findings if each.severity > Severity.NOTICE}


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("compaction/compactionLog/latest/1", "exchange"),
        ("consumequeue_ext/rmq_sys_wheel_timer/0", "double"),
        ("reput/compaction/latest/1", "exchange"),
        ("reput/compaction/latest/1", "lose_first"),
        ("timerlog", "double"),
        ("timerlog", "lose_first"),
        ("timerlog", "overwrite"),
        ("transaction", "shift_all"),
    ],
)
def test_names_that_contradict_contents_are_damage(store, tmp_path, directory, name):
    sick = shutil.copytree(store, tmp_path / "sick")
    files = numbered(sick / directory)
    assert len(files) > 1

    DAMAGES[name](files)

    assert damage_of(sick) in ({"store.entry"}, {"consumequeue.extra"})


def chosen():
    if one := os.environ.get(CASE_VARIABLE):
        return [int(one)]
    return range(int(os.environ.get("REPUT_FUZZ_EXAMPLES") or 6))


@pytest.mark.parametrize("number", chosen())
def test_random_damage_to_names_is_noticed(store, tmp_path, number):
    chance = random.Random(f"names {number}")
    directory, name = chance.choice(DIRECTORIES), chance.choice(sorted(DAMAGES))
    sick = shutil.copytree(store, tmp_path / "sick")

    DAMAGES[name](numbered(sick / directory))

    assert bool(damage_of(sick)) is ((directory, name) not in UNSEEN), f"{name} in {directory}"


@pytest.mark.parametrize("name", ["exchange", "double", "shift_all", "overwrite", "lose_middle"])
def test_index_files_of_dledger_that_contradict_entries_are_damage(store, tmp_path, name):
    log = DLedgerLog(tmp_path / "ledger", index_size=32 * 16)
    records = records_of(snapshot(store))
    for _, message in sorted(records.items())[:60]:
        log.append(message.record)
    before = damage_of(log.write().root)  # nothing was derived yet

    DAMAGES[name](numbered(log.folder / "index"))

    assert damage_of(log.root) - before == {"log.dledger-index"}
