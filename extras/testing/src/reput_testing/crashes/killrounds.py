"""`KillRounds`: kills processes until enough have died, and says how to repeat a life.

``REPUT_KILL_SEED`` is the seed of a run and, after a slash, the number of one life; with this
number the same life is repeated. ``REPUT_KILLS`` is the number of kills.
"""

from __future__ import annotations

import abc
import os
import random
import sys
import time
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from reput_testing.crashes.powercuts import command_for

__all__ = ["KILLS_VARIABLE", "SEED_VARIABLE", "KillRounds"]

KILLS_VARIABLE = "REPUT_KILLS"
SEED_VARIABLE = "REPUT_KILL_SEED"

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

    def run(self, kills: int) -> None:
        """Run lives until ``kills`` processes were killed, and print a summary.

        Raises:
            AssertionError: a check has failed; the text says how to repeat the life.
        """
        started, number = time.monotonic(), 0
        with self.processes() as processes:
            while self.killed_count < kills:
                life = number if self._only_life is None else self._only_life
                self.live(processes, life, kills)
                number += 1
        self.seconds = time.monotonic() - started
        sys.stdout.write(f"\n{self}\n")

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
