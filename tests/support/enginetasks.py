"""Tasks for engines: a module, for other processes import what they are to do."""

from __future__ import annotations

import os
import signal

import attrs


@attrs.frozen
class Step:
    """A task that says who did it."""

    number: int
    size: int = 100

    def __str__(self):
        return f"step {self.number}"


def name_process(task, report):
    """Number of the task, and of the process."""
    report(task.size // 2)
    report(task.size)
    return task.number, os.getpid()


def fail_at_three(task, report):
    """Every task leaves a mark, and the fourth fails."""
    if task.number == 3:
        raise OSError(28, "no space left")
    return task.number


def die(task, report):
    """The process is killed, as by a system that is out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)
