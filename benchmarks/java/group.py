"""``python -m benchmarks --java``: rounds in which all stores take turns, job by job."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import machine
from benchmarks.case import select
from benchmarks.java import table
from benchmarks.java.contenders import Contender, JavaContender, ReputContender
from benchmarks.java.jobs import JOBS
from benchmarks.java.program import java_store
from benchmarks.java.rows import JAVA_4, JAVA_5, NATIVE, PYTHON, ROWS, Row
from benchmarks.runner import Options, Outcome, Runner, in_short

_VERSIONS = {JAVA_4: "4.9.8", JAVA_5: "5.3.3"}
Results = dict[tuple[str, str], list[Outcome]]
"""Outcomes of the rounds by the names of job and contender."""


def list_rows() -> None:
    """Print the rows and their targets."""
    for row in ROWS:
        print(f"{row.name:24} {row.work.format(size='…', count='…'):54} {row.target}")


def measure(
    options: Options,
    patterns: Sequence[str],
    keep: Callable[[Mapping[str, Any], str], None],
) -> int:
    """Measure the rows that match ``patterns``, print the table, and ``keep`` its figures.

    Args:
        options: of the command line.
        patterns: parts of names of rows; none selects all.
        keep: gets all figures as plain values, and the table as a page has it.

    Returns:
        0 if all was measured or skipped, 1 if something failed, 2 if there is no such row.
    """
    rows = select(ROWS, patterns)
    if not rows:
        print("no such row; --java --list shows them", file=sys.stderr)
        return 2

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with Runner(options, say) as runner, contextlib.ExitStack() as stack:
        java = _javas(runner, say)
        if not java:
            return 0
        contenders: list[Contender] = [*java, *_engines(runner, say)]
        for contender in contenders:
            stack.callback(contender.close)
        facts = machine.describe(runner.directory)
        facts["versions"]["java"] = java[0].java_version()
        print(machine.headline(facts))
        loads = [machine.load()]
        results = run_rounds(rows, contenders, options.rounds, say)
        loads.append(machine.load())
    names = [contender.name for contender in contenders]
    lines = table.lines_of(rows, results, log_size=options.size, scale=options.scale)
    table.show(lines, names)
    print(f"load average before and after: {loads[0]}, {loads[1]}")
    content = {
        "machine": facts,
        "load": loads,
        "options": {"rounds": options.rounds, "scale": options.scale, "log_size": options.size},
        **table.as_json(lines, results),
    }
    keep(content, table.markdown(lines, names))
    return 1 if any(outcome.failed for found in results.values() for outcome in found) else 0


def run_rounds(
    rows: Sequence[Row],
    contenders: Sequence[Contender],
    rounds: int,
    say: Callable[[str], None],
) -> Results:
    """Run the jobs of ``rows``; return the outcomes so far if interrupted.

    The first contender of a round is the last of the next, so that none always follows the same
    one. A skipped or failed one is not tried again.
    """
    jobs = [job for job in JOBS if any(row.job is job for row in rows)]
    steps = [
        (number, job, contenders[(place + number) % len(contenders)])
        for number in range(rounds)
        for job in jobs
        for place in range(len(contenders))
        if number == 0 or job.case.repeats
    ]
    results: Results = {}
    gone: set[tuple[str, str]] = set()
    try:
        for done, (number, job, contender) in enumerate(steps, start=1):
            key = job.name, contender.name
            if key in gone:
                continue
            outcome = contender.run(job, number)
            results.setdefault(key, []).append(outcome)
            if outcome.skipped or outcome.failed:
                gone.add(key)
            say(f"[{done}/{len(steps)}] {job.name}, {contender.name}{in_short(outcome)}")
    except KeyboardInterrupt:
        say("interrupted; these are the results so far")
    return results


def _javas(runner: Runner, say: Callable[[str], None]) -> list[JavaContender]:
    """Return those versions of RocketMQ's store that can be had here."""
    module = java_store()
    home = runner.directory / "home"
    home.mkdir()
    found: list[JavaContender] = []
    missing: dict[str, list[str]] = {}
    for name, version in _VERSIONS.items():
        try:
            found.append(JavaContender(name, runner, module.build(version, home)))
        except module.mavenparts.JavaUnavailableError as error:
            missing.setdefault(str(error), []).append(name)
    for reason, names in missing.items():
        say(f"{', '.join(names)}: skipped, {reason}")
    return found


def _engines(runner: Runner, say: Callable[[str], None]) -> list[ReputContender]:
    found = []
    for name in runner.options.engines:
        if name == NATIVE and importlib.util.find_spec("reput_native") is None:
            say(f"{name}: skipped, reput-native is not installed")
        else:
            found.append(ReputContender(name or PYTHON, runner))
    return found
