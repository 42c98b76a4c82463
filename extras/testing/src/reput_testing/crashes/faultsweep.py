"""Makes each operation of a disk fail in turn: every error is raised, and no promise is broken.

`Faults` repeats one workload, each time with another operation that fails. The store may raise only
errors that callers can expect; and when it is opened again on a working disk, every message whose
put returned is there.

A failure prints the fault as ``number:error:how``; with the environment variable ``REPUT_FAULT``
set to this text, only this fault is tried.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import attrs

import reput
from reput.errors import ReputError
from reput_testing.casebudget import is_soak, part
from reput_testing.crashes.expectedstate import ExpectedState, messages_of
from reput_testing.crashes.powercuts import command_for
from reput_testing.disks.failingdisk import CHANGING, FaultyDisk, QuickDisk

FAULT_VARIABLE = "REPUT_FAULT"

QUICK_RETRIES = {"retry_count": 1}
"""Section ``dispatch`` for stores whose disks fail permanently, beside `no_pauses`."""


@contextlib.contextmanager
def no_pauses() -> Iterator[None]:
    """Have stores retry what failed at once, and close without waiting for plugins."""
    with mock.patch.multiple(
        reput.DispatchConfig, retry_pause_ms=1, retry_max_pause_ms=1, close_timeout_ms=20
    ):
        yield


_PATIENCE = 0.02  # seconds

Step = Callable[[ExpectedState], object]
"""One call of a workload; each call is made, also after an earlier one has raised."""


@attrs.frozen
class Fault:
    """One failure of a disk."""

    number: int
    """Which operation fails, counted from 1."""
    error: int
    """The `errno`."""
    lasting: bool
    """Whether all later operations fail, too."""

    def __str__(self) -> str:
        return (
            f"{self.number}:{errno.errorcode[self.error]}:{'lasting' if self.lasting else 'once'}"
        )


@attrs.define(eq=False)
class Faults:
    """Tries every fault of a workload, and counts the faults."""

    directory: Path
    options: Mapping[str, Any]
    """Options of `ExpectedState`."""
    operations: frozenset[str] = CHANGING
    """The operations that fail."""
    errors: Sequence[int] = (errno.EIO, errno.ENOSPC)
    every: int = 1
    """Every how many operations one fails: a higher number takes less time."""
    count: int = attrs.field(default=0, init=False)
    """Faults tried."""

    def try_all(
        self, steps: Sequence[Step], check: Callable[[ExpectedState, str], object] | None = None
    ) -> None:
        """Run the steps on a failing disk, once for each fault.

        Args:
            steps: a workload. The store is opened before the steps and closed after them; a failed
                opening is repeated, as a user would repeat it.
            check: called at the end with the witness and the store's directory, after the store was
                opened and closed on a working disk.
        """
        for fault in self.faults(steps):
            self.count += 1
            directory = self.directory / f"fault {self.count}"
            directory.mkdir(parents=True)
            disk = FaultyDisk(
                fault.number, error=fault.error, lasting=fault.lasting, operations=self.operations
            )
            witness = ExpectedState(self.options, disk=disk, patience=_PATIENCE)
            root = str(directory / "store")
            try:
                with no_pauses():
                    errors = self.run(witness, root, steps)
                    self.look(witness, root, disk, errors)
                if check is not None:
                    check(witness, root)
            except Exception as error:
                operation, path = disk.calls[fault.number - 1]
                raise AssertionError(
                    f"{type(error).__name__}: {error}\nfault {fault}: {operation} {path}; to see "
                    f"it again:\n  {command_for(FAULT_VARIABLE, str(fault))}"
                ) from error
            # Hundreds of stores would be left for pytest to remove.
            shutil.rmtree(directory, ignore_errors=True)

    def faults(self, steps: Sequence[Step]) -> Iterator[Fault]:
        """Return all faults of a workload; a run without any counts the operations."""
        wanted = os.environ.get(FAULT_VARIABLE)
        if wanted:
            place, name, how = wanted.split(":")
            yield Fault(int(place), getattr(errno, name), how == "lasting")
            return
        (self.directory / "sound").mkdir(parents=True)
        disk = FaultyDisk(operations=self.operations)
        errors = self.run(
            ExpectedState(self.options, disk=disk, patience=_PATIENCE),
            str(self.directory / "sound" / "store"),
            steps,
        )
        assert not errors, f"without a fault: {errors}"
        for number in part(range(1, len(disk.calls) + 1, 1 if is_soak() else self.every)):
            for error in self.errors:
                yield Fault(number, error, lasting=False)
                yield Fault(number, error, lasting=True)

    def run(self, witness: ExpectedState, root: str, steps: Sequence[Step]) -> list[Exception]:
        """Run the steps under one fault; return the errors that they raised."""
        errors: list[Exception] = []
        attempt(errors, lambda: witness.open(root))
        for step in steps:
            if witness.store is None:
                attempt(errors, lambda: witness.open(root))
            if witness.store is not None:
                attempt(errors, step, witness)
        if witness.store is not None:
            attempt(errors, witness.store.close)
        return errors

    def look(
        self, witness: ExpectedState, root: str, disk: FaultyDisk, errors: Sequence[Exception]
    ) -> None:
        """Open the store on a working disk, and compare."""
        disk.mend()
        told = [error for error in errors if isinstance(error, ReputError | OSError)]
        assert len(told) == len(errors), f"no errors that a caller expects: {errors}"
        with reput.open(root, disk=QuickDisk(), threads=False, **witness.arguments()) as store:
            witness.compare(messages_of(store), (len(witness.sent), len(witness.sent), True))
            receipt = store.put(reput.Message("goes-on", b"after the fault"))
            store.flush()
            assert store.wait_dispatched(60), "dispatching does not come to its end"
            assert store.get(receipt.physical_offset).body == b"after the fault"
            for state in store.plugins():
                assert state.lag_size == 0, f"{state.name}: {state.last_error}"


def attempt(errors: list[Exception], call: Callable[..., object], *arguments: object) -> None:
    """Call ``call``, and append what it raises to ``errors``."""
    try:
        call(*arguments)
    except Exception as error:
        errors.append(error)
