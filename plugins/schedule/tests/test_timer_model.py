"""The timer against a plain dict: random delays, cancellations, clocks that jump, and crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from timerstores import DAY, TimerStore

from reput_schedule.timerwheel.timerparking import rounded
from reput_testing.casebudget import is_soak, part_of_count

PRECISION = 1000
DELAYS = st.one_of(
    st.integers(1, 3_000),
    st.integers(1, 3_600_000),
    st.integers(1, 20 * DAY),
    st.sampled_from([1, 999, 1000, 1001, 172_800_000, 172_801_000, 259_200_000, 230_400_000]),
)
LOST = ["timerwheel", "timerlog", "config/timercheck", "config/timermetrics", "reput/state"]
STEPS = st.one_of(
    st.tuples(st.just("put"), DELAYS),
    st.tuples(st.just("put"), DELAYS),
    st.tuples(st.just("cancel"), st.integers(0, 30)),
    st.tuples(st.just("pass"), st.one_of(st.integers(0, 5_000), st.integers(0, 8 * DAY))),
    st.tuples(st.just("jump"), st.one_of(st.integers(-5_000, 5_000), st.integers(-DAY, 30 * DAY))),
    st.tuples(st.just("work"), st.integers(1, 3)),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("reopen"), st.none()),
    st.tuples(
        st.just("crash"), st.tuples(st.sets(st.sampled_from(LOST), max_size=3), st.booleans())
    ),
)


class Model:
    """What was put, for when, and what was cancelled in time."""

    def __init__(self, root: Path) -> None:
        self.timer = TimerStore(root / "store", precision_ms=PRECISION)
        self.times: dict[str, int] = {}
        self.cancelled: set[str] = set()
        self.noon = self.timer.clock()

    def put(self, delay: int) -> None:
        name = f"m{len(self.times)}"
        self.times[name] = self.timer.clock() + delay
        self.timer.put_in(name, delay)

    def cancel(self, number: int) -> None:
        left = [name for name in self.times if name not in self.delivered()]
        left = [name for name in left if self.times[name] > self.timer.clock()]
        if left:
            name = left[number % len(left)]
            self.timer.cancel(name, self.times[name])
            self.cancelled.add(name)

    def delivered(self) -> list[str]:
        return self.timer.bodies()

    def jump(self, by: int) -> None:
        self.timer.clock.now = max(self.noon - 5 * DAY, self.timer.clock() + by)

    def crash(self, lost: set[str], cut: bool) -> None:
        self.timer.crash()
        for name in sorted(lost):
            path = self.timer.root / name
            if path.is_dir() and cut and name == "timerlog":
                for file in path.iterdir():
                    with file.open("r+b") as opened:
                        opened.truncate(file.stat().st_size // 3)
            elif path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
        self.timer.open()

    def step(self, name: str, argument) -> None:
        if name == "put":
            self.put(argument)
        elif name == "cancel":
            self.cancel(argument)
        elif name == "pass":
            self.timer.run_until(self.timer.clock() + argument)
            self.check_nothing_is_late()
        elif name == "jump":
            self.jump(argument)
        elif name == "work":
            for _ in range(argument):
                self.timer.store.work()
        elif name == "flush":
            self.timer.store.flush()
        elif name == "reopen":
            self.timer.reopen()
        else:
            self.crash(*argument)
        self.check_nothing_came_twice_or_early()

    def check_nothing_came_twice_or_early(self) -> None:
        found = self.timer.messages()
        names = [message.body.decode() for message in found]
        assert len(names) == len(set(names)), "delivered twice"
        for message in found:
            name = message.body.decode()
            assert name not in self.cancelled, "delivered though cancelled"
            assert message.store_timestamp >= self.times[name], "delivered too early"

    def check_nothing_is_late(self) -> None:
        found, now = set(self.delivered()), self.timer.clock()
        for name, time in self.times.items():
            if name not in found and name not in self.cancelled:
                assert rounded(time, PRECISION) + PRECISION > now, f"{name} is late"

    def check_nothing_is_lost(self) -> None:
        end = max([*self.times.values(), self.timer.clock()]) + PRECISION
        self.timer.run_until(end)
        assert set(self.delivered()) == self.times.keys() - self.cancelled
        self.check_nothing_came_twice_or_early()
        times, counts = self.timer.timer.pending()
        assert (len(times), counts.sum()) == (0, 0)
        assert self.timer.timer.hold() is None
        assert sum(self.timer.timer.report()["by_topic"].values()) == 0


def keep_the_promises(steps) -> None:
    with tempfile.TemporaryDirectory() as directory:
        model = Model(Path(directory))
        try:
            for name, argument in steps:
                model.step(name, argument)
            model.check_nothing_is_lost()
        finally:
            model.timer.close()


CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]
MANY = 1_000 if is_soak() else part_of_count(150)


@settings(max_examples=30, deadline=None, suppress_health_check=CHECKS)
@given(st.lists(STEPS, min_size=1, max_size=25))
def test_nothing_is_lost_or_comes_twice_early_or_late(steps):
    keep_the_promises(steps)


@example([("put", 1), ("pass", 1000), ("flush", None), ("crash", ({"timerlog"}, False))])
@example([("put", 1), ("reopen", None), ("crash", ({"config/timermetrics"}, False))])
@pytest.mark.proof
@settings(max_examples=MANY, deadline=None, suppress_health_check=CHECKS)
@given(st.lists(STEPS, min_size=1, max_size=40))
def test_longer_histories_keep_the_promises_too(steps):
    keep_the_promises(steps)
