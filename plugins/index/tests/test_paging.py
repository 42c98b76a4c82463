"""Going on behind an answer: nothing twice, nothing missing, no chain walked again and again."""

from __future__ import annotations

import itertools

import pytest

import reput
import reput_index.query.keyquery as query_module
from reput.files import Disk
from reput_index import IndexConfig, IndexPlugin
from reput_testing import Driver, SmallLog

COUNT = 4_000
FIRST, LAST = -(1 << 63), (1 << 63) - 1


class CountingDisk(Disk):
    """Counts the bytes that are read."""

    read_size = 0

    def read(self, descriptor, size, position):
        data = super().read(descriptor, size, position)
        self.read_size += len(data)
        return data


def ask(plugin, key, **options):
    question = {"begin": FIRST, "end": LAST, "limit": None, "oldest_first": False, **options}
    question = {"after": None, **question}
    return plugin.reput_query(topic="T", key=key, **question)


def offsets(answer):
    return [message.physical_offset for message in answer]


def pages(plugin, key, **options):
    """Offsets page by page."""
    found, after = [], None
    while True:
        answer = ask(plugin, key, after=after, **options)
        found.append(offsets(answer))
        if answer.is_complete:
            return found
        after = answer.after


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A log of messages with the same two keys, one of them twice, and the index over it."""
    log, root = SmallLog(1 << 16), tmp_path_factory.mktemp("x")
    for number in range(COUNT):
        keys = "all all odd" if number % 2 else "all"
        log.append(reput.Message("T", b"", keys=keys), after_ms=10)
    driver = Driver(
        IndexPlugin(IndexConfig(slots_per_file=7, items_per_file=9_000)),
        "index",
        root,
        log,
        disk=CountingDisk(),
    )
    with driver:
        driver.catch_up()
        driver.flush()
        yield driver


@pytest.mark.proof
@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("chain_max", [1, 50, 1 << 16])
@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_pages_together_are_the_whole_answer(stored, limit, chain_max, oldest_first, monkeypatch):
    monkeypatch.setattr(query_module, "_CHAIN_MAX", chain_max)
    plugin, starts = stored.plugin, stored.log.starts
    first = COUNT - 60 if limit == 1 else COUNT - 3_000
    begin = stored.log.store_timestamp_at(starts[first])
    for key, step in (("all", 1), ("odd", 2)):
        expected = [start for number, start in enumerate(starts) if number % step == step - 1]
        expected = [start for start in expected if start >= starts[first]]

        found = pages(plugin, key, limit=limit, oldest_first=oldest_first, begin=begin)

        assert list(itertools.chain(*found)) == (expected if oldest_first else expected[::-1])
        assert all(len(page) == limit for page in found[:-1])


@pytest.mark.parametrize("oldest_first", [False, True])
def test_a_page_far_from_the_beginning_costs_no_more_than_the_first(
    stored, oldest_first, monkeypatch
):
    monkeypatch.setattr(query_module, "_CHAIN_MAX", 100)
    monkeypatch.setattr("reput_index.query.hashsearch._FIRST_CHUNK", 64)
    disk, starts = stored.disk, stored.log.starts

    costs = []
    for place in range(101, COUNT - 100, 500):
        before = disk.read_size
        answer = ask(stored.plugin, "odd", limit=2, after=starts[place], oldest_first=oldest_first)
        costs.append(disk.read_size - before)
        assert len(answer) == 2

    assert max(costs) < 30_000  # the items are 160,000 bytes
    assert max(costs) < 4 * min(costs)


@pytest.mark.parametrize("oldest_first", [False, True])
def test_a_place_without_the_key_will_do_as_well(stored, oldest_first):
    """``after`` may be any physical offset, of a message with other keys or of none."""
    starts = stored.log.starts
    odd = starts[1::2]
    for after in (starts[100], starts[101], starts[101] + 1, -5, starts[-1] + 1, 1 << 62):
        found = offsets(ask(stored.plugin, "odd", after=after, oldest_first=oldest_first))
        if oldest_first:
            assert found == [start for start in odd if start > after]
        else:
            assert found == [start for start in odd if start < after][::-1]
