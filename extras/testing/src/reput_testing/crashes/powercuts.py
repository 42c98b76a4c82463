"""Tries what power cuts leave of a store: every state opens, and nothing promised is lost.

    def life(witness, root):
        witness.open(root)
        witness.put(Message("orders", b"1"))
        witness.close()

    PowerCuts(tmp_path).live(Witness(options), life)

A failure names its state and the command that makes it again: the environment variable
``REPUT_CRASH_STATE`` holds the point and the state's id, and only this state is tried. With
``REPUT_SOAK=1`` many more states are tried; the random ones by a new seed each time, which the
failure names.
"""

from __future__ import annotations

import bisect
import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, overload

import attrs

from reput.record import Message
from reput_testing.casebudget import is_soak, least_count, part
from reput_testing.crashes.expectedstate import ExpectedState
from reput_testing.disks.crashstates import CrashPoint, CrashState
from reput_testing.disks.simulateddisk import SimulatedDisk

STATE_VARIABLE = "REPUT_CRASH_STATE"
SEED_VARIABLE = "REPUT_CRASH_SEED"
KILLED = "killed"
_LOOKS = 4  # states whose looks are compared, for each state that is tried

_T = TypeVar("_T")

Life = Callable[[ExpectedState, str], object]
Check = Callable[[ExpectedState, CrashPoint, str], object]


