"""What a plugin's phase becomes, by the table in `reput.dispatch.runtime.pluginrunner`."""

from __future__ import annotations

import ast
import errno
import threading
from pathlib import Path

import pytest

import reput
from reput.dispatch.config import DispatchConfig
from reput.dispatch.runtime import pluginrunner as module
from reput.dispatch.runtime.hookcalls import HookCalls
from reput.dispatch.runtime.pluginrunner import PluginRunner, RunnerContext
from reput.dispatch.runtime.pluginstate import Phase, Stopped
from reput.plugin import PluginHooks

SOURCES = Path(reput.__file__).parent
FACTS = {"base_offset": 0, "start": [0], "store_timestamp": [0], "end_offset": 100}
BATCH = type("Batch", (), {"__len__": lambda self: 1, **FACTS})()
ERROR = OSError(errno.EIO, "Input/output error")
FULL = OSError(errno.ENOSPC, "No space left on device")


def rows():
    """What is told, the phase before, and the phase after it, by the table of the docstring."""
    lines = [line for line in module.__doc__.split("\n") if line.strip()]
    start, _, stop = [place for place, line in enumerate(lines) if line.startswith("===")]
    header, *table = lines[start + 1 : start + 2] + lines[start + 3 : stop]
    before = header.split()[1:]
    for line in table:
        told, after = line[:16].strip(), line[16:].split()
        for phase, then in zip(before, after, strict=True):
            yield told, Phase(phase), Phase(phase if then == "-" else then)


class Driven:
    """One plugin on a board whose clock the test moves, brought into a phase by what is told."""

    def __init__(self, policy="suspend", retry_count=1):
        self.now = 0.0
        config = DispatchConfig(on_error=policy, retry_count=retry_count, stall_ms=1_000)
        calls = HookCalls(threads=False, now=lambda: self.now)
        self.board = RunnerContext(config, calls, now=lambda: self.now)
        hooks = PluginHooks(dispatch=lambda batch: None, flush=lambda: None)
        self.runner = PluginRunner(self.board, "one", hooks, 0)
        self.board.runners = {"one": self.runner}
        self.call = None
        self.errors, self.threads = {}, {}

    def enter(self, hook="reput_dispatch"):
        """Begin a call, on a thread of its own; the phase is what it was."""
        inside, gate = threading.Event(), threading.Event()

        def function():
            inside.set()
            assert gate.wait(60)
            if error := self.errors.get(call):
                raise error

        thread = threading.Thread(target=self.runner.make, args=(hook, function), daemon=True)
        thread.start()
        assert inside.wait(10)
        self.call = call = self.runner.inside(hook)
        self.threads[call] = thread, gate

    def hang(self):
        self.runner.mark_if_stalled(self.call)  # the time runs from the first look
        self.now += 2
        assert self.runner.mark_if_stalled(self.call)

    def leave(self, call=None, error=None):
        """Let a call, the last one if none is named, return or raise."""
        call = call or self.call
        thread, gate = self.threads[call]
        if error is not None:
            self.errors[call] = error
        gate.set()
        thread.join(10)
        assert call.is_done

    def may_begin(self, hook, at=None):
        made = []
        self.runner.make(hook, lambda: made.append(hook), at=at)
        return made == [hook]

    def bring_into(self, phase):
        """Bring the plugin, which is inside of a dispatch, into a phase."""
        self.enter()
        match phase:
            case Phase.RETRYING:
                self.runner.batch_failed(ERROR)
            case Phase.STALLED:
                self.hang()
            case Phase.SUSPENDED:
                self.runner.suspend(Stopped.BY_USER)
            case Phase.HALTED:
                self.board.config = DispatchConfig(on_error="halt")
                self.runner.stop(ERROR)
                self.board.config = DispatchConfig(stall_ms=1_000)
            case Phase.BROKEN:
                self.runner.not_opened("no such file", None)
        assert self.runner.phase is phase

    def tell(self, told):
        match told:
            case "passed":
                self.runner.passed(BATCH, 0.0, 0.0)
            case "batch_failed":
                self.runner.batch_failed(FULL)
            case "stop, suspend":
                self.runner.stop(ERROR)
            case "stop, halt":
                self.board.config = DispatchConfig(on_error="halt")
                self.runner.stop(ERROR)
            case "flush_failed":
                self.runner.flush_failed(ERROR, 7)
            case "flush_waits":
                self.runner.flush_waits(FULL)
            case "mark_if_stalled":
                self.hang()
            case "ended":
                self.leave()
            case "suspend":
                self.runner.suspend(Stopped.BY_USER)
            case "not_opened":
                self.runner.not_opened("no such file", None)
            case "resume":
                self.runner.resume(0)
            case _:
                raise AssertionError(told)


