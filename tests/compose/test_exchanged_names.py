"""Files whose names carry their order, exchanged, doubled, shifted or gone: verify reports them."""

from __future__ import annotations

import shutil

import mixedplan as plan
import pytest
from mixedshop import Shop

from reput_testing import QuickDisk
from reput_tools.doctor import Severity, verify

for module in ("compaction", "consumequeue", "filter", "index", "schedule", "transaction"):
    pytest.importorskip(f"reput_{module}")

# A timer log of many files.
SIZES = {**plan.SIZES, "schedule": {**plan.SIZES["schedule"], "timer_log_file_size": 1_040}}
pytestmark = pytest.mark.sizes(**SIZES)


def exchange(files):
    first, second = files[0].read_bytes(), files[-1].read_bytes()
    files[0].write_bytes(second)
    files[-1].write_bytes(first)


def double(files):
    shutil.copy(files[0], next_of(files))


def shift(files):
    files[-1].rename(next_of(files))


def next_of(files):
    step = int(files[1].name) - int(files[0].name)
    return files[-1].with_name(f"{int(files[-1].name) + step:020d}")


def lose(files):
    files[len(files) // 2].unlink()


@pytest.fixture
def store(tmp_path):
    """A store that was closed, with several files of each kind."""
    shop = Shop(tmp_path / "store", QuickDisk())
    shop.open()
    for number in range(24):
        shop.timed(100_000 + number * 500)
    for number in range(60):
        shop.keyed(number % 30)
    shop.store.wait_dispatched()
    shop.pass_time(6_000)
    shop.compact()
    shop.close()
    return shop.root


@pytest.mark.proof
@pytest.mark.costly
@pytest.mark.parametrize(
    ("directory", "damages"),
    [
        ("compaction/compactionLog/latest/0", (exchange, double, shift, lose)),
        ("compaction/compactionCq/latest/0", (exchange, double, shift, lose)),
        ("timerlog", (exchange, shift, lose)),
    ],
)
def test_names_that_contradict_contents_are_damage(store, tmp_path, directory, damages):
    assert verify(store, jobs=1).is_healthy

    for damage in damages:
        sick = tmp_path / damage.__name__
        shutil.copytree(store, sick)
        files = sorted((sick / directory).iterdir())
        assert len(files) > 2
        damage(files)
        report = verify(sick, jobs=1)
        found = {each.kind for each in report.findings if each.severity is Severity.DAMAGE}
        assert found, f"{damage.__name__}: nothing is found"
        assert damage is not exchange or "store.entry" in found
