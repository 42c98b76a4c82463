"""What a store counts of its work: waits for the disk, reads, failures of plugins."""

from __future__ import annotations

import pytest

import reput
from reput.log.writer.groupcommit import WAIT_BOUNDS, WaitCounts
from reput.plugin import Plugin, ReadResult

pytestmark = pytest.mark.sizes(dispatch={"retry_pause_ms": 1})

SMALL = {"commitlog": {"file_size": 1 << 16}}


def test_waits_are_counted_by_the_bound_that_they_keep():
    waits = WaitCounts()

    for seconds in (0.0, 0.0001, 0.00011, 0.3, 99.0):
        waits.add(seconds)

    facts = waits.facts()
    assert facts["count"] == 5
    assert facts["seconds"] == pytest.approx(99.30021)
    assert [pair for pair in facts["by_seconds"] if pair[1]] == [
        [0.0001, 2],
        [0.00025, 1],
        [0.5, 1],
        [None, 1],
    ]
    assert [pair[0] for pair in facts["by_seconds"]] == [*WAIT_BOUNDS, None]


@pytest.mark.parametrize(("flush", "waited"), [("sync", 3), ("async", 0)])
def test_puts_that_wait_for_the_disk_are_counted(tmp_path, flush, waited):
    config = {"commitlog": SMALL["commitlog"] | {"flush": flush}}
    with reput.open(tmp_path / "s", plugins=[], config=config, threads=False) as store:
        before = store.report()["log"]["flush_waits"]["count"]
        for _ in range(3):
            store.put(reput.Message("T", b"x"))
        waits = store.report()["log"]["flush_waits"]

    assert waits["count"] == before + waited
    assert (waits["seconds"] > 0) == (waited > 0)


class Reader(Plugin):
    name = "reader"

    @reput.hookimpl
    def reput_read(self, queue_offset):
        return ReadResult(reput.ReadStatus.NO_MESSAGE_IN_QUEUE, queue_offset, 0, 0)


def test_reads_are_counted(tmp_path):
    with reput.open(tmp_path / "s", plugins=[Reader()], config=SMALL, threads=False) as store:
        before = store.report()["reads"]
        for _ in range(4):
            store.read("T", 0, 0)

        assert before == {"count": 0, "message_count": 0}
        assert store.report()["reads"] == {"count": 4, "message_count": 0}


class Failing(Plugin):
    name = "failing"

    @reput.hookimpl
    def reput_dispatch(self, batch):
        raise RuntimeError("not today")


def test_failures_of_a_plugin_are_counted(tmp_path):
    config = SMALL | {"dispatch": {"retry_count": 2}}
    with reput.open(tmp_path / "s", plugins=[Failing()], config=config) as store:
        store.put(reput.Message("T", b"x"))
        store.wait_dispatched(10)
        (state,) = store.plugins()

    assert state.state == "suspended"
    assert state.failure_count == 3  # two of them tried again
