"""`MixedLives`: kills the processes of stores that have all first-party plugins, and judges.

A failure prints the command that goes through the same life again, and keeps the store.
"""

from __future__ import annotations

import os
import pickle
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mixedplan as plan
import mixedwriter
from mixedjudge import Judge, Tail, Violation
from mixedreplica import (
    catch_up,
    catch_up_served,
    replica_of,
    served_replica_of,
    wrong_in_replica,
)
from mixedrest import REST_MS, bring_to_rest, look_as_reader
from mixedserver import address_of, free_port

from reput_server.follow import DirectorySource
from reput_testing import copy_store
from reput_testing.crashes.killrounds import KillRounds

HANG_SECONDS = 60.0


class Processes:
    """The process that forks writers and readers; a context manager."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.seconds = 0.0
        """Processor time of all that have ended."""

    def __enter__(self) -> Processes:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join(filter(None, [os.path.dirname(mixedwriter.__file__), *sys.path]))
        environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        with self._log.open("ab") as log, theirs:
            self._process = subprocess.Popen(
                [sys.executable, mixedwriter.__file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                env=environment,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.wait(HANG_SECONDS)

    def start(self, function: str, **arguments: Any) -> int:
        """Fork a process that calls the function; its id."""
        return int(self._ask((function, arguments)))

    def end(self, pid: int, stops: tuple[float, float] | None = None) -> int:
        """Wait until it is dead, and stop it for a while before; its status."""
        handle = os.pidfd_open(pid)
        try:
            if stops is not None and not select.select([handle], [], [], stops[0])[0]:
                os.kill(pid, signal.SIGSTOP)
                select.select([handle], [], [], stops[1])
                os.kill(pid, signal.SIGCONT)
            if not select.select([handle], [], [], HANG_SECONDS)[0]:
                os.kill(pid, signal.SIGABRT)  # what its threads do goes to the log
                select.select([handle], [], [], HANG_SECONDS)
                raise Violation(f"the process hangs:\n{self.said()}")
            status, seconds = self._ask(("reap", pid)).split()
            self.seconds += float(seconds)
            return int(status)
        finally:
            os.close(handle)

    def kill(self, pid: int) -> None:
        """Kill it; it may be dead."""
        os.kill(pid, signal.SIGKILL)
        self.end(pid)

    def said(self) -> str:
        """What processes wrote to their standard error."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-8_000:]

    def _ask(self, request: Any) -> bytes:
        self._connection.send(pickle.dumps(request))
        answer = self._connection.recv(64)
        assert answer, f"the process that forks is gone:\n{self.said()}"
        return answer


