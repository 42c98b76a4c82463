"""The parent process: rounds, a child for each case, its memory seen from outside, cleaning up.

The parent imports neither numpy nor reput: on some systems its memory would be part of a child's
peak. Cases are interleaved, round after round, so that a slow minute of the machine affects all of
them and not one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks.case import Case

_ROOT = Path(__file__).resolve().parents[1]
LOOK_EVERY = 0.02
"""Seconds between two samples of a child's memory."""
_FREE_SPACE_FACTOR = 5


@attrs.frozen(kw_only=True)
class Options:
    """The options of the command line."""

    directory: Path | None
    """Where the temporary directory is made; the system's choice when None."""
    rounds: int
    scale: float
    size: int
    """Bytes of each large log."""
    timeout: float
    """Seconds that one case may take."""
    engines: tuple[str, ...] = ("",)
    """Those of reput that each of its cases runs with; empty for the one that it chooses."""


@attrs.frozen(kw_only=True)
class Outcome:
    """One case in one round."""

    case: Case
    round: int
    engine: str = ""
    """The engine of reput that was asked for; empty where none was."""
    ran_with: str | None = None
    """The engine that ran, its version, and why; None where reput had no part in it."""
    measurements: list[dict[str, Any]] = attrs.field(factory=list)
    peak_memory: int | None = None
    """Bytes, mapped files included."""
    private_memory: int | None = None
    """Bytes, mapped files not included; None where the system does not say."""
    skipped: str | None = None
    failed: str | None = None


@attrs.frozen(kw_only=True)
class LargeLog:
    """A store that several cases read."""

    path: Path
    count: int
    """Messages."""
    size: int
    """Bytes of records."""


class Runner:
    """Runs cases below one temporary directory; a context manager that removes it."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self.options = options
        self._say = say
        directory = options.directory
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        self.directory = Path(tempfile.mkdtemp(prefix="reput-benchmarks-", dir=directory))
        self._logs: dict[tuple[int, int], LargeLog | None] = {}

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def run(self, cases: Sequence[Case]) -> list[Outcome]:
        """Run all rounds of all cases; return the outcomes so far if interrupted."""
        outcomes: list[Outcome] = []
        steps = [
            (number, case, engine)
            for number in range(self.options.rounds)
            for case in cases
            for engine in self._engines_of(case)
            if number == 0 or case.repeats
        ]
        gone: set[tuple[str, str]] = set()  # skipped or failed: not tried again
        try:
            for done, (number, case, engine) in enumerate(steps, start=1):
                if (case.name, engine) in gone:
                    continue
                outcome = self.run_case(case, number, engine)
                outcomes.append(outcome)
                if outcome.skipped or outcome.failed:
                    gone.add((case.name, engine))
                name = f"{case.name}, {engine}" if engine else case.name
                self._say(f"[{done}/{len(steps)}] {name}{in_short(outcome)}")
        except KeyboardInterrupt:
            self._say("interrupted; these are the results so far")
        return outcomes

    def _engines_of(self, case: Case) -> tuple[str, ...]:
        uses_reput = any(name.startswith("reput") for name in case.needs)
        return self.options.engines if uses_reput else ("",)

    def run_case(self, case: Case, number: int, engine: str) -> Outcome:
        """Run one case in a process of its own, as part of round ``number``."""
        outcome = Outcome(case=case, round=number, engine=engine)
        big_log = None
        if case.big_log:
            big_log = self.log(case)
            if big_log is None:
                return attrs.evolve(outcome, failed="the large log was not generated")
        work = self.directory / "work"
        try:
            result, private, error = self._child(
                engine,
                case=case.name,
                body_size=case.body_size,
                big_log=None if big_log is None else str(big_log.path),
            )
        finally:
            shutil.rmtree(work, ignore_errors=True)
        if result is None:
            return attrs.evolve(outcome, failed=error)
        return attrs.evolve(
            outcome,
            ran_with=result.get("engine"),
            measurements=result.get("measurements", []),
            peak_memory=result["peak_memory"],
            private_memory=private,
            skipped=result.get("skipped"),
        )

    def log(self, case: Case) -> LargeLog | None:
        """Return the large store that ``case`` reads, generated on first use; None if it failed."""
        key = body_size, part = case.body_size, case.log_part
        if key not in self._logs:
            size = self.options.size // part
            path = self.directory / f"log-{body_size}-{part}"
            free = shutil.disk_usage(self.directory).free
            if free < size * _FREE_SPACE_FACTOR:
                self._say(f"only {free / 1e9:.1f} GB are free: use a smaller --size")
                self._logs[key] = None
                return None
            result, _, error = self._child("", log=str(path), body_size=body_size, size=size)
            if result is None:
                self._say(f"generating the large log failed: {error}")
                self._logs[key] = None
                return None
            self._say(
                f"generated a log of {result['count']:,} messages with bodies of {body_size} "
                f"bytes, {result['size'] / 1e6:,.0f} MB"
            )
            self._logs[key] = LargeLog(path=path, count=result["count"], size=result["size"])
        return self._logs[key]

    def _child(self, engine: str, **order: Any) -> tuple[dict[str, Any] | None, int | None, str]:
        """Run a worker: (result, peak of private memory, why there is no result)."""
        result_path = self.directory / "result.json"
        result_path.unlink(missing_ok=True)
        asked = {
            "case": None,
            "log": None,
            "big_log": None,
            "directory": str(self.directory / "work"),
            "result": str(result_path),
            "scale": self.options.scale,
            "size": self.options.size,
            **order,
        }
        command = [sys.executable, "-m", "benchmarks", "--worker", json.dumps(asked)]
        environment = os.environ | ({"REPUT_ENGINE": engine} if engine else {})
        errors_path = self.directory / "errors.txt"
        with errors_path.open("w+b") as errors:
            child = subprocess.Popen(
                command, cwd=_ROOT, env=environment, stderr=errors, stdout=errors
            )
            try:
                private = self._watch(child)
            except BaseException:
                child.kill()
                child.wait()
                raise
        if result_path.exists() and child.returncode == 0:
            return json.loads(result_path.read_text(encoding="utf-8")), private, ""
        lines = errors_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return None, private, reason(child.returncode, lines)

    def _watch(self, child: subprocess.Popen[bytes]) -> int | None:
        """Wait for the child; return the most private memory that was seen."""
        deadline = time.monotonic() + self.options.timeout
        highest = 0
        while child.poll() is None:
            highest = max(highest, private_memory(child.pid))
            if time.monotonic() > deadline:
                child.kill()
                child.wait()
                break
            time.sleep(LOOK_EVERY)
        return highest or None


def private_memory(pid: int) -> int:
    """Return the bytes of the process's anonymous memory now; 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def reason(code: int | None, lines: list[str]) -> str:
    """Return why a process ended, from its exit code and the lines that it printed."""
    if code == -signal.SIGKILL and not lines:
        return "killed: out of time or memory"
    last = lines[-1] if lines else f"exit code {code}"
    place = next((line.strip() for line in reversed(lines) if line.startswith("  File ")), "")
    return f"{last} [{place}]" if place else last


def in_short(outcome: Outcome) -> str:
    """Return an outcome as the end of a line of progress."""
    if outcome.skipped:
        return f": skipped, {outcome.skipped}"
    if outcome.failed:
        return f": FAILED, {outcome.failed}"
    rates = [
        f"{measured['count'] / measured['seconds']:,.0f}/s"
        for measured in outcome.measurements
        if measured["seconds"] and measured["count"] > 1
    ]
    return f": {', '.join(rates)}" if rates else ""
