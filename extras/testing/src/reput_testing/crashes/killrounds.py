"""`KillRounds`: kills processes until enough have died, and says how to repeat a life.

``REPUT_KILL_SEED`` is the seed of a run and, after a slash, the number of one life; with this
number the same life is repeated. ``REPUT_KILLS`` is the number of kills. With several jobs, each
forked process takes its share of the lives, and a line on standard error shows the rate.

A run can be continued another day: ``REPUT_KILLS_FROM`` is the number of its first life. The
last line of a run has the seed and the next life, also if a check has failed.
"""

from __future__ import annotations

import abc
import os
import pickle
import random
import select
import signal
import sys
import time
import traceback
from contextlib import AbstractContextManager, ExitStack
from typing import BinaryIO, Generic, TypeVar

from reput_testing.crashes.powercuts import command_for

KILLS_VARIABLE = "REPUT_KILLS"
FROM_VARIABLE = "REPUT_KILLS_FROM"
SEED_VARIABLE = "REPUT_KILL_SEED"

_PROGRESS_SECONDS = 1.0

_Processes = TypeVar("_Processes")


class KillRounds(abc.ABC, Generic[_Processes]):
    """Lives of stores, one after another, whose processes are killed.

    Attributes:
        seed: every random choice follows from it.
        killed: kills, by what the process was doing.
    """

    def __init__(self) -> None:
        seed, _, life = os.environ.get(SEED_VARIABLE, "").partition("/")
        self.seed = int(seed) if seed else random.SystemRandom().randrange(1 << 32)
        self.killed: dict[str, int] = {}
        self.seconds = 0.0
        """Duration of all lives."""
        self.next_life = int(os.environ.get(FROM_VARIABLE) or 0)
        """Number after the last life that has begun."""
        self._only_life = int(life) if life else None

    @property
    def killed_count(self) -> int:
        """Processes killed so far."""
        return sum(self.killed.values())

    @property
    def kinds(self) -> str:
        """`killed` in words."""
        return ", ".join(f"{count} {kind}" for kind, count in sorted(self.killed.items()))

    def count_kill(self, kind: str) -> None:
        """Count one kill."""
        self.killed[kind] = self.killed.get(kind, 0) + 1

    def run(self, kills: int, jobs: int = 1) -> None:
        """Run lives until ``kills`` processes were killed, and print a summary.

        Args:
            kills: number of kills.
            jobs: processes that share the lives; each makes its share of the kills.

        Raises:
            AssertionError: a check has failed; the text says how to repeat the life.
        """
        started = time.monotonic()
        try:
            if jobs == 1 or self._only_life is not None:
                self._run_share(kills, self.next_life, 1, None, started)
            else:
                self._run_jobs(kills, jobs, started)
        finally:
            self.seconds = time.monotonic() - started
            sys.stdout.write(f"\n{self}\n")
            if self._only_life is None:
                sys.stdout.write(
                    f"to go on: {SEED_VARIABLE}={self.seed} {FROM_VARIABLE}={self.next_life}\n"
                )

    def _run_share(
        self, kills: int, number: int, step: int, report: BinaryIO | None, started: float = 0.0
    ) -> None:
        shown = started
        with self.processes() as processes:
            while self.killed_count < kills:
                life = number if self._only_life is None else self._only_life
                self.next_life = number + 1
                self.live(processes, life, kills)
                number += step
                if report is not None:
                    pickle.dump(self._counts(), report)
                    report.flush()
                elif (now := time.monotonic()) - shown >= _PROGRESS_SECONDS:
                    shown = now
                    self._show_progress(kills, now - started)

    def _run_jobs(self, kills: int, jobs: int, started: float) -> None:
        reports: dict[BinaryIO, dict[str, object]] = {}
        pids = []
        with ExitStack() as stack:
            for job in range(jobs):
                read_end, write_end = os.pipe()
                pid = os.fork()
                if pid == 0:
                    os.close(read_end)
                    self.next_life += job
                    self._work(write_end, -(-kills // jobs), job, jobs)
                os.close(write_end)
                pids.append(pid)
                reports[stack.enter_context(os.fdopen(read_end, "rb"))] = self._counts()
            stack.callback(lambda: [os.waitpid(pid, 0) for pid in pids])
            failures, running, shown = [], set(reports), started
            while running:
                for report in select.select(list(running), [], [])[0]:
                    try:
                        found = pickle.load(report)
                    except (
                        EOFError,
                        pickle.UnpicklingError,
                    ):  # the second of a job that was killed
                        running.discard(report)
                        continue
                    if isinstance(found, str):
                        failures.append(found)
                        for pid in pids:
                            os.kill(pid, signal.SIGKILL)  # none was waited for yet
                    else:
                        reports[report] = found
                self._add_up(list(reports.values()))
                now = time.monotonic()
                if now - shown >= _PROGRESS_SECONDS or not running:
                    shown = now
                    self._show_progress(kills, now - started)
        assert not failures, "\n\n".join(failures)
        assert self.killed_count >= kills, "a job ended early"

    def _work(self, descriptor: int, kills: int, job: int, jobs: int) -> None:
        """Run one share in a forked process, and end the process."""
        with os.fdopen(descriptor, "wb", buffering=0) as report:
            try:
                self.enter_job(job)
                self._run_share(kills, self.next_life, jobs, report)
            except BaseException as error:
                pickle.dump(self._counts(), report)
                is_known = isinstance(error, AssertionError)
                pickle.dump(str(error) if is_known else traceback.format_exc(), report)
        os._exit(0)

    def enter_job(self, job: int) -> None:
        """Prepare a forked process, whose files must be apart from those of the others.

        A class that runs several jobs overrides this: without files of its own, each job would
        check what another one has put.

        Raises:
            NotImplementedError: the class does not.
        """
        raise NotImplementedError(f"{type(self).__name__} has one job only")

    def _counts(self) -> dict[str, object]:
        counts = {name: each for name, each in vars(self).items() if name.endswith("_count")}
        return {"killed": self.killed, "next_life": self.next_life, **counts}

    def _add_up(self, counts: list[dict[str, object]]) -> None:
        self.killed = {}
        totals: dict[str, int] = {}
        for each in counts:
            for name, value in each.items():
                if name == "next_life":
                    self.next_life = max(self.next_life, int(str(value)))
                elif isinstance(value, dict):
                    for kind, count in value.items():
                        self.killed[kind] = self.killed.get(kind, 0) + count
                elif isinstance(value, int):
                    totals[name] = totals.get(name, 0) + value
        vars(self).update(totals)

    def _show_progress(self, kills: int, seconds: float) -> None:
        rate = self.killed_count / max(seconds, 1e-9)
        left = max(kills - self.killed_count, 0) / max(rate, 1e-9)
        sys.stderr.write(
            f"\r{self.killed_count} of {kills} kills, {rate:.1f}/s, {left / 60:.0f} min left  "
        )
        sys.stderr.flush()

    def again(self, life: int) -> str:
        """Return two lines that say how to repeat a life."""
        command = command_for(SEED_VARIABLE, f"{self.seed}/{life}")
        return (
            f"the same life again, as far as threads allow:\n  {command}\n"
            f"and again and again: {KILLS_VARIABLE}=1000 {command}"
        )

    @abc.abstractmethod
    def processes(self) -> AbstractContextManager[_Processes]:
        """Return what starts the processes of all lives."""

    @abc.abstractmethod
    def live(self, processes: _Processes, life: int, kills: int) -> None:
        """Run one life; end it early once ``kills`` processes were killed in all."""
