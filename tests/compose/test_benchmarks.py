"""``python -m benchmarks`` starts, and every case runs; what they measure is nobody's test."""

from __future__ import annotations

import datetime as dt
import json
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import attrs
import pytest

from reput.files import FileWatch

pytestmark = pytest.mark.shows("commands")

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.costly
def test_the_benchmarks_list_their_cases_without_running_any():
    command = [sys.executable, "-m", "benchmarks", "--list"]

    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert {"put.100B", "reput.1KiB", "sqlite.append.100B"} <= set(names)
    assert len(names) == len(set(names))


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.alike
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


@pytest.mark.parametrize(
    ("pattern", "sizes"),
    [("growth.timers*", [10**3, 10**4, 10**5, 10**6]), ("growth.timers.10000000", [10**7])],
)
def test_cases_that_take_long_run_only_by_their_whole_names(monkeypatch, pattern, sizes):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.case import select, without_unasked
    from benchmarks.cases import ALL

    found = without_unasked(select(ALL, [pattern]), [pattern])

    assert [case.name for case in found] == [f"growth.timers.{size}" for size in sizes]


def test_curves_have_the_time_of_each_size_and_the_memory_of_the_largest(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site" / "figures"))
    import growth

    rows = [
        {
            "label": f"keys: find, {size:,}",
            "cpu_per_item": time,
            "facts": {"size": size, "private": 8},
        }
        for size, time in [(1_000, 2e-6), (10, 1e-6), (4, 0.0)]
    ]

    (curve,) = growth.curves(sorted(rows, key=lambda row: row["facts"]["size"]))["keys"]

    assert curve == ("keys", "find", [(10, 1e-6), (1_000, 2e-6)], 0.008)


# --------------------------------------------------------------------------- kept results

KEYS = {
    "name", "date", "command", "python", "system", "machine", "cores", "memory", "file_system",
    "versions", "engines", "load", "options", "rows", "skipped", "failed",
}  # fmt: skip


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_reader_that_is_late_or_fails_is_seen(tmp_path, monkeypatch, is_broken):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.cases import latency
    from benchmarks.trial import Trial

    waits, has_put, has_read, ended = (threading.Event() for _ in range(4))
    now = [0]

    class Watch(FileWatch):
        def wait(self, seconds):
            if waits.is_set():
                has_read.set()
                assert ended.wait(60)
            waits.set()
            assert has_put.wait(60)
            if is_broken:
                raise OSError("broken")

        def wake(self):
            ended.set()

    def sleep(seconds):
        assert waits.wait(60)
        if seconds == latency._PAUSE:
            now[0] += 10_000_000
        else:
            has_put.set()
            assert is_broken or has_read.wait(60)

    monkeypatch.setattr(latency, "FileWatch", Watch)
    monkeypatch.setattr(
        latency, "time", SimpleNamespace(perf_counter_ns=lambda: now[0], sleep=sleep)
    )
    trial = Trial(directory=tmp_path, body_size=100, scale=0.1)
    if is_broken:
        with pytest.raises(OSError, match="broken"):
            latency.put_to_reader(trial)
    else:
        latency.put_to_reader(trial)
        found = trial.measurements[0].latencies
        assert (found.count, found.p50, found.max) == (100, 490_000, 990_000)


@pytest.fixture
def results(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import results

    return results


@pytest.mark.costly
def test_a_run_is_kept_with_all_that_its_figures_depend_on(results, tmp_path, monkeypatch, capsys):
    from benchmarks import cli

    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")
    work = tmp_path / "work"
    asked = ["--only", "put.100B.log-alone", "--quick", "--engine", "python", "--save", "puts"]

    code = cli.main([*asked, "--directory", str(work)])

    kept = json.loads((tmp_path / "results" / "puts.json").read_text(encoding="utf-8"))
    (row,) = kept["rows"]
    assert code == 0
    assert set(kept) == KEYS
    assert kept["command"] == f"python -m benchmarks {shlex.join(asked)}"
    assert kept["engines"][0].startswith("python")
    assert {"reput", "numpy"} <= set(kept["versions"])
    assert (row["case"], row["body_size"], row["rounds"]) == ("put.100B.log-alone", 100, 1)
    assert row["rate"] > 0
    assert row["latencies"]["p50"] > 0
    assert str(tmp_path) not in json.dumps(kept)
    assert "puts.json" in capsys.readouterr().err


def test_a_kept_result_says_what_was_skipped_and_what_failed(results):
    rounds = [
        {"case": "put.100B", "ran_with": "python", "skipped": None, "failed": "no space"},
        {"job": "idle", "ran_with": None, "skipped": "no Java", "failed": None},
    ]
    facts = dict.fromkeys(KEYS, "")
    content = {"machine": facts, "load": [], "options": {}, "rows": [], "rounds": rounds}

    kept = results.result_of("puts", [], content, dt.date(2020, 1, 31))

    assert kept["date"] == "2020-01-31"
    assert (kept["skipped"], kept["failed"]) == ({"idle": "no Java"}, {"put.100B": "no space"})
    assert kept["engines"] == ["python"]


@pytest.mark.parametrize("name", ["../puts", "Puts", "a/b", "-", "", "puts.json"])
def test_the_name_of_a_result_leads_to_no_other_folder(name):
    command = [sys.executable, "-m", "benchmarks", f"--save={name}", "--only", "put.100B"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert "small letters" in done.stderr


@pytest.mark.parametrize("other", ["--list", "--smoke", "--profile=put.100B"])
def test_only_figures_can_be_kept(other):
    command = [sys.executable, "-m", "benchmarks", "--save", "puts", other]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert "--save" in done.stderr


def test_a_file_of_one_result_wins_over_a_collection(results, tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    old, new, other = ({"name": "puts", "date": 1}, {"name": "puts", "date": 2}, {"name": "reads"})
    (tmp_path / "transcribed.json").write_text(json.dumps({"results": [old, other]}))
    (tmp_path / "puts.json").write_text(json.dumps(new))

    assert results.load() == {"puts": new, "reads": other}


def test_every_kept_result_says_how_it_was_made(results):
    files = [path.stem for path in results.FOLDER.glob("*.json")]

    found = results.load()

    assert len(found) >= len(files) > 1
    for name, kept in found.items():
        assert {"date", "command", "python", "cores", "versions", "engines", "rows"} <= set(kept)
        assert kept["rows"], name
        assert (set(kept) == KEYS) == (name in files), "written by --save, or transcribed"