class MixedLives(KillRounds[Processes]):
    """Lives of stores, one after the other."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.ended_count = 0
        self.acked_count = 0
        self.read_count = 0
        self.delivered_count = 0
        self._directory = directory
        self._real = Path(os.environ.get("REPUT_SOAK_DISK") or "/var/tmp")

    def __str__(self) -> str:
        return (
            f"{self.killed_count} kills ({self.kinds}), {self.ended_count} ended, "
            f"{self.acked_count} messages acknowledged, {self.delivered_count} delivered, "
            f"{self.read_count} read beside, "
            f"{self.killed_count / max(self.seconds, 1e-9):.1f} kills/s, seed {self.seed}"
        )

    def enter_job(self, job: int) -> None:
        self._directory = self._directory / str(job)

    def processes(self) -> Processes:
        return Processes(self._directory / "processes.log")

    def live(self, processes: Processes, life: int, kills: int) -> None:
        planned = plan.Life(self.seed, life)
        home = self._directory / "life"
        if planned.is_on_disk:
            home = self._real / f"reput-soak-{os.getpid()}"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        root, judge = home / "store 0", Judge()
        for death in planned.deaths():
            judge.ahead_ms += death.jump_ms
            judge.was_full = judge.was_full or any(death.full)
            try:
                port = free_port() if death.serves else 0
                with self._readers(processes, death, root, home, port) as tails:
                    self._die(processes, death, root, home, judge, port)
                root, judge = self._look(death, root, judge, tails)
            except Exception as error:
                raise AssertionError(
                    f"{type(error).__name__}: {error}\n"
                    f"life {life}, death {death.number} after {self.killed_count} kills: "
                    f"{death}\n{dict(death.sections)}\n"
                    f"the store as it was left: {root}\n{processes.said()}{self.again(life)}"
                ) from error
            if judge.is_blind or self.killed_count >= kills:
                break
        if planned.is_on_disk:
            shutil.rmtree(home)
        self.acked_count += sum(
            told.place is not None or told.half is not None for told in judge.told.values()
        )
        self.delivered_count += len(judge.where)

    # ------------------------------------------------------------------ deaths

    def _die(
        self,
        processes: Processes,
        death: plan.Death,
        root: Path,
        home: Path,
        judge: Judge,
        port: int,
    ) -> None:
        journal = home / f"journal {death.number}"
        pid = processes.start(
            "write",
            root=os.fspath(root),
            journal=os.fspath(journal),
            death=death,
            ahead_ms=judge.ahead_ms,
            port=port,
        )
        status = processes.end(pid, death.stops)
        end = judge.hear(Tail(journal).lines())
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            job = "serve" if death.serves else death.job
            self.count_kill(f"{job} {end['phase']} {end['activity']}".rstrip())
        elif status == 0:
            self.ended_count += 1
        else:
            raise Violation(f"the process failed: {os.waitstatus_to_exitcode(status)}")

    @contextmanager
    def _readers(
        self, processes: Processes, death: plan.Death, root: Path, home: Path, port: int
    ) -> Iterator[list[Tail]]:
        """Processes that read or follow beside."""
        tails, pids = [], []
        for number in range(death.readers):
            path = home / f"reader {death.number} {number}"
            tails.append(Tail(path))
            pids.append(
                processes.start(
                    "read",
                    root=os.fspath(root),
                    journal=os.fspath(path),
                    seed=death.seed + number,
                )
            )
        if death.follows or death.serves:
            path = home / f"follower {death.number}"
            tails.append(Tail(path))
            pids.append(
                processes.start(
                    "follow",
                    root=os.fspath(root),
                    journal=os.fspath(path),
                    address=address_of(port) if death.serves else "",
                )
            )
        try:
            yield tails
        finally:
            for pid in pids:
                processes.kill(pid)

    # ------------------------------------------------------------------ looking

    def _check_replica(self, root: Path, judge: Judge, *, catches_up: bool) -> None:
        path, source = replica_of(root), DirectorySource(str(root))
        for wrong in wrong_in_replica(path, judge.records, judge.low):
            raise Violation(wrong)
        if catches_up:
            for wrong in catch_up(path, source, judge.records, judge.low):
                raise Violation(wrong)
            shutil.rmtree(path)  # one that fell behind cannot go on

    def _check_served_replica(
        self, path: Path, rested: Path, death: plan.Death, judge: Judge
    ) -> None:
        """Let the replica catch up with a broker of the store that was brought to rest."""
        clock = mixedwriter.Clock(judge.ahead_ms)
        for wrong in catch_up_served(path, rested, death.sections, clock, judge.records, judge.low):
            raise Violation(wrong)
        shutil.rmtree(path)  # the store that goes on may have other messages

    def _look(
        self, death: plan.Death, root: Path, judge: Judge, tails: list[Tail]
    ) -> tuple[Path, Judge]:
        """Judge what is left; the store and the knowledge to go on with."""
        is_beside = bool(death.readers) or death.follows or death.serves
        rests = death.rests or death.goes_on_repaired
        if not root.exists() or not (death.looks or rests or is_beside):
            return root, judge
        rested = root.with_name(f"store {death.number + 1}")
        if rests:
            copy_store(root, rested)
        look_as_reader(root, judge)
        for tail in tails:
            self.read_count += judge.check_reader(tail.lines())
        if not judge.is_blind and replica_of(root).exists() and (rests or death.follows):
            self._check_replica(root, judge, catches_up=rests)
        if not judge.is_blind and served_replica_of(root).exists() and not rests:
            for wrong in wrong_in_replica(served_replica_of(root), judge.records, judge.low):
                raise Violation(wrong)
        if not rests:
            return root, judge
        after = judge.copy()
        bring_to_rest(
            rested,
            after,
            death.sections,
            time.time_ns() // 1_000_000 + judge.ahead_ms,
            random.Random(death.seed),
            compares=death.compares,
        )
        after.ahead_ms += REST_MS
        if not after.is_blind and served_replica_of(root).exists():
            self._check_served_replica(served_replica_of(root), rested, death, after)
        if death.goes_on_repaired:
            shutil.rmtree(root)
            return rested, after
        shutil.rmtree(rested)
        return root, judge
