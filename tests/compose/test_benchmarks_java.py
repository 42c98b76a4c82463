"""``python -m benchmarks --java``: how it asks Java, takes turns, and judges; no Java needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[2]

FAKE = """
import sys, time
print("loaded by a library")
for line in sys.stdin:
    word, *rest = line.rstrip("\\n").split("\\t")
    if word == "put":
        print('{"kind": "put", "count": 8, "seconds": 2.0, "cpu_seconds": 3.0}')
        print('{"kind": "end"}')
    elif word == "refuse":
        print('{"kind": "error", "text": "no such work"}')
    elif word == "hang":
        sys.stdout.flush()
        time.sleep(60)
    else:
        sys.exit("out of memory")
    sys.stdout.flush()
"""


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def program(tmp_path):
    from benchmarks.java.program import JavaProgram

    started = JavaProgram([sys.executable, "-c", FAKE], tmp_path / "errors", timeout=30)
    yield started
    started.close()


def test_what_the_program_answers_is_told_as_our_own_cases_tell_theirs(program):
    from benchmarks.trial import Measurement

    answers = [program.do("put", "/store"), program.do("put", "/store")]

    measured = Measurement(label="put", count=8, size=0, seconds=2.0, cpu_seconds=3.0)
    assert [answer.measurements for answer in answers] == [[attrs.asdict(measured)]] * 2


@pytest.mark.parametrize(
    "line", ["", "RocketMQLog:WARN", "12", '"put"', "{}", '{"kind": 3}', '["kind"]', '{"kind": "p']
)
def test_lines_of_libraries_are_passed_over(line):
    from benchmarks.java.program import parsed

    assert parsed(line) is None


def test_an_error_of_the_program_is_one_piece_of_work_lost_and_no_more(program):
    from benchmarks.java.program import JavaWorkError

    with pytest.raises(JavaWorkError, match="no such work"):
        program.do("refuse")

    assert program.do("put").measurements


def test_a_program_that_ends_says_why_then_and_later(program):
    from benchmarks.java.program import JavaWorkError

    for _ in range(2):
        with pytest.raises(JavaWorkError, match="out of memory"):
            program.do("die")


def test_a_program_that_hangs_is_killed(tmp_path):
    from benchmarks.java.program import JavaProgram, JavaWorkError

    program = JavaProgram([sys.executable, "-c", FAKE], tmp_path / "errors", timeout=0.05)
    try:
        with pytest.raises(JavaWorkError, match=r"longer than 0\.05 s"):
            program.do("hang")
        with pytest.raises(JavaWorkError, match="killed"):
            program.do("put")
    finally:
        program.close()


@pytest.mark.costly
def test_without_java_the_group_is_skipped_with_one_line(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "--java", "--directory", str(tmp_path)]

    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )

    lines = (done.stdout + done.stderr).splitlines()
    assert (done.returncode, len(lines)) == (0, 1), lines
    assert lines[0].startswith("Java 4.9.8, Java 5.3.3: skipped, ")
    assert "'java'" in lines[0]
    assert not list(tmp_path.iterdir())


@pytest.mark.costly
def test_a_row_that_there_is_not_is_named(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "--java", "--only", "nonsense"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert "--java --list" in done.stderr


# --------------------------------------------------------------------------- taking turns


@attrs.define(eq=False)
class _Fake:
    """A contender whose work takes no time."""

    name: str
    did: list
    seconds: float = 1.0
    fails: bool = False

    def run(self, job, number):
        self.did.append((number, job.name, self.name))
        if self.fails:
            return _outcome(job, number, failed="broken")
        return _outcome(job, number, seconds=self.seconds)

    def close(self):
        pass


def _outcome(job, number=0, seconds=1.0, failed=None, memory=None):
    from benchmarks.java.rows import ROWS
    from benchmarks.runner import Outcome
    from benchmarks.trial import Measurement

    labels = {row.label for row in ROWS if row.job is job}
    size = 300 * 1_000
    measured = [
        Measurement(label=label, count=1_000, size=size, seconds=seconds, cpu_seconds=seconds / 4)
        for label in labels
    ]
    return Outcome(
        case=job.case,
        round=number,
        failed=failed,
        measurements=[] if failed else [attrs.asdict(one) for one in measured],
        private_memory=memory,
    )


def _row(name):
    from benchmarks.java.rows import ROWS

    return next(row for row in ROWS if row.name == name)


def test_all_take_turns_in_each_round_and_another_one_begins():
    from benchmarks.java.group import run_rounds

    did = []
    rows = [_row("put.100B"), _row("put.100B.readable"), _row("sync.16")]

    results = run_rounds(rows, [_Fake("a", did), _Fake("b", did)], 2, lambda text: None)

    assert did == [
        (0, "put.100B", "a"),
        (0, "put.100B", "b"),
        (0, "sync.16", "a"),
        (0, "sync.16", "b"),
        (1, "put.100B", "b"),
        (1, "put.100B", "a"),
        (1, "sync.16", "b"),
        (1, "sync.16", "a"),
    ]
    assert {key: len(found) for key, found in results.items()} == {
        (job, name): 2 for job in ("put.100B", "sync.16") for name in ("a", "b")
    }


def test_what_failed_is_not_tried_again_and_what_needs_one_round_has_one():
    from benchmarks.java.group import run_rounds

    did = []
    contenders = [_Fake("a", did, fails=True), _Fake("b", did)]

    run_rounds([_row("sync.16"), _row("idle")], contenders, 3, lambda text: None)

    assert [name for number, job, name in did if job == "sync.16"] == ["a", "b", "b", "b"]
    assert [name for number, job, name in did if job == "idle"] == ["a", "b"]


# --------------------------------------------------------------------------- the table


def _line(name, **seconds):
    """One line, measured once by each: names as keywords, with _ for what a keyword cannot have."""
    from benchmarks.java.rows import JAVA_4, JAVA_5, NATIVE, PYTHON
    from benchmarks.java.table import lines_of

    names = {"java4": JAVA_4, "java5": JAVA_5, "native": NATIVE, "python": PYTHON}
    row = _row(name)
    results = {
        (row.job.name, names[key]): [_outcome(row.job, seconds=each, memory=int(each * 1e6))]
        for key, each in seconds.items()
    }
    return lines_of([row], results, log_size=1 << 30, scale=1.0)[0]


@pytest.mark.parametrize(
    ("name", "seconds", "reached"),
    [
        ("put.100B", {"java4": 1.0, "native": 1 / 1.1}, "no"),
        ("put.100B", {"java4": 1.0, "native": 1 / 1.3}, "yes"),
        ("put.100B", {"java4": 1.0, "native": 1 / 2.5}, "stretch"),
        ("put.100B", {"native": 1.0}, ""),  # nobody knows
        ("put.100B", {"java4": 1.0}, ""),
        ("put.100B.readable", {"java4": 1.0, "native": 0.1}, ""),  # no target
        ("put-many.100B.list", {"native": 1_000 / 1.4e6}, "no"),
        ("put-many.100B.list", {"native": 1_000 / 1.6e6}, "yes"),
        ("queues.1KiB.large", {"java4": 1, "java5": 1, "native": 1_000 * 300 / 3.9e9}, "no"),
        ("queues.1KiB.large", {"java4": 1, "java5": 1, "native": 1_000 * 300 / 4.1e9}, "yes"),
        ("queues.1KiB.large", {"java4": 1, "native": 1_000 * 300 / 4.1e9}, ""),
        ("queues.1KiB.large", {"java4": 1e-9, "native": 1_000 * 300 / 4.1e9}, "no"),
        # Less is better: seconds, bytes, share of a core.
        ("open.killed", {"java4": 2.0, "java5": 2.0, "native": 1.0, "python": 1.0}, "yes"),
        ("open.killed", {"java4": 0.5, "java5": 2.0, "native": 1.0, "python": 1.0}, "no"),
        ("memory", {"java4": 9.0, "java5": 9.0, "native": 1.0, "python": 2.0}, "yes"),
        ("memory", {"java4": 9.0, "java5": 9.0, "native": 2.0, "python": 1.0}, "no"),
    ],
)
def test_a_target_is_reached_when_each_of_its_bounds_is(name, seconds, reached):
    line = _line(name, **seconds)

    assert line.reached("native") == reached


def test_ratios_say_how_many_times_as_good():
    put = _line("put.100B", java4=3.0, native=1.5)
    opened = _line("open.killed", java5=3.0, native=6.0)

    assert put.ratio("native", "Java 4.9.8") == 2.0
    assert opened.ratio("native", "Java 5.3.3") == 0.5
    assert put.ratio("native", "python") is None


def test_the_table_has_the_median_of_the_rounds_and_goes_into_a_page():
    from benchmarks.java.rows import JAVA_4, NATIVE
    from benchmarks.java.table import as_json, lines_of, markdown

    row = _row("put.100B")
    results = {
        (row.job.name, JAVA_4): [_outcome(row.job, seconds=each) for each in (1.0, 2.0, 9.0)],
        (row.job.name, NATIVE): [_outcome(row.job, seconds=0.001)],
    }

    lines = lines_of([row], results, log_size=1 << 30, scale=1.0)

    assert markdown(lines, [JAVA_4, NATIVE]).splitlines() == [
        "| work | Java 4.9.8 | native | native / 4.9.8 | target | reached |",
        "|---|---:|---:|---:|---:|---:|",
        "| put one at a time, 100 B | 500 | 1.00 M | 2000.0 | ≥ 1.2 × 4.9.8 | stretch |",
    ]
    plain = json.loads(json.dumps(as_json(lines, results)))
    assert plain["rows"][0]["medians"] == {JAVA_4: 500.0, NATIVE: 1e6}
    assert len(plain["rounds"]) == 4


def test_java_is_given_as_many_messages_as_reput(tmp_path):
    from benchmarks.java.jobs import JOBS
    from benchmarks.trial import Trial

    for job in JOBS:
        if job.case.big_log or job.name == "idle":
            continue
        for scale in (1.0, 0.1):
            trial = Trial(directory=tmp_path, body_size=job.case.body_size, scale=scale)
            full = job.case.run.keywords["full"]
            assert job.messages(scale) == trial.count(full // job.multiple) * job.multiple


def test_a_log_is_copied_as_far_as_it_is_used(tmp_path):
    from benchmarks.java.contenders import copy_used

    source = tmp_path / "source"
    source.write_bytes(b"abc" + bytes(97))

    copy_used(source, tmp_path / "used", 3)
    copy_used(source, tmp_path / "unused", -5)

    assert (tmp_path / "used").read_bytes() == b"abc" + bytes(97)
    assert (tmp_path / "unused").read_bytes() == bytes(100)


def test_the_plugins_beside_java_are_those_of_a_new_store():
    from benchmarks.java.cases import DEFAULTS

    from reput.plugin import default_plugins

    assert sorted(DEFAULTS) == sorted(default_plugins())


def _table_of_the_page():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    table = page[page.index("| work ") :].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def _arguments(cells):
    """The options of a command of the table, and its pattern."""
    *options, pattern = cells[-1].strip("`").replace("--only ", "").split()
    return options, pattern


def test_the_table_of_the_page_has_the_figures_of_the_kept_result():
    from benchmarks.java.rows import JAVA_4, NATIVE, PYTHON
    from benchmarks.results import load
    from benchmarks.sheet import quantity, time_text

    kept = {row["name"]: row for row in load()["beside-java"]["rows"]}
    shown = [cells for cells in _table_of_the_page() if _arguments(cells)[0] == ["--java"]]
    texts = {
        "messages": quantity,
        "seconds": lambda value: time_text(value * 1e6),
        "memory": lambda value: f"{value / 1e6:,.0f} MB",
        "processor": lambda value: f"{value:.2%}",
    }

    expected = []
    for row in (kept[_arguments(cells)[1]] for cells in shown):
        figures = [texts[row["unit"]](row["medians"][name]) for name in (NATIVE, PYTHON)]
        expected.append([*figures, f"{row['times'][f'{NATIVE} / {JAVA_4}']:.3g}"])

    assert len(shown) > 10
    for cells, row in zip(shown, expected, strict=True):
        assert cells[1:3] == row[:2]
        assert float(cells[3]) == float(row[2])


def test_the_commands_of_the_table_of_the_page_measure_something():
    from benchmarks.case import select
    from benchmarks.cases import ALL
    from benchmarks.java.rows import ROWS

    for cells in _table_of_the_page():
        options, pattern = _arguments(cells)
        assert options in ([], ["--java"])
        assert select(ROWS if options else ALL, [pattern]), cells
