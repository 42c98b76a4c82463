"""The side of `reput_testing.crashes.killedwriter` that starts, watches and kills writers."""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import attrs

from reput_testing.crashes.killplan import (
    ACK,
    ACKS,
    CLOSED,
    CLOSED_PHASE,
    CLOSING,
    CLOSING_PHASE,
    OPENED,
    OPENING_PHASE,
    SECONDS,
    WRITING_PHASE,
    Ack,
    Death,
    Moment,
    Start,
)

HANG_SECONDS = 60.0
"""Longest wait for a process that should go on at once."""
_ABORT_SECONDS = 5.0
_MOST_ACKS = 1_500  # of one writer: after a late kill, reading them must not take minutes
_PHASES = {OPENED: WRITING_PHASE, CLOSING: CLOSING_PHASE, CLOSED: CLOSED_PHASE}


@attrs.define(eq=False)
class Outcome:
    """How far a writer got, and what it acknowledged."""

    phase: str = OPENING_PHASE
    acks: list[Ack] = attrs.field(factory=list)


@attrs.define(eq=False)
class Writer:
    """A writer that was started; not reaped yet, so that no other process has its process id."""

    pid: int
    pipe: int

    def watch(self, death: Death) -> Outcome:
        """Read what the writer sends until it is dead; kill it when its time has come."""
        outcome, moment, rest = Outcome(), death.moment, b""
        deadline = _deadline(moment, OPENING_PHASE)
        enough = moment.amount if moment.kind == ACKS else _MOST_ACKS
        while True:
            left = HANG_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0 or not select.select([self.pipe], [], [], left)[0]:
                if deadline is None:
                    os.kill(self.pid, signal.SIGABRT)  # its threads' stacks go to the log
                    select.select([self.pipe], [], [], _ABORT_SECONDS)
                    raise AssertionError(f"the writer has said nothing for {left:g} s")
                self.kill()
                deadline = None
                continue
            data = os.read(self.pipe, 1 << 16)
            if not data:
                assert not rest, f"half an acknowledgement: {rest!r}"
                return outcome
            data = rest + data
            whole = len(data) // ACK.size * ACK.size
            data, rest = data[:whole], data[whole:]
            for ack in map(Ack._make, ACK.iter_unpack(data)):
                if ack.mark:
                    outcome.phase = _PHASES[ack.mark]
                    deadline = _deadline(moment, outcome.phase) or deadline
                else:
                    outcome.acks.append(ack)
            if len(outcome.acks) >= enough:
                self.kill()

    def kill(self) -> None:
        """Kill the writer, unless it is dead already."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.pipe)


def _deadline(moment: Moment, phase: str) -> float | None:
    """Return when to kill a writer whose ``phase`` begins now; None if not in this phase."""
    if moment.kind == SECONDS and moment.phase == phase:
        return time.monotonic() + moment.amount
    return None


class WriterTemplate:
    """The process that forks writers; a context manager.

    Args:
        log: file for what writers write to their standard error.
    """

    def __init__(self, log: Path) -> None:
        self._log = log

    def __enter__(self) -> Self:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "reput_testing.crashes.killedwriter", str(theirs.fileno())]
        # Writers can import what the tests can; no library starts threads before the fork.
        path = os.pathsep.join(filter(None, sys.path))
        environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        with open(self._log, "ab") as log, theirs:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                env=environment,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        try:
            self._process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def start(self, start: Start) -> Writer:
        """Fork a writer."""
        os.truncate(self._log, 0)
        read_end, write_end = os.pipe()
        try:
            socket.send_fds(self._connection, [pickle.dumps(start)], [write_end])
            return Writer(int(self._connection.recv(64)), read_end)
        except (OSError, ValueError):
            os.close(read_end)
            raise AssertionError("no writer was forked") from None
        finally:
            os.close(write_end)

    def reap(self) -> int:
        """Return the status of the writer, which is dead or about to die."""
        self._connection.send(b"R")
        return int(self._connection.recv(64))

    def said(self) -> str:
        """Return the writer's standard error, as lines to print."""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return f"the writer says:\n{text}" if text else ""
