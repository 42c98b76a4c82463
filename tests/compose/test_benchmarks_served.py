"""Servers that are compared take turns, and rows say what each of them took; no server needed."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[2]


@attrs.define
class FakeServer:
    """Says what processor time it has taken, as the test counts it."""

    name: str
    cost: float
    used: float = 0.0

    def cpu_seconds(self):
        return self.used

    def memory(self):
        return 5_000_000


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.trial import Trial

    return Trial(directory=tmp_path, body_size=100, scale=1.0)


def row(count, **options):
    times = {"p50": 1.0, "p99": 2.0, "p999": 3.0, "max": 4.0}
    return {"all": 2 * count, "count": count, "failed": 0, "seconds": 2.0, **times, **options}


def test_servers_take_turns_and_are_compared_with_the_first(trial):
    from benchmarks.served.turns import take_turns

    order = []

    def work(server, number):
        order.append((number, server.name))
        server.used += server.cost
        return row(100 if server.name == "a" else 300, p99=2.0 + number)

    take_turns(trial, "sends", [FakeServer("a", 10.0), FakeServer("b", 3.0)], work)

    assert order == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]
    first, second = trial.measurements
    assert [first.label, second.label] == ["sends: a", "sends: b"]
    assert first.count / first.seconds == pytest.approx(50)
    assert second.count / second.seconds == pytest.approx(150)
    assert first.cpu_seconds / first.count == pytest.approx(10 / 200)  # of all, not of the measured
    assert second.cpu_seconds / second.count == pytest.approx(3 / 600)
    assert (first.latencies.p50, first.latencies.p99, first.latencies.max) == (1.0, 3.0, 4.0)
    assert "rate" not in first.facts
    assert second.facts["rate"] == "× 3.00"
    assert second.facts["memory"] == "5 MB"


def test_sends_that_fail_are_no_speed(trial):
    from benchmarks.served.turns import take_turns

    with pytest.raises(RuntimeError, match="7 sends to a failed"):
        take_turns(trial, "sends", [FakeServer("a", 1.0)], lambda *_: row(10, failed=7))
