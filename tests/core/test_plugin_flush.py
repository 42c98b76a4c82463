"""What a flush promises: all that was dispatched before is on disk, however long that takes."""

from __future__ import annotations

import errno
import sys
import threading

import pytest
from openstores import only_hangs, plugin, put, state_of, until

import reput
from reput.dispatch.runtime import pluginflusher
from reput.dispatch.runtime.hookcalls import Call, HookCalls
from reput.dispatch.runtime.pluginrunner import PluginRunner
from reput.errors import PluginFlushError, StoreClosedError
from reput.files.filepool import FilePool
from reput.files.system.disk import Disk
from reput.files.system.flushing import heart, run_parallel
from reput.log.progress import ProgressEntry
from reput.log.statefile import StateFile
from reput_testing import QuickDisk
from reput_testing.crashes.storeinternals import store_internals

CONFIG = {
    "commitlog": {
        "file_size": 65_536,
    },
}
HANGS = {"stall_ms": 200}
"""For tests in which a call does not return, and `hanging` names it."""

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.sizes(
        commitlog={"plugin_flush_interval_ms": 3_600_000},
        dispatch={"close_timeout_ms": 2000, "retry_pause_ms": 1},
    ),
    pytest.mark.shows("plugin-flush"),
]


@pytest.fixture(autouse=True)
def hanging(monkeypatch):
    """Calls that may count as hanging: others do not, however slow the machine is."""
    calls = [(name, "reput_flush") for name in ("slow", "files", "any")]
    return only_hangs(monkeypatch, ("worker", "reput_work"), *calls)


class SlowPlugin(reput.Plugin):
    """Notes what it was given and what it has flushed; its first flush waits to be let go."""

    name = "slow"

    def __init__(self, config=None):
        super().__init__(config)
        self.inside = threading.Event()
        self.may_return = threading.Event()
        self.dispatched_to = 0
        self.flushed_to = []

    @reput.hookimpl
    def reput_recover(self, progress):
        self.dispatched_to = progress
        return progress

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.dispatched_to = batch.end_offset

    @reput.hookimpl
    def reput_flush(self):
        reached = self.dispatched_to
        if not self.flushed_to:
            self.inside.set()
            assert self.may_return.wait(60)
        self.flushed_to.append(reached)


class QueueKeeper(SlowPlugin):
    """One whose files RocketMQ looks for behind the checkpoint."""

    @reput.hookimpl
    def reput_queue_offsets(self):
        return {}


def open_with(path, *plugins, rules=None, **options):
    config = {**CONFIG, "dispatch": rules or {}}
    return reput.open(path, plugins=plugins, config=config, **options)


def progress_of(path, name):
    """How far a plugin's files are known to be on disk."""
    place = ProgressEntry(StateFile.of(str(path), Disk()), name).load()
    return 0 if place is None else place.physical_offset


def in_background(function):
    """Call a function on another thread; that thread, and what the function raised."""
    raised = []

    def run():
        try:
            function()
        except reput.errors.ReputError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


# --------------------------------------------------------------------------- what is covered


@pytest.mark.parametrize(("way", "kind"), [("flush", SlowPlugin), ("close", QueueKeeper)])
def test_it_covers_what_was_dispatched_while_an_older_one_was_running(tmp_path, way, kind):
    slow = kind()
    store = open_with(tmp_path, slow)
    put(store, 5)
    assert store.wait_dispatched(10)
    older, _ = in_background(store.flush)
    assert slow.inside.wait(10)
    put(store, 5, 5)
    assert store.wait_dispatched(10)
    end = store.log.max_physical_offset

    newer, raised = in_background(getattr(store, way))
    slow.may_return.set()
    older.join()
    newer.join()

    assert raised == []
    assert slow.flushed_to[-1] == end
    assert progress_of(tmp_path, "slow") == end
    assert (tmp_path / "abort").exists() == (way == "flush")
    store.close()


def test_queues_that_are_dispatched_and_not_flushed_leave_abort(tmp_path):
    slow = QueueKeeper()
    store = open_with(tmp_path, slow, rules=HANGS)
    put(store, 5)
    assert store.wait_dispatched(10)

    store.close()  # the plugin never returns from its flush

    assert (tmp_path / "abort").exists()
    assert progress_of(tmp_path, "slow") == 0
    slow.may_return.set()


