"""Power cuts with a table in the store: SQLite's commits take part, each as a whole.

SQLite does not write through `Disk`, so a simulated power cut would leave nothing of its file, and
each table would be made anew. Here every commit is also a durable replacement of a copy through the
simulated disk, which is what SQLite promises of a commit; where a power cut leaves the copy, the
table starts from it.
"""

from __future__ import annotations

import os

import pytest

from reput_counter import CounterPlugin
from reput_table.tablefile import TableFile
from reput_testing import CrashContract
from reput_testing.casebudget import is_one_case

COPY = ".committed"


class SmallParts(CounterPlugin):
    """Parts of the log of a few messages each."""

    name = "counter"
    part_size = 1_000


@pytest.fixture
def restored(monkeypatch):
    """Have the simulated disk see commits; list the places of tables that started from a copy."""
    commit, opening, places = TableFile.commit, TableFile.open.__func__, []

    def commit_and_copy(self):
        commit(self)
        with open(self.path, "rb") as file:
            self.disk.replace(self.path + COPY, file.read())

    def open_copy(cls, layout, path, disk, check_size):
        is_left = disk.exists(path + COPY) and not disk.exists(path)
        if is_left:
            with open(path, "wb") as file:
                file.write(disk.read_file(path + COPY))
        opened = opening(cls, layout, path, disk, check_size)
        if is_left:
            assert opened is not None, "a commit is a whole table"
            places.append(opened.dispatched_to)
        return opened

    monkeypatch.setattr(TableFile, "commit", commit_and_copy)
    monkeypatch.setattr(TableFile, "open", classmethod(open_copy))
    return places


class TestPowerCuts(CrashContract):
    plugin_type = SmallParts
    same_files = False

    def state(self, plugin: CounterPlugin) -> object:
        return plugin.contract_state()

    @pytest.fixture(autouse=True)
    def _commits_take_part(self, request, restored):
        yield
        if "leaves" in request.node.name:  # those that cut the power
            assert len(set(restored)) > 1 or "REPUT_CRASH_STATE" in os.environ or is_one_case()

    test_a_disk_that_fails_costs_nothing = None  # no power is cut there
