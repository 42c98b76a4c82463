"""``python -m benchmarks`` starts, and every case runs; what they measure is nobody's test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_benchmarks_list_their_cases_without_running_any():
    command = [sys.executable, "-m", "benchmarks", "--list"]

    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert {"put.100B", "reput.1KiB", "sqlite.append.100B"} <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.proof
@pytest.mark.parametrize(("group", "at_least"), [((), 50), (("--java",), 14)], ids=["all", "java"])
def test_every_case_runs_or_says_what_it_lacks(tmp_path, group, at_least):
    command = [sys.executable, "-m", "benchmarks", "--smoke", "--directory", str(tmp_path), *group]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    ends = [line.rpartition(": ")[2].partition(",")[0] for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert set(ends) <= {"ran", "skipped"}
    assert ends.count("ran") > at_least


def test_two_engines_in_one_run_are_compared_with_the_first(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import report
    from benchmarks.cases import by_name
    from benchmarks.runner import Outcome
    from benchmarks.trial import Measurement

    def outcome(engine, seconds):
        row = Measurement(label="derive", count=1_000, size=0, baseline=True, seconds=seconds)
        case = by_name("reput.100B")
        return Outcome(case=case, round=0, engine=engine, measurements=[attrs.asdict(row)])

    lines = report.summarise([outcome("python", 2.0), outcome("native", 0.5)])

    assert [(line.label, line.ratio) for line in lines] == [
        ("derive, python", 1.0),
        ("derive, native", 4.0),
    ]