@pytest.mark.shows("abort-kept")
@pytest.mark.parametrize("is_behind", [False, True])
def test_queues_of_a_suspended_plugin_leave_abort_if_they_are_behind(tmp_path, is_behind):
    """For RocketMQ, which then looks for missing units; to reput the store counts as closed."""
    keeper = QueueKeeper()
    keeper.may_return.set()
    with open_with(tmp_path, keeper) as store:
        put(store, 5)
        assert store.wait_dispatched(10)
        store.suspend_plugin("slow")
        if is_behind:
            put(store, 5, 5)

    assert (tmp_path / "abort").exists() == is_behind
    with reput.open(tmp_path, "r", plugins=[]) as store:
        assert store.clean


def test_a_flush_names_the_plugin_that_hangs_and_brings_the_others_to_disk(tmp_path, hanging):
    slow, other = SlowPlugin(), plugin("other", reput_dispatch=lambda self, batch: None)
    with open_with(tmp_path, slow, other, rules=HANGS) as store:
        put(store, 5)
        assert store.wait_dispatched(10)
        end = store.log.max_physical_offset

        with pytest.raises(PluginFlushError, match=r"'slow': .*reput_flush has not returned"):
            store.flush()

        assert progress_of(tmp_path, "other") == end
        assert progress_of(tmp_path, "slow") == 0
        with pytest.raises(PluginFlushError, match="'slow'"):
            store.flush()  # it still does

        hanging.clear()
        slow.may_return.set()
        until(lambda: slow.flushed_to)
        store.suspend_plugin("slow")
        store.flush()  # one that is suspended has a place of its own


def test_the_others_are_recorded_while_one_is_waited_for(tmp_path):
    slow, other = SlowPlugin(), plugin("other", reput_dispatch=lambda self, batch: None)
    with open_with(tmp_path, slow, other) as store:
        put(store, 5)
        assert store.wait_dispatched(10)
        waiting, _ = in_background(store.flush)
        assert slow.inside.wait(10)

        until(lambda: progress_of(tmp_path, "other") == store.log.max_physical_offset)

        slow.may_return.set()
        waiting.join()


def test_who_waits_for_a_flush_is_told_when_the_store_is_closed(tmp_path):
    slow = SlowPlugin()
    store = open_with(tmp_path, slow, rules={"stall_ms": 300})
    put(store, 5)
    assert store.wait_dispatched(10)
    plugin_flusher = store_internals(store).plugin_flusher

    store.close()

    with pytest.raises(StoreClosedError):
        plugin_flusher.flush()
    slow.may_return.set()


@pytest.mark.sizes(commitlog={"plugin_flush_interval_ms": 1})
def test_a_handler_that_closes_the_store_in_a_flush_ends_the_thread_that_wants_its_lock(tmp_path):
    before = threading.enumerate()
    store = reput.open(tmp_path, plugins=[FilesPlugin()], config=CONFIG)
    others = [each for each in threading.enumerate() if each not in before]
    (thread,) = [each for each in others if each.name == "reput-flush-plugins"]
    put(store, 1)

    with store_internals(store).plugin_flusher.lock:  # as a flush has that the handler came into
        until(
            lambda: sys._current_frames()[thread.ident].f_code.co_filename == pluginflusher.__file__
        )
        store.close()

    assert not thread.is_alive()


def test_a_plugin_that_works_but_derives_nothing_may_fail_to_flush(tmp_path):
    def fail(self):
        raise OSError(5, "Input/output error")

    worker = plugin("worker", reput_work=lambda self, now: None, reput_flush=fail)
    with open_with(tmp_path, worker) as store:
        put(store, 1)

        store.flush()

        assert state_of(store, "worker").state == "suspended"
        assert "Input/output" in state_of(store, "worker").last_error
    with open_with(tmp_path, forget={"worker"}) as store:
        assert store.clean