def command_for(variable: str, value: str) -> str:
    """Return a shell command that repeats the current test with an environment variable set."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0] or "the same test"
    return f"{variable}='{value}' pytest '{test}'"


def second_life(witness: ExpectedState, root: str) -> None:
    """Use a store after a crash without knowing its past: a little of everything."""
    witness.open(root)
    witness.put(Message("again", b"1"), Message("again", b"2", 1))
    witness.dispatched()
    witness.flush()
    witness.put_many([Message("again", b"3"), Message("again", b"4")])
    witness.close()


@attrs.frozen
class Start:
    """The state in which a workload after a crash starts."""

    state: CrashState
    killed: bool = False
    """Whether only the process died: all is there, and what was not durable still is not."""

    def __str__(self) -> str:
        return f"{self.state.point.number}:{KILLED}" if self.killed else str(self.state)


@attrs.define(eq=False)
class PowerCuts:
    """Cuts the power at every point of workloads, and counts.

    Attributes:
        tried_count: states that were tried; of states that look the same, with nothing promised in
            between, only one is.
    """

    directory: Path
    """States are written below it; a directory of the test's own."""
    most: int = 64
    """See `CrashPoint.states`."""
    random_count: int = 8
    tries: int = 1_000_000
    """Most states to try in one `try_all`, evenly spread over all."""
    trail: str = ""
    """Ids of the states that led here, if a state starts another workload."""
    tried_count: int = attrs.field(default=0, init=False)
    _disk_count: int = attrs.field(default=0, init=False)
    _seed: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        if is_soak():
            self.most, self.random_count, self.tries = self.most * 16, 64, 1_000_000
        chance = random.SystemRandom().randrange(1 << 32) if is_soak() else 0
        self._seed = int(os.environ.get(SEED_VARIABLE, chance))

    def disk(
        self, note: Callable[[], object] | None = None, content: Path | None = None
    ) -> SimulatedDisk:
        """Return a disk whose power will be cut, with a directory of its own.

        Args:
            note: see `SimulatedDisk`.
            content: a store that is on the disk already; it is copied.
        """
        self._disk_count += 1
        directory = self.directory / f"disk {self._disk_count}"
        directory.mkdir(parents=True)
        if content is not None:
            shutil.copytree(content, directory / "store")
        return SimulatedDisk(directory, note)

    def again(self, start: Start, note: Callable[[], object] | None = None) -> SimulatedDisk:
        """Return a disk as it is after a crash, whose power will be cut again."""
        self._disk_count += 1
        directory = self.directory / f"disk {self._disk_count}"
        if start.killed:
            return SimulatedDisk.after_kill(start.state.point, directory, note)
        start.state.materialize(directory)
        return SimulatedDisk(directory, note)

    def beyond(self, start: Start) -> PowerCuts:
        """Return a `PowerCuts` for a workload that begins at ``start``; `add` its counts later."""
        self._disk_count += 1
        directory = self.directory / f"beyond {self._disk_count}"
        inner = attrs.evolve(self, directory=directory, trail=f"{self.trail}{start}/")
        inner.most, inner.random_count, inner.tries = self.most, self.random_count, self.tries
        inner._seed = self._seed
        return inner

    def add(self, other: PowerCuts) -> None:
        """Add the count of ``other``."""
        self.tried_count += other.tried_count

    def check_tried(self, at_least: int) -> None:
        """Fail unless ``at_least`` states were tried; in a replay, unless its one state was.

        A test calls it last: a workload that no longer reaches the disk, or a state that no longer
        exists, would look like success.
        """
        wanted = os.environ.get(STATE_VARIABLE, "")
        least = 1 if wanted else least_count(at_least)
        found = f"state {wanted!r} was not found" if wanted else f"{self.tried_count} states tried"
        assert self.tried_count >= least, f"{found}, {least} expected"

    # ------------------------------------------------------------------ lives of a store

    def live(
        self,
        witness: ExpectedState,
        life: Life,
        check: Check | None = None,
        *,
        again: Sequence[int] = (),
        content: Path | None = None,
    ) -> None:
        """Run a workload, and try every state that a power cut during it would have left.

        Args:
            witness: remembers what was put; a new one.
            life: the workload, called with the witness and the store's directory.
            check: called with the witness, a state's point and the directory of the store in that
                state; `ExpectedState.check` when left out.
            again: how many of the states start a second life (`second_life`) whose power is cut as
                well, how many states of the second a third life, and so on. Half of them are left
                by a power cut, half by the death of the process alone.
            content: a store with which the workload begins; none when left out.
        """
        disk = self.disk(content=content)
        self._live(witness, disk, life, check or ExpectedState.check_point, tuple(again))

    def _live(
        self,
        witness: ExpectedState,
        disk: SimulatedDisk,
        life: Life,
        check: Check,
        again: tuple[int, ...],
    ) -> None:
        disk.note, witness.disk = witness.note, disk
        life(witness, os.path.join(disk.directory, "store"))
        disk.points.append(disk.now("the end"))
        self.try_all(
            disk.points, lambda state, root: check(witness, state.point, str(root / "store"))
        )
        for start in self.starts(disk.points, again[0]) if again else ():
            inner = self.beyond(start)
            fresh = inner.again(start)
            later = witness.after(os.path.join(fresh.directory, "store"), start.state.point.note)
            inner._live(later, fresh, second_life, check, again[1:])
            self.add(inner)

    # ------------------------------------------------------------------ states

    def try_all(
        self, points: Sequence[CrashPoint], check: Callable[[CrashState, Path], object]
    ) -> None:
        """Call ``check`` with each state and the directory that holds it."""
        for state in self._chosen(points):
            self.try_one(state, check)

    def try_one(self, state: CrashState, check: Callable[[CrashState, Path], object]) -> None:
        """Call ``check`` with one state and the directory that holds it."""
        self.tried_count += 1
        directory = self.directory / "state"
        shutil.rmtree(directory, ignore_errors=True)
        state.materialize(directory)
        try:
            check(state, directory)
        except Exception as error:
            again = command_for(STATE_VARIABLE, self._name(state))
            raise AssertionError(
                f"{type(error).__name__}: {error}\n{state.describe()}\n"
                f"power cut {self._name(state)}, seed {self._seed}; to see it again:\n  {again}"
            ) from error

    def starts(self, points: Sequence[CrashPoint], count: int) -> Iterator[Start]:
        """Return about ``count`` states, half of them of power cuts, half of killed processes."""
        wanted = os.environ.get(STATE_VARIABLE, "")
        if wanted:
            name, more, _ = wanted.removeprefix(self.trail).partition("/")
            if wanted.startswith(self.trail) and more:
                yield _start(name, points)
            return
        for state in self._evenly(points, -(-count // 2)):
            yield Start(state)
        for point in _spread(points, count // 2):
            yield Start(point.newest(), killed=True)

    def _chosen(self, points: Sequence[CrashPoint]) -> Iterator[CrashState]:
        wanted = os.environ.get(STATE_VARIABLE, "")
        if wanted:
            yield from self._wanted(wanted, points)
            return
        yield from part(self._evenly(points, self.tries))

    def _evenly(self, points: Sequence[CrashPoint], count: int) -> Sequence[CrashState]:
        """Choose at most ``count`` states, evenly spread over all; no two look the same.

        Comparing looks takes longer than listing states. So only a few times as many states as
        wanted are compared, and not each of some ten thousand.
        """
        every = _States(
            points, {"most": self.most, "random_count": self.random_count, "seed": self._seed}
        )
        asked = count
        while True:
            asked *= _LOOKS
            different = list(_different(_spread(every, asked)))
            if len(different) >= count or asked >= len(every):
                return _spread(different, count)

    def _wanted(self, wanted: str, points: Sequence[CrashPoint]) -> Iterator[CrashState]:
        name = wanted.removeprefix(self.trail)
        if wanted.startswith(self.trail) and "/" not in name:
            yield _start(name, points).state

    def _name(self, state: CrashState) -> str:
        return f"{self.trail}{state}"


def _start(name: str, points: Sequence[CrashPoint]) -> Start:
    number, _, choices = name.partition(":")
    point = points[int(number)]
    return Start(point.newest(), True) if choices == KILLED else Start(point.state(choices))


class _States(Sequence[CrashState]):
    """The states of many points, made on access: most are never accessed.

    The length is the sum of `CrashPoint.most_states`; if a point has fewer states, several of
    its places hold the same state.
    """

    def __init__(self, points: Sequence[CrashPoint], options: Mapping[str, int]) -> None:
        self._points, self._options = points, options
        most, random_count = options["most"], options["random_count"]
        sizes = (point.most_states(most=most, random_count=random_count) for point in points)
        self._ends = list(itertools.accumulate(sizes))
        self._made: tuple[int, list[CrashState]] = (-1, [])

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, at: int) -> CrashState: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[CrashState]: ...

    def __getitem__(self, at: int | slice) -> CrashState | Sequence[CrashState]:
        """Make the state at one place, or those at several."""
        if isinstance(at, slice):
            return [self[place] for place in range(len(self))[at]]
        point = bisect.bisect_right(self._ends, at)
        if self._made[0] != point:
            self._made = point, list(self._points[point].states(**self._options))
        begin = self._ends[point - 1] if point else 0
        states = self._made[1]
        return states[(at - begin) * len(states) // (self._ends[point] - begin)]


def _different(states: Iterable[CrashState]) -> Iterator[CrashState]:
    """Of states that look the same, with nothing promised in between, return the first."""
    seen = set()
    for state in states:
        key = state.fingerprint(), repr(state.point.note)
        if key not in seen:
            seen.add(key)
            yield state


def _spread(found: Sequence[_T], count: int) -> Sequence[_T]:
    """Return at most ``count`` of ``found``, as far apart as possible."""
    if count >= len(found):
        return found
    return [found[(2 * number + 1) * len(found) // (2 * count)] for number in range(count)]
