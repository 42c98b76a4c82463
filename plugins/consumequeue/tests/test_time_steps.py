"""Searches by time in stores whose clock was set back, once or all the time."""

from __future__ import annotations

import json
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statefiles import put_value, value_of

import reput
from reput_testing import ManualClock, QuickDisk

CONFIG = {"commitlog": {"file_size": 4096}, "consumequeue": {"units_per_file": 7}}
BASE, HOUR = 1_700_000_000_000, 3_600_000


class Timed:
    """A store whose clock the test sets, and the store times of its queues."""

    def __init__(self, root):
        self.root, self.clock = root, ManualClock(BASE)
        self.times: dict[tuple[str, int], list[int]] = {}
        self.open()

    def open(self):
        self.store = reput.open(
            self.root,
            plugins=["consumequeue"],
            config=CONFIG,
            disk=QuickDisk(),
            clock=self.clock,
            threads=False,
        )

    def put(self, now, topic="t", queue_id=0):
        self.clock.now = now
        self.store.put(reput.Message(topic, b"x", queue_id))
        self.times.setdefault((topic, queue_id), []).append(now)

    def kill(self):
        """Go on with what a kill leaves of the store."""
        left = self.root.with_name(f"{self.root.name}'")
        shutil.copytree(self.root, left)
        (left / "lock").unlink()
        self.store.close()
        self.root = left
        self.open()

    def check(self, store=None, low=0):
        store = store or self.store
        store.wait_dispatched()
        for (topic, queue_id), times in self.times.items():
            for timestamp in sorted({each + by for each in times for by in (-1, 0, 1)}):
                later = [at for at, time in enumerate(times) if time >= timestamp and at >= low]
                until = [at for at, time in enumerate(times) if time <= timestamp and at >= low]
                lower = store.offset_by_time(topic, queue_id, timestamp)
                upper = store.offset_by_time(topic, queue_id, timestamp, "upper")
                assert lower == (later[0] if later else len(times)), timestamp
                assert upper == (until[-1] if until else low), timestamp


@pytest.fixture
def timed(tmp_path):
    made = Timed(tmp_path / "store")
    yield made
    made.store.close()


def runs_of(timed):
    value = value_of(timed.root, ".times")
    return json.loads(value) if value else None


def test_messages_stored_before_the_clock_was_set_back_are_found(timed):
    for number in range(10):
        timed.put(BASE + 2 * HOUR + number * 1_000)
    for number in range(30):
        timed.put(BASE + number * 1_000)

    timed.check()
    timed.store.flush()

    [first, second] = runs_of(timed)
    assert first == [0, 0, BASE + 2 * HOUR + 9_000, True]
    assert second[1:] == [BASE, None, True]
    message = next(iter(timed.store.read("t", 0, 10, 1)))
    assert second[0] == message.physical_offset


def test_a_store_whose_clock_goes_on_has_no_runs(timed):
    for number in range(20):
        timed.put(BASE + number // 3)
    timed.check()
    timed.store.close()
    timed.open()
    timed.put(BASE + 100)
    timed.check()
    timed.store.flush()

    assert runs_of(timed) is None


def test_a_reader_beside_the_writer_finds_them_too(timed):
    for now in (BASE + HOUR, BASE, BASE + 1):
        timed.put(now)
    timed.store.wait_dispatched()
    timed.store.flush()
    with reput.open(timed.root, "r", disk=QuickDisk()) as reader:
        timed.check(reader)
        timed.put(BASE - HOUR)
        timed.store.wait_dispatched()
        timed.store.flush()
        timed.check(reader)


def test_runs_of_removed_files_are_forgotten(timed):
    for back in range(6):
        for number in range(30):
            timed.put(BASE - back * HOUR + number)
    timed.store.wait_dispatched()
    timed.store.flush()
    assert len(runs_of(timed)) == 6

    timed.store.trim_log(timed.store.log.file_offsets[-2])
    timed.store.flush()

    assert 1 <= len(runs_of(timed)) < 6
    timed.check(low=timed.store.queues()[0].min_queue_offset)


def test_a_queue_that_is_built_anew_knows_the_runs(timed):
    for now in (BASE + HOUR, BASE + HOUR + 1, BASE, BASE + 1):
        timed.put(now)
    timed.store.close()
    for name in ("consumequeue", "reput/state"):
        path = timed.root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    timed.open()

    timed.check()


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b"[[0,0,null,true],[9,0,null,true]]",
        b"[[5,0,1,true],[5,0,null,true]]",
        b"[[0,-1,null,true]]",
        b"[[0,0,null,1]]",
        b"[[0,0]]",
        b"7",
    ],
)
def test_runs_that_cannot_be_read_count_as_none(timed, text, caplog):
    for number in range(5):
        timed.put(BASE + number)
    timed.store.wait_dispatched()
    timed.store.close()
    put_value(timed.root, ".times", text)
    timed.open()

    timed.check()
    assert "runs of store times ignored" in caplog.text


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([0, 1, 1, 5, 100, -1, -3, -50, -1_000]),
            st.sampled_from([("a", 0), ("a", 0), ("a", 1), ("b", 0)]),
            st.sampled_from(["", "", "", "", "dispatch", "flush", "reopen", "kill"]),
        ),
        min_size=1,
        max_size=40,
    ),
    most=st.sampled_from([2, 4, 1_024]),
)
def test_both_boundaries_are_those_of_all_messages(tmp_path_factory, steps, most):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("reput.log.timeruns._RUNS_MAX", most)
        timed, now = Timed(tmp_path_factory.mktemp("t") / "store"), BASE
        try:
            for by, place, then in steps:
                now += by
                timed.put(now, *place)
                match then:
                    case "dispatch":
                        timed.store.wait_dispatched()
                    case "flush":
                        timed.store.wait_dispatched()
                        timed.store.flush()
                    case "reopen":
                        timed.store.close()
                        timed.open()
                    case "kill":
                        timed.store.flush()
                        timed.kill()
            timed.check()
        finally:
            timed.store.close()
        found = runs_of(timed)
        assert found is None or len(found) <= most + 1