def test_a_flush_waits_for_a_slice_of_the_plugins_own_work(tmp_path):
    inside, may_return, steps = threading.Event(), threading.Event(), []

    def work(self, now):
        inside.set()
        assert may_return.wait(60)
        steps.append("worked")

    worker = plugin("worker", reput_work=work, reput_flush=lambda self: steps.append("flushed"))
    with open_with(tmp_path, worker) as store:
        assert inside.wait(10)
        flushing, raised = in_background(store.flush)
        until(lambda: len(store_internals(store).members.board.runners["worker"].calls) == 2)
        assert steps == []

        may_return.set()
        flushing.join()

        assert steps == ["worked", "flushed"]
        assert raised == []


def test_a_flush_names_the_plugin_whose_work_hangs(tmp_path, hanging):
    inside, may_return = threading.Event(), threading.Event()

    def work(self, now):
        inside.set()
        assert may_return.wait(60)

    worker = plugin("worker", reput_work=work, reput_flush=lambda self: None)
    with open_with(tmp_path, worker, rules=HANGS) as store:
        assert inside.wait(10)

        with pytest.raises(PluginFlushError, match=r"'worker': .*reput_work has not returned"):
            store.flush()

        hanging.clear()
        may_return.set()
        until(lambda: state_of(store, "worker").state == "running")
        store.flush()


def test_only_a_plugin_with_hooks_for_it_has_a_thread(tmp_path):
    before = threading.enumerate()
    reads = plugin("reads", reput_queues=lambda self: [])
    derives = plugin("derives", reput_dispatch=lambda self, batch: None)
    flushes = plugin("flushes", reput_flush=lambda self: None)
    with open_with(tmp_path, reads, derives, flushes) as store:
        put(store, 1)
        assert store.wait_dispatched(10)
        store.flush()
        names = {thread.name for thread in threading.enumerate() if thread not in before}

    assert {"reput-reads", "reput-derives", "reput-flushes"} & names == {"reput-flushes"}
    assert [thread for thread in threading.enumerate() if thread not in before] == []


def test_a_read_only_store_keeps_no_thread(tmp_path):
    opens = plugin("opens", reput_open=lambda self, context: None)
    with open_with(tmp_path, opens) as store:
        put(store, 1)
    before = threading.enumerate()

    with open_with(tmp_path, opens, mode="r"):
        until(lambda: [each for each in threading.enumerate() if each not in before] == [])


def test_a_plugin_that_asks_for_a_flush_while_it_is_flushed_is_told_so(tmp_path):
    errors = []

    def flush(self):
        try:
            stores[0].flush()
        except PluginFlushError as error:
            errors.append(str(error))

    inner = plugin("inner", reput_dispatch=lambda self, batch: None, reput_flush=flush)
    stores = [open_with(tmp_path, inner)]
    with stores[0] as store:
        put(store, 1)
        assert store.wait_dispatched(10)

        store.flush()

    assert "this very thread is inside of reput_flush" in errors[0]


# --------------------------------------------------------------------------- what advances


