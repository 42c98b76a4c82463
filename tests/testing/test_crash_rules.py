"""The crash contract tells plugins that survive a power cut from those that do not."""

from __future__ import annotations

import json
import os
from typing import Any, ClassVar

import attrs
import pytest

import reput
from reput.plugin import NoConfig
from reput.record import Message
from reput_testing import CrashContract, ExpectedState, SmallLog
from reput_testing.crashes.powercuts import PowerCuts

pytestmark = pytest.mark.proof


@attrs.define(eq=False)
class TrustingPlugin(reput.Plugin):
    """Lists offsets in a file without a checksum, and takes the store's word for what it holds.

    That is right as long as all that it wrote is on disk when `reput_flush` returns.
    """

    config: Any = attrs.field(factory=NoConfig)
    context: Any = attrs.field(default=None, init=False)
    offsets: list[int] = attrs.field(factory=list, init=False)

    @property
    def directory(self) -> str:
        return os.path.join(self.context.root, "trusting")

    @property
    def path(self) -> str:
        return os.path.join(self.directory, "offsets")

    @reput.hookimpl
    def reput_open(self, context: reput.StoreContext) -> None:
        self.context = context
        self.offsets = []
        if context.disk.exists(self.path):
            self.offsets = json.loads(context.disk.read_file(self.path) or b"[]")

    @reput.hookimpl
    def reput_recover(self, progress: int) -> int:
        self.offsets = [offset for offset in self.offsets if offset < progress]
        return progress

    @reput.hookimpl
    def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
        self.offsets += batch.physical_offset.tolist()

    @reput.hookimpl
    def reput_flush(self) -> None:
        self.make_directory()
        self.save(json.dumps(self.offsets).encode())

    def make_directory(self) -> None:
        self.context.disk.make_directory(self.directory, durable=True)

    def save(self, data: bytes) -> None:
        self.context.disk.replace(self.path, data)

    def write(self, path: str, data: bytes, *, flush: bool) -> None:
        disk = self.context.disk
        descriptor = disk.open(path, create=True)
        disk.truncate(descriptor, 0)
        disk.write(descriptor, data, 0)
        if flush:
            disk.flush(descriptor)
        disk.close(descriptor)


@attrs.define(eq=False)
class RenamesBeforeFlushing(TrustingPlugin):
    def save(self, data: bytes) -> None:
        disk = self.context.disk
        descriptor = disk.open(f"{self.path}.new", create=True)
        disk.truncate(descriptor, 0)
        disk.write(descriptor, data, 0)
        disk.rename(f"{self.path}.new", self.path)
        disk.flush_directory(self.directory)
        disk.flush(descriptor)
        disk.close(descriptor)


@attrs.define(eq=False)
class ForgetsToFlushTheFile(TrustingPlugin):
    def save(self, data: bytes) -> None:
        self.write(f"{self.path}.new", data, flush=False)
        self.context.disk.rename(f"{self.path}.new", self.path)
        self.context.disk.flush_directory(self.directory)


@attrs.define(eq=False)
class ForgetsToFlushItsDirectory(TrustingPlugin):
    def save(self, data: bytes) -> None:
        self.write(f"{self.path}.new", data, flush=True)
        self.context.disk.rename(f"{self.path}.new", self.path)


@attrs.define(eq=False)
class ForgetsTheNameOfItsDirectory(TrustingPlugin):
    def make_directory(self) -> None:
        self.context.disk.make_directory(self.directory)


@attrs.define(eq=False)
class WritesOverItsFile(TrustingPlugin):
    def save(self, data: bytes) -> None:
        self.write(self.path, data, flush=True)
        self.context.disk.flush_directory(self.directory)


@attrs.define(eq=False)
class SaysWhatIsDoneBeforeItIs(TrustingPlugin):
    """Skips what it has by a note of its own, which is on disk before the offsets are."""

    done: int = attrs.field(default=0, init=False)

    @reput.hookimpl
    def reput_recover(self, progress: int) -> int:
        note = os.path.join(self.directory, "done")
        if self.context.disk.exists(note):
            self.done = int(self.context.disk.read_file(note))
        return progress

    @reput.hookimpl
    def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
        self.offsets += batch.after(self.done).physical_offset.tolist()
        self.done = max(self.done, batch.end_offset)

    def save(self, data: bytes) -> None:
        self.context.disk.replace(os.path.join(self.directory, "done"), str(self.done).encode())
        super().save(data)


@attrs.define(eq=False)
class TriesAFailedFlushAgain(TrustingPlugin):
    """Takes the second answer of the disk for the truth."""

    def save(self, data: bytes) -> None:
        try:
            super().save(data)
        except OSError:
            pass


