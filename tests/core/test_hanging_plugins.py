"""A store that is closed while a plugin hangs; calls of plugins, and threads that do not start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
from openstores import is_written, only_hangs, plugin, put, state_of, until

import reput
from reput.dispatch.runtime import hookcalls
from reput.dispatch.runtime.hookcalls import Call, HookCalls
from reput.errors import StoreLockedError
from reput.signalsafe import start_thread
from reput_testing.crashes.storeinternals import store_internals

CONFIG = {
    "commitlog": {"file_size": 65_536},
    "dispatch": {"stall_ms": 100},
}
HOOKS = ("reput_flush", "reput_work", "reput_dispatch", "reput_enrich")
OPENING = """
import sys
import reput
try:
    reput.open(sys.argv[1], plugins=[], forget=["stuck"]).close()
except reput.errors.StoreLockedError as error:
    print(error)
else:
    print("opened")
"""

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.sizes(
        commitlog={"plugin_flush_interval_ms": 10},
        dispatch={"close_timeout_ms": 200, "retry_pause_ms": 1},
    ),
    pytest.mark.shows("hanging-plugin"),
]


@pytest.fixture(autouse=True)
def nothing_else_hangs(monkeypatch):
    only_hangs(monkeypatch, *(("stuck", hook) for hook in HOOKS))


class StuckPlugin(reput.Plugin):
    """Does not return from one hook until it is let go, and goes on writing then."""

    name = "stuck"

    def __init__(self, hook):
        super().__init__(None)
        self.hook = hook
        self.inside, self.may_go_on = threading.Event(), threading.Event()
        self.errors = []
        self.is_closed = False
        self.left = False

    @reput.hookimpl
    def reput_open(self, context):
        self.disk, self.path = context.disk, context.directory("stuck")
        self.descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT)

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.call("reput_dispatch")

    @reput.hookimpl
    def reput_enrich(self, batch):
        self.call("reput_enrich")

    @reput.hookimpl
    def reput_flush(self):
        self.call("reput_flush")

    @reput.hookimpl
    def reput_work(self, now):
        self.call("reput_work")

    @reput.hookimpl
    def reput_close(self):
        self.is_closed = True

    def call(self, hook):
        if hook != self.hook or self.inside.is_set():
            return
        self.inside.set()
        assert self.may_go_on.wait(60)
        try:
            self.disk.replace(f"{self.path}.2", b"late")
        except OSError as error:
            self.errors.append(str(error))
        os.pwrite(self.descriptor, b"late", 0)  # beside the disk, as through a map
        self.left = True


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.costly
def test_a_second_writer_waits_for_the_thread_that_a_closed_store_left_behind(tmp_path, hook):
    stuck = StuckPlugin(hook)
    store = reput.open(tmp_path, plugins=[stuck], config=CONFIG)
    offsets = put(store, 3)
    assert stuck.inside.wait(10)
    store.close(timeout=0)

    said = f"plugin 'stuck' has not returned from {hook}"
    with pytest.raises(StoreLockedError, match=said):
        reput.open(tmp_path, plugins=[], forget=["stuck"])
    other = subprocess.run(
        [sys.executable, "-c", OPENING, tmp_path], capture_output=True, text=True, check=True
    )
    stuck.may_go_on.set()
    until(lambda: not is_written(tmp_path))

    assert said in other.stdout
    assert stuck.left  # the lock was free no sooner
    assert "was closed" in stuck.errors[0]
    assert not (tmp_path / "stuck.2").exists()
    assert not stuck.is_closed  # no hook is called beside another one
    with reput.open(tmp_path, plugins=[], forget=["stuck"]) as store:
        assert (tmp_path / "lock").read_bytes().startswith(b"LOCK")
        assert b"stuck" not in (tmp_path / "lock").read_bytes()
        assert store.get(offsets[-1]).body == b"2"
    os.close(stuck.descriptor)


def test_a_thread_that_comes_back_calls_no_other_plugin_of_a_closed_store(tmp_path):
    stuck, calls = StuckPlugin("reput_enrich"), []
    after = plugin("zlast", reput_enrich=lambda self, batch: calls.append(batch))
    store = reput.open(tmp_path, plugins=[stuck, after], config=CONFIG)
    put(store, 3)
    assert stuck.inside.wait(10)
    store.close(timeout=0)
    before = len(calls)

    stuck.may_go_on.set()
    until(lambda: not is_written(tmp_path))

    assert len(calls) == before
    os.close(stuck.descriptor)


def test_a_store_that_is_closed_in_good_order_can_be_opened_at_once(tmp_path):
    config = {"commitlog": CONFIG["commitlog"]}  # nothing hangs, however slow the machine is
    for number in range(20):
        with reput.open(tmp_path, plugins=[Quiet()], config=config) as store:
            put(store, 1, number)


class Quiet(reput.Plugin):
    """Has every hook that is called on some thread."""

    name = "quiet"

    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass

    @reput.hookimpl
    def reput_flush(self):
        pass

    @reput.hookimpl
    def reput_work(self, now):
        return None

    @reput.hookimpl
    def reput_close(self):
        pass


# --------------------------------------------------------------------------- all calls are known


def test_a_call_hides_no_other_call_of_the_same_plugin():
    calls, gate, made = HookCalls("store"), threading.Event(), []
    hanging = calls.request("any", "reput_trim", lambda: gate.wait(60))
    later = calls.request("any", "reput_flush", lambda: made.append("flush"))
    until(lambda: hanging.thread)

    assert not later.wait(0)
    assert [call.hook for call in calls.running("any")] == ["reput_trim", "reput_flush"]
    assert later.under_way is hanging
    assert made == []
    assert not all(call.wait(idle=0) for call in calls.running("any"))

    gate.set()
    assert all(call.wait(idle=10) for call in calls.running("any"))
    assert hanging.is_done
    assert made == ["flush"]
    assert calls.running() == []


def test_a_call_that_waits_for_another_is_not_made_when_no_more_are():
    calls, gate, made = HookCalls("store"), threading.Event(), []
    hanging = calls.request("any", "reput_work", lambda: gate.wait(60))
    later = calls.request("any", "reput_flush", lambda: made.append("flush"))
    until(lambda: hanging.thread)

    calls.refuse()

    assert later.is_done
    assert calls.running() == [hanging]
    gate.set()
    assert hanging.wait(10)
    assert made == []


def test_the_last_one_to_come_back_tells():
    calls, told, gates = HookCalls("store"), [], [threading.Event(), threading.Event()]
    running = [
        calls.request(name, "reput_work", gate.wait)
        for name, gate in zip(("one", "two"), gates, strict=True)
    ]
    until(lambda: all(call.thread for call in running))
    calls.refuse()
    assert calls.after_last(lambda: told.append(1)) == running

    gates[0].set()
    assert running[0].wait(10)
    assert told == []
    gates[1].set()
    until(lambda: told)

    assert not calls.make(Call(calls, "any", "reput_work", lambda: told.append(2)))
    with pytest.raises(reput.errors.StoreClosedError):
        calls.request("any", "reput_flush", lambda: None)
    assert told == [1]


# --------------------------------------------------------------------------- no threads


@pytest.fixture
def threads(monkeypatch):
    """Threads that can be started or not, as the test says; which were refused."""

    class Threads:
        start, are_scarce, refused = threading.Thread.start, False, []

    def start(thread):
        if Threads.are_scarce:
            Threads.refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        Threads.start(thread)

    def start_plugins_thread(thread):
        start_thread(thread) if not Threads.are_scarce else start(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    monkeypatch.setattr(hookcalls, "start_thread", start_plugins_thread)
    return Threads


def test_a_thread_is_not_started_to_wait_for_a_call_that_is_done(threads):
    calls = HookCalls()
    call = calls.request("any", "reput_flush", lambda: None)
    assert call.wait()
    until(lambda: calls.thread_of("any")._thread is None)
    threads.are_scarce = True

    assert call.wait()
    assert not threads.refused


@pytest.mark.shows("no-thread")
def test_flushing_and_closing_need_no_new_thread(tmp_path, threads):
    quiet = Quiet()
    store = reput.open(tmp_path, plugins=[quiet], config=CONFIG)
    threads.are_scarce = True
    offsets = put(store, 5)
    assert store.wait_dispatched(10)

    store.flush()
    store.add_plugin(plugin("more", reput_flush=lambda self: None))
    store.suspend_plugin("quiet")
    store.resume_plugin("quiet")
    store.close()

    assert "reput-more" in threads.refused
    threads.are_scarce = False
    with reput.open(tmp_path, plugins=[quiet], forget=["more"], config=CONFIG) as store:
        assert store.clean
        assert store.get(offsets[-1]).body == b"4"


@pytest.mark.shows("no-thread")
def test_the_thread_that_flushes_outlives_a_while_without_threads(tmp_path, threads):
    hooks = {"reput_dispatch": lambda self, batch: None, "reput_flush": lambda self: None}
    with reput.open(tmp_path, plugins=[plugin("quiet", **hooks)], config=CONFIG) as store:
        threads.are_scarce = True
        # A flush right after the opening may have started the plugin's thread, which then stays.
        store_internals(store).members.board.calls.thread_of("quiet").end()
        put(store, 1)
        until(lambda: "reput-quiet" in threads.refused)
        threads.are_scarce = False
        put(store, 1, 1)

        end = store.log.max_physical_offset
        file = store_internals(store).members.progress_files["quiet"]
        until(lambda: (place := file.load()) is not None and place.physical_offset == end)


@pytest.mark.shows("no-thread")
def test_dispatching_goes_on_when_there_is_a_thread_again(tmp_path, threads):
    stuck, seen = StuckPlugin("reput_dispatch"), []
    others = plugin("others", reput_dispatch=lambda self, batch: seen.append(len(batch)))
    with reput.open(tmp_path, plugins=[stuck, others], config=CONFIG) as store:
        threads.are_scarce = True
        put(store, 3)
        assert stuck.inside.wait(10)
        until(lambda: state_of(store, "stuck").state == "stalled")
        until(lambda: "reput-loop" in threads.refused)
        threads.are_scarce = False

        until(lambda: state_of(store, "others").lag_size == 0)

        stuck.may_go_on.set()
        until(lambda: stuck.left)
    assert sum(seen) == 3
    os.close(stuck.descriptor)


@pytest.mark.shows("no-thread")
def test_work_begins_when_there_is_a_thread_for_it(tmp_path, threads):
    worked = threading.Event()
    late = plugin("late", reput_work=lambda self, now: worked.set())
    with reput.open(tmp_path, plugins=[], config=CONFIG) as store:
        threads.are_scarce = True
        store.add_plugin(late)
        threads.are_scarce = False

        assert worked.wait(10)


def test_an_opening_that_is_interrupted_waits_for_a_plugin_that_opens(tmp_path, monkeypatch):
    """SIGTERM right after the start: the plugin is not done yet, but does not hang."""
    is_awaited, real = threading.Event(), Call.wait

    def wait(call, *times, **idle):
        if idle and call.hook == "reput_open":
            is_awaited.set()
        return real(call, *times, **idle)

    class Slow(reput.Plugin):
        name = "slow"
        closed = False

        @reput.hookimpl
        def reput_open(self, context):
            os.kill(os.getpid(), signal.SIGINT)
            assert is_awaited.wait(5), "nobody waits"

        @reput.hookimpl
        def reput_close(self):
            self.closed = True

    monkeypatch.setattr(Call, "wait", wait)
    slow = Slow(None)
    # A process in the background of a shell ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        with pytest.raises(KeyboardInterrupt):
            reput.open(tmp_path / "store", plugins=[slow])
    finally:
        signal.signal(signal.SIGINT, before)

    assert slow.closed
    reput.open(tmp_path / "store", plugins=[], forget=["slow"]).close()


def test_a_call_that_was_given_up_is_not_kept():
    calls = HookCalls(threads=False)
    call = calls.request("late", "reput_recover", lambda: None)

    assert call.give_up()

    assert not calls.entered
