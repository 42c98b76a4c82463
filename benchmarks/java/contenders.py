"""The contenders: RocketMQ's store of a version, and reput with an engine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Protocol

import attrs

from benchmarks import memory
from benchmarks.java.jobs import SMALL_PART, Job
from benchmarks.java.program import JavaProgram, JavaWorkError
from benchmarks.runner import Outcome, Runner, reason

_OPTIONS = ("-Xms2g", "-Xmx4g")
"""Those of the JVM that is measured; its garbage collector is the one that it chooses."""
_OPTIONS_OF_DYING = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx1g")
_WARM_UP_COUNT = 500_000
_KILLED = 137
_PIECE = 16 << 20


class Contender(Protocol):
    """One that does all jobs."""

    @property
    def name(self) -> str:
        """The heading of its column."""

    def run(self, job: Job, number: int) -> Outcome:
        """Do ``job``, as part of round ``number``."""

    def close(self) -> None:
        """End what still runs."""


@attrs.define(eq=False)
class ReputContender:
    """reput with one engine, each job in a process of its own."""

    name: str
    runner: Runner

    def run(self, job: Job, number: int) -> Outcome:
        """Do reput's side of ``job``."""
        return self.runner.run_case(job.case, number, self.name)

    def close(self) -> None:
        """Nothing runs between jobs."""


@attrs.define(eq=False)
class JavaContender:
    """RocketMQ's store, in a JVM that is kept: what it has compiled once stays compiled.

    A kind of work is done unmeasured before it is measured first, in several stores: what a JVM
    compiles with the first one it often compiles again with the second.
    """

    name: str
    runner: Runner
    java: Any
    """A ``JavaStore`` of tests/interop/java_store.py."""
    _program: JavaProgram | None = None
    _warm: set[tuple[str, ...]] = attrs.field(factory=set)
    _last: tuple[tuple[object, ...], Outcome] | None = None

    def run(self, job: Job, number: int) -> Outcome:
        """Do Java's side of ``job``, unless the job before it was the same for Java."""
        asked = number, job.order, job.count, job.case.body_size, job.case.log_part
        if self._last is not None and self._last[0] == asked:
            return attrs.evolve(self._last[1], case=job.case)
        outcome = Outcome(case=job.case, round=number, ran_with=self.name)
        try:
            answer = self._measured(job)
        except JavaWorkError as error:
            self.close()
            return attrs.evolve(outcome, failed=str(error))
        outcome = attrs.evolve(
            outcome, measurements=answer.measurements, private_memory=answer.private_memory
        )
        self._last = asked, outcome
        return outcome

    def java_version(self) -> str:
        """Return the version of the JVM, as far as it says."""
        command = [self.java.command(())[0], "-version"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        first = (done.stderr or done.stdout).partition("\n")[0]
        return first.split('"')[1] if first.count('"') == 2 else "unknown"

    def close(self) -> None:
        """End the JVM."""
        if self._program is not None:
            self._program.close()
        self._program = None
        self._warm.clear()

    def _measured(self, job: Job) -> Any:
        if self._program is None:
            self._program = JavaProgram(
                [*self.java.command(_OPTIONS), "serve"],
                self.runner.directory / f"{self.name}.errors",
                self.runner.options.timeout,
            )
        if job.order not in self._warm:
            small = attrs.evolve(job, case=attrs.evolve(job.case, log_part=SMALL_PART))
            count = min(job.messages(self.runner.options.scale), _WARM_UP_COUNT)
            for _ in range(job.warm_ups):
                self._do(small, count, "--passes", "2")
            self._warm.add(job.order)
        return self._do(job, job.messages(self.runner.options.scale))

    def _do(self, job: Job, count: int, *further: str) -> Any:
        assert self._program is not None
        store = self.runner.directory / "work"
        kept = job.case.big_log
        if kept:
            store, count = self._log(job)
        elif job.after_kill:
            self._die(job, store, count)
        word, *options = job.order
        memory.claim(self._size(job, count), self.runner.directory)
        try:
            return self._program.do(word, str(store), "--count", str(count), *options, *further)
        finally:
            if not kept:
                shutil.rmtree(store, ignore_errors=True)

    def _size(self, job: Job, count: int) -> int:
        """Return the bytes that Java will write, as `cases` has them for reput."""
        log = self.runner.log(job.case) if job.case.big_log else None
        return log.size // 3 if log is not None else memory.size_of(count, job.case.body_size)

    def _log(self, job: Job) -> tuple[Path, int]:
        """Return a store with a log of the same bytes as ours, and the number of its messages."""
        log = self.runner.log(job.case)
        if log is None:
            raise JavaWorkError("the large log was not generated")
        store = self.runner.directory / f"{self.name}-{log.path.name}"
        if not store.exists():
            # One copy for all versions. Not our own files: reput opens none that has further names.
            copied = self.runner.directory / f"java-{log.path.name}"
            if not copied.exists():
                copied.mkdir()
                for path in (log.path / "commitlog").iterdir():
                    copy_used(path, copied / path.name, log.size - int(path.name))
            (store / "commitlog").mkdir(parents=True)
            for path in copied.iterdir():
                os.link(path, store / "commitlog" / path.name)
        return store, log.count

    def _die(self, job: Job, store: Path, count: int) -> None:
        """Have a process of its own fill ``store`` and end without closing it."""
        words = ("die", str(store), "--count", str(count), *job.order[1:])
        done = subprocess.run(
            [*self.java.command(_OPTIONS_OF_DYING), *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=self.runner.options.timeout,
        )
        if done.returncode != _KILLED:
            raise JavaWorkError(reason(done.returncode, done.stderr.strip().splitlines()))


def copy_used(source: Path, target: Path, used: int) -> None:
    """Copy the first ``used`` bytes of a file, and make the copy as long as all of it."""
    with source.open("rb") as read, target.open("wb") as write:
        left = used
        while left > 0 and (piece := read.read(min(left, _PIECE))):
            write.write(piece)
            left -= len(piece)
        write.truncate(source.stat().st_size)