@pytest.mark.parametrize(("told", "before", "after"), [*rows()])
def test_the_phase_becomes_what_the_table_says(told, before, after):
    driven = Driven()
    driven.bring_into(before)

    driven.tell(told)

    assert driven.runner.phase is after


def test_a_plugin_is_retried_until_batch_and_flush_have_succeeded():
    driven = Driven()
    runner = driven.runner

    runner.flush_waits(FULL)
    assert runner.phase is Phase.RETRYING
    assert driven.may_begin("reput_dispatch", at=0)  # messages come meanwhile
    runner.passed(BATCH, 0.0, 0.0)
    assert runner.phase is Phase.RETRYING
    runner.flushed()
    assert runner.phase is Phase.RUNNING

    runner.flush_waits(FULL)
    runner.batch_failed(FULL)
    runner.flushed()
    assert runner.phase is Phase.RETRYING
    runner.passed(BATCH, 0.0, 0.0)
    assert runner.phase is Phase.RUNNING


def test_a_hook_that_finds_the_disk_full_does_not_stop_the_plugin():
    driven = Driven()

    for error, phase in ((FULL, Phase.RUNNING), (ERROR, Phase.SUSPENDED)):

        def trim(error=error):
            raise error

        driven.runner.request("reput_trim", trim).wait()
        assert driven.runner.phase is phase


@pytest.mark.parametrize("phase", Phase)
def test_only_a_plugin_that_runs_is_called(phase):
    driven = Driven()
    driven.bring_into(phase)
    driven.leave()
    if phase is Phase.STALLED:
        driven.enter("reput_work")
        driven.hang()
    driven.now += 60

    may_begin = driven.may_begin("reput_dispatch", at=0)

    assert may_begin == (phase in (Phase.RUNNING, Phase.RETRYING))


def test_a_hook_is_not_entered_twice_at_once_and_another_one_is():
    driven = Driven()
    driven.enter("reput_enrich")
    first = driven.call

    assert not driven.may_begin("reput_enrich")
    driven.enter("reput_dispatch")
    assert driven.runner.calls == [first, driven.call]
    assert driven.runner.inside("reput_enrich") is first


def test_messages_are_given_where_the_plugin_stands_and_nowhere_else():
    driven = Driven()

    assert not driven.may_begin("reput_dispatch", at=50)
    assert driven.may_begin("reput_dispatch", at=0)


def test_what_is_stalled_in_one_call_does_not_go_on_when_another_comes_back():
    driven = Driven()
    driven.enter("reput_flush")
    flush = driven.call
    driven.enter("reput_dispatch")
    driven.hang()

    driven.leave(flush)
    assert driven.runner.phase is Phase.STALLED
    driven.leave()
    assert driven.runner.phase is Phase.RUNNING


def test_a_plugin_whose_flush_raised_after_it_was_stalled_does_not_go_on_in_between():
    driven = Driven()
    driven.enter("reput_flush")
    driven.hang()

    driven.leave(error=ERROR)

    assert driven.runner.phase is Phase.STALLED
    driven.runner.flush_failed(ERROR, 7)
    assert (driven.runner.phase, driven.runner.cut_to) == (Phase.SUSPENDED, 7)


def test_a_plugin_waits_for_those_that_it_requires_and_for_all_when_one_halts():
    driven = Driven()
    needing = PluginRunner(driven.board, "two", PluginHooks(), 0, frozenset({"one"}))
    driven.board.runners["two"] = needing
    assert needing.may_run

    driven.runner.suspend(Stopped.BY_USER)
    assert (needing.is_usable, needing.may_run) == (True, False)
    driven.runner.resume(0)
    assert needing.may_run
    driven.board.halt("three")
    for each in (needing, driven.runner):
        assert (each.is_usable, each.may_run) == (False, False)


STATE = {"phase", "place", "position", "stopped", "last_error", "cut_to", "halted"}


def set_from_outside(path):
    """Lines of a module that set an attribute of another object that is state of a plugin."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        is_set = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if is_set and node.attr in STATE and ast.unparse(node.value) != "self":
            yield f"{path.relative_to(SOURCES)}:{node.lineno}"


@pytest.mark.costly
def test_nothing_but_its_runner_sets_the_state_of_a_plugin():
    assert [line for path in SOURCES.rglob("*.py") for line in set_from_outside(path)] == []
