"""The Java side of ``python -m benchmarks --java`` does each kind of work, and checks it."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def contender(java, tmp_path, monkeypatch):
    """RocketMQ's store as one that is compared, on next to nothing."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.java.contenders import JavaContender
    from benchmarks.runner import Options, Runner

    options = Options(directory=tmp_path, rounds=1, scale=0.005, size=4 << 20, timeout=60.0)
    with Runner(options, lambda text: None) as runner:
        made = JavaContender(f"Java {java.version}", runner, java)
        yield made
        made.close()


def test_java_does_every_kind_of_work(contender):
    from benchmarks.java.jobs import JOBS
    from benchmarks.java.rows import ROWS

    jobs = {job.order[0]: job for job in JOBS}  # one of each kind
    jobs["idle"] = attrs.evolve(jobs["idle"], order=(*jobs["idle"].order[:-1], "1"))

    for kind, job in jobs.items():
        warm_ups = 1 if kind in ("derive", "read") else 0
        outcome = contender.run(attrs.evolve(job, warm_ups=warm_ups), 0)

        assert outcome.failed is None
        measured = {one["label"]: one for one in outcome.measurements}
        assert {row.label for row in ROWS if row.job.name == job.name} <= set(measured)
        assert all(one["count"] > 0 and one["seconds"] > 0 for one in measured.values())
        assert outcome.private_memory is None or outcome.private_memory > 1 << 20


def test_a_jvm_that_dies_loses_one_outcome_and_not_the_next(contender):
    from benchmarks.java.jobs import JOBS

    put = next(job for job in JOBS if job.name == "put.100B")
    nonsense = attrs.evolve(put, name="nonsense", order=("nonsense",), warm_ups=0)

    outcomes = [contender.run(job, number) for number, job in enumerate((nonsense, put))]

    assert "no such work" in outcomes[0].failed
    assert outcomes[1].failed is None