class SlowDisk(QuickDisk):
    """A disk on which the flush of a file takes long, by its own clock."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.now = 0.0

    def monotonic(self):
        return self.now

    def flush(self, descriptor):
        super().flush(descriptor)
        self.now += self.seconds


class FilesPlugin(reput.Plugin):
    """Flushes many files in each flush."""

    name = "files"
    count = 40

    @reput.hookimpl
    def reput_open(self, context):
        context.disk.make_directory(context.directory("files"))
        self.paths = [context.directory("files", str(number)) for number in range(self.count)]
        self.disk, self.pool = context.disk, FilePool(context.disk, write=True)
        for path in self.paths:
            self.disk.close(self.disk.open(path, create=True))

    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass

    @reput.hookimpl
    def reput_flush(self):
        work, at_once = self.pool.flush, self.disk.flushes_at_once
        run_parallel(lambda paths: list(map(work, paths)), self.paths, at_once)

    @reput.hookimpl
    def reput_close(self):
        self.pool.close()


def test_a_flush_that_advances_is_waited_for_however_long_it_takes(tmp_path):
    disk = SlowDisk(0.15)  # three quarters of what counts as hanging, for each of the files
    with open_with(tmp_path, FilesPlugin(), disk=disk, rules=HANGS) as store:
        put(store, 3)
        assert store.wait_dispatched(10)
        before = disk.now

        store.flush()

        assert disk.now - before >= 40 * 0.15
        assert state_of(store, "files").state == "running"
        assert progress_of(tmp_path, "files") == store.log.max_physical_offset


def test_a_plugin_that_is_removed_while_a_flush_asks_for_it_is_not_flushed_after_that(
    tmp_path, monkeypatch
):
    answer_of, asked, removed = PluginRunner.is_active.fget, threading.Event(), threading.Event()
    flushed = []

    def is_active(runner):
        answer = answer_of(runner)
        if threading.current_thread().name == "slow":
            asked.set()
            removed.wait(0.2)
        return answer

    class Witness(reput.Plugin):
        name = "witness"

        @reput.hookimpl
        def reput_flush(self):
            flushed.append(removed.is_set())

    with open_with(tmp_path, Witness(None)) as store:
        monkeypatch.setattr(PluginRunner, "is_active", property(is_active))
        thread = threading.Thread(target=store.flush, name="slow")
        thread.start()
        assert asked.wait(10)
        store.remove_plugin("witness")
        removed.set()
        thread.join()
    assert flushed
    assert not any(flushed)


def test_a_flush_that_cannot_be_noted_is_repeated_by_the_next(tmp_path, monkeypatch):
    record, failures = pluginflusher.PluginFlusher._record, [OSError(errno.EIO, "no")]

    def record_later(self, *result):
        if failures:
            raise failures.pop()
        record(self, *result)

    monkeypatch.setattr(pluginflusher.PluginFlusher, "_record", record_later)
    with reput.open(tmp_path, plugins=["consumequeue"]) as store:
        put(store, 3)
        store.wait_dispatched()
        store.flush()
        assert not failures
        store.flush()
        runner = store._parts.writing().members.board.runners["consumequeue"]
        assert store._parts.writing().members.plugin_flusher.is_flushed(runner)
        assert state_of(store, "consumequeue").state == "running"


def test_a_call_is_made_once_though_a_handler_waits_for_it_just_before_it_begins():
    made, handlers = [], []

    class Looked(dict):
        def clear(self):
            if handlers:  # a signal handler runs when a call has returned
                assert handlers.pop().wait()

    calls = HookCalls(threads=False)
    call = calls.request("any", "reput_flush", lambda: made.append("flush"))
    call.looked = Looked()
    handlers.append(call)

    assert call.wait()
    assert not handlers
    assert made == ["flush"]
    assert not calls.running()


def test_a_call_hangs_when_it_has_not_advanced_for_so_long():
    now = [100.0]
    calls = HookCalls(now=lambda: now[0])
    call = Call(calls, "any", "reput_flush", lambda: None)
    assert calls.begin(call)

    for _ in range(10):
        now[0] += 0.9
        assert call.idle_seconds < 1
        call.looked.clear()
    assert call.idle_seconds == 0
    now[0] += 1.1

    assert call.idle_seconds > 1
    assert not call.wait(idle=1)


# --------------------------------------------------------------------------- side by side


def test_files_are_flushed_in_parallel():
    meeting = threading.Barrier(4)

    def work(items):
        for _ in items:
            meeting.wait(10)  # breaks unless four are in it

    run_parallel(work, range(16), 4)


def test_few_files_are_flushed_in_their_order_on_this_thread():
    seen = []

    run_parallel(
        lambda items: seen.extend((item, threading.current_thread()) for item in items), range(5), 8
    )

    assert seen == [(number, threading.current_thread()) for number in range(5)]


@pytest.mark.parametrize("at_once", [1, 8])
def test_what_one_of_them_raises_is_raised_and_no_other_is_begun(at_once):
    begun = []

    def work(items):
        for item in items:
            begun.append(item)
            raise OSError(5, f"file {item}")

    with pytest.raises(OSError, match="file"):
        run_parallel(work, range(1_000), at_once)

    assert len(begun) <= at_once


def test_where_no_thread_can_be_started_they_are_flushed_all_the_same(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    seen = []

    run_parallel(seen.extend, range(100), 8)

    assert seen == list(range(100))


def test_every_file_beats_the_heart_of_the_call_whichever_thread_flushes_it(tmp_path, monkeypatch):
    beats, disk = [], Disk()
    pool = FilePool(disk, write=True)
    paths = [str(tmp_path / str(number)) for number in range(64)]
    for path in paths:
        (tmp_path / path).touch()

    monkeypatch.setattr(heart, "beat", lambda: beats.append(1))
    run_parallel(lambda items: list(map(pool.flush, items)), paths, disk.flushes_at_once)

    assert len(beats) >= len(paths)
    pool.close()


def _no_thread(self):
    raise RuntimeError("can't start new thread")


class FailingFirst(SlowPlugin):
    """One whose first flush fails, once it may return."""

    @reput.hookimpl
    def reput_flush(self):
        super().reput_flush()
        if len(self.flushed_to) == 1:
            raise OSError(5, "the disk failed")


def test_a_flush_that_waits_behind_one_that_fails_is_not_made(tmp_path):
    slow = FailingFirst()
    with open_with(tmp_path, slow) as store:
        put(store, 5)
        assert store.wait_dispatched(10)
        older, _ = in_background(store.flush)
        assert slow.inside.wait(10)
        put(store, 5, 5)
        assert store.wait_dispatched(10)

        newer, _ = in_background(store.flush)
        # The newer one waits in the plugin's queue while the older one fails.
        flushes = store._parts.writing().members.board.runners["slow"].flushes
        until(lambda: flushes.wanted is not None)
        slow.may_return.set()
        older.join()
        newer.join()

        assert len(slow.flushed_to) == 1
        assert progress_of(tmp_path, "slow") == 0


class FullPlugin(SlowPlugin):
    """One whose hooks find the disk full as often as it is told."""

    def __init__(self, config=None):
        super().__init__(config)
        self.may_return.set()
        self.full = {}

    def find(self, hook):
        if self.full.get(hook, 0):
            self.full[hook] -= 1
            raise OSError(errno.ENOSPC, "no space")

    @reput.hookimpl
    def reput_open(self, context):
        self.find("open")

    @reput.hookimpl
    def reput_ready(self, queue_offsets):
        self.find("ready")

    @reput.hookimpl
    def reput_flush(self):
        self.find("flush")
        super().reput_flush()


@pytest.mark.shows("full-disk")
def test_a_flush_that_finds_the_disk_full_is_made_again_and_the_plugin_goes_on(tmp_path):
    full = FullPlugin()
    with open_with(tmp_path, full) as store:
        put(store, 5)
        assert store.wait_dispatched(10)
        first_end = store.log.max_physical_offset
        full.full["flush"] = 2

        for _ in range(2):
            with pytest.raises(PluginFlushError, match=r"the disk is full.*no space"):
                store.flush()
            assert progress_of(tmp_path, "slow") == 0
            state = state_of(store, "slow")
            assert (state.state, state.last_error) == ("retrying", "OSError: [Errno 28] no space")
        put(store, 5, 5)
        assert store.wait_dispatched(10)
        assert full.dispatched_to > first_end
        store.flush()

        assert progress_of(tmp_path, "slow") == store.log.max_physical_offset
        assert state_of(store, "slow").state == "running"
        assert state_of(store, "slow").failure_count == 1


@pytest.mark.shows("full-disk")
@pytest.mark.sizes(dispatch={"retry_max_pause_ms": 0})
@pytest.mark.parametrize("hook", ["open", "ready"])
def test_a_plugin_whose_opening_finds_the_disk_full_is_opened_again(tmp_path, hook):
    full = FullPlugin()
    full.full[hook] = 3
    with open_with(tmp_path, full) as store:
        put(store, 5)
        members = store._parts.writing().members
        for _ in range(2):
            assert state_of(store, "slow").state == "suspended"
            members.tick()
        assert state_of(store, "slow").state == "suspended"

        members.tick()

        assert state_of(store, "slow").state == "running"
        assert store.wait_dispatched(10)
        assert full.dispatched_to == store.log.max_physical_offset


def test_a_plugin_that_its_user_has_suspended_is_not_opened_again(tmp_path):
    full = FullPlugin()
    full.full["open"] = 1
    with open_with(tmp_path, full) as store:
        store.suspend_plugin("slow")

        store._parts.writing().members.tick()

        assert state_of(store, "slow").state == "suspended"