class TrustingContract(CrashContract):
    crash_message_count = 4
    max_states = 16
    fault_step = 7

    def state(self, plugin: TrustingPlugin) -> object:
        return list(plugin.offsets)

    def files_of(self, root: str) -> list[str]:
        return [os.path.join(root, "trusting", "offsets")]

    def log(self) -> SmallLog:
        return SmallLog.of([Message("orders", b"%d" % n) for n in range(8)], 1024)


class TestTrusting(TrustingContract):
    plugin_type = TrustingPlugin
    max_states: ClassVar[int] = 30


def contract_of(bad: type[TrustingPlugin]) -> TrustingContract:
    class Contract(TrustingContract):
        plugin_type = bad
        crash_message_count = 2
        max_states = 100

        def life(self, witness: ExpectedState, root: str) -> None:
            witness.open(root)
            for step in self.steps():
                step(witness)
            witness.close()

    return Contract()


@pytest.mark.parametrize(
    "bad",
    [
        RenamesBeforeFlushing,
        ForgetsToFlushTheFile,
        ForgetsToFlushItsDirectory,
        ForgetsTheNameOfItsDirectory,
        WritesOverItsFile,
        SaysWhatIsDoneBeforeItIs,
    ],
)
@pytest.mark.costly
def test_a_plugin_that_flushes_wrongly_does_not_survive_a_power_cut(tmp_path, bad, monkeypatch):
    monkeypatch.delenv("REPUT_CRASH_STATE", raising=False)

    with pytest.raises(AssertionError, match=r"REPUT_CRASH_STATE='\d+:\w*-\w*' pytest 'tests/"):
        contract_of(bad).test_what_a_power_cut_leaves_is_caught_up(tmp_path, lambda *facts: None)


@pytest.mark.costly
def test_a_failure_is_seen_again_by_the_state_that_it_names(tmp_path, monkeypatch):
    contract = contract_of(ForgetsToFlushItsDirectory)
    monkeypatch.delenv("REPUT_CRASH_STATE", raising=False)
    with pytest.raises(AssertionError) as first:
        contract.test_what_a_power_cut_leaves_is_caught_up(tmp_path / "1", lambda *facts: None)
    state = str(first.value).split("REPUT_CRASH_STATE='")[1].split("'")[0]

    monkeypatch.setenv("REPUT_CRASH_STATE", state)
    with pytest.raises(AssertionError) as second:
        contract.test_what_a_power_cut_leaves_is_caught_up(tmp_path / "2", lambda *facts: None)

    assert state in str(second.value)
    assert sum(each.is_dir() for each in (tmp_path / "2").rglob("state")) == 1


def states_of(cuts):
    """Try all states of two small files; what they are called."""
    disk, names = cuts.disk(), []
    for name in ("one", "two"):
        disk.replace(os.path.join(disk.directory, name), b"x" * 100)
    disk.points.append(disk.now("the end"))
    cuts.try_all(disk.points, lambda state, directory: names.append(str(state)))
    return names


def test_a_good_state_that_is_tried_again_is_good(tmp_path, monkeypatch):
    monkeypatch.delenv("REPUT_CRASH_STATE", raising=False)
    names = states_of(PowerCuts(tmp_path / "all"))
    monkeypatch.setenv("REPUT_CRASH_STATE", names[-1])
    cuts = PowerCuts(tmp_path / "again")

    again = states_of(cuts)

    assert again == [names[-1]]
    cuts.check_tried(at_least=len(names))


def test_a_workload_with_too_few_states_is_no_success(tmp_path, monkeypatch):
    monkeypatch.delenv("REPUT_CRASH_STATE", raising=False)
    cuts = PowerCuts(tmp_path)
    names = states_of(cuts)

    with pytest.raises(AssertionError, match="states tried"):
        cuts.check_tried(at_least=len(names) + 1)


def test_a_state_of_another_life_that_was_not_reached_is_no_success(tmp_path, monkeypatch):
    monkeypatch.setenv("REPUT_CRASH_STATE", "3:-/1:-")
    cuts = PowerCuts(tmp_path)
    states_of(cuts)

    with pytest.raises(AssertionError, match="was not found"):
        cuts.check_tried(at_least=1)


@pytest.mark.costly
def test_a_plugin_that_swallows_errors_of_the_disk_is_found(tmp_path, monkeypatch):
    monkeypatch.delenv("REPUT_FAULT", raising=False)
    contract = contract_of(TriesAFailedFlushAgain)
    contract.fault_step = 2  # of two operations in a row, one at least

    with pytest.raises(
        AssertionError, match=r"REPUT_FAULT='\d+:E\w+:(once|lasting)' pytest 'tests"
    ):
        contract.test_a_disk_that_fails_costs_nothing(tmp_path, lambda *facts: None)
