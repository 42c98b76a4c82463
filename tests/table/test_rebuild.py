"""Tables built from splits of the log by several processes, and compared with the store's."""

from __future__ import annotations

import sqlite3
import sys

import attrs
import pytest

import reput
from reput_testing import ManualClock, sample_log
from reput_tools.offline import rebuild

QUERY = "SELECT topic, tag, minute, messages, body_size FROM counter ORDER BY 1, 2, 3"


@pytest.fixture
def store(tmp_path, installed_counter):
    root, clock = tmp_path / "store", ManualClock()
    config = {"commitlog": {"file_size": 1 << 20}}
    views = list(sample_log().messages())
    with reput.open(root, plugins=[installed_counter], config=config, clock=clock) as store:
        for number in range(6):
            for view in views:
                clock.now = view.store_timestamp + number * 100_000
                message = view.to_message()
                store.put(attrs.evolve(message, body=message.body + bytes(7_000 + number)))
    return root


def counts(root):
    with reput.open(root, "r", plugins=["counter"]) as store:
        return store.plugin("counter").query(QUERY)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.costly
def test_a_table_is_rebuilt_from_splits(store, monkeypatch, jobs):
    expected = counts(store)
    monkeypatch.setattr(sys.modules["reput_table.plugin"].TablePlugin, "part_size", 64 << 20)

    (built,) = rebuild(store, jobs=jobs, split_size=1 << 18)

    assert (built.split_count > 1) == (jobs > 1)
    assert counts(store) == expected
    with reput.open(store, plugins=["counter"]) as opened:
        opened.put(reput.Message("more", b"1"))
        opened.wait_dispatched()
        (more,) = opened.plugin("counter").query("SELECT sum(messages) FROM counter")
    assert more[0] == sum(row[3] for row in expected) + 1


def test_a_table_is_compared_by_its_rows(store):
    (same,) = rebuild(store, jobs=1, split_size=1 << 18, check=True)
    path = store / "counter" / "table.sqlite"
    damaged = sqlite3.connect(path)
    damaged.execute('UPDATE "_rows" SET "messages" = "messages" + 1 WHERE "topic" = \'orders\'')
    damaged.commit()
    damaged.close()
    (other,) = rebuild(store, jobs=1, split_size=1 << 18, check=True)
    path.unlink()
    (missing,) = rebuild(store, jobs=1, split_size=1 << 18, check=True)

    assert (same.differences, same.not_compared) == ((), ())
    (found,) = other.differences
    assert found.path == "counter/table.sqlite"
    assert "'orders'" in found.reason
    assert "from the log follows" in found.reason
    assert [each.reason for each in missing.differences] == ["the file is missing"]


def test_rows_that_are_not_dispatched_yet_are_not_compared(store):
    with reput.open(store, plugins=["counter"]) as opened:
        opened.suspend_plugin("counter")
        opened.put(reput.Message("orders", b"later"))

    (found,) = rebuild(store, jobs=1, check=True)

    assert found.differences == ()
    assert "not dispatched yet" in found.not_compared[0]
