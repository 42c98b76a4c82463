"""A signal handler may raise, put or close wherever CPython runs it: nothing hangs or is torn."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import queue
import signal
import sys
import threading

import pytest
from interrupts import Interrupts, interrupt, interrupted

import reput
from reput.dispatch.pluginlifecycle import PluginLifecycle
from reput.dispatch.runtime import hookcalls
from reput.dispatch.runtime.hookcalls import HookCalls
from reput.dispatch.runtime.reputloop import ReputLoop
from reput.engine import ENGINE
from reput.errors import ReputError, ServiceNotAvailableError
from reput.files.filepool import FilePool
from reput.files.system.disk import Disk
from reput.plugin.base import Plugin
from reput.signalsafe import PeriodicThread
from reput_testing import QuickDisk

pytestmark = [
    pytest.mark.skipif(
        sys.version_info >= (3, 13),
        reason="a trace function of CPython 3.13 sees fewer of the places that look for signals",
    ),
    pytest.mark.shows("signal", more="REPUT_SOAK=1"),
]

SOAK = os.environ.get("REPUT_SOAK") == "1"
STEP = 1 if SOAK else 17
"""Every so many places are tried where each costs a store."""
SECONDS = 30


class Witness(Plugin):
    name = "witness"

    def __init__(self):
        self.seen = []

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.seen += batch.physical_offset.tolist()


class CountingDisk(Disk):
    """Knows the descriptors that are open."""

    def __init__(self):
        self.open_now = set()

    def open(self, path, **options):
        descriptor = super().open(path, **options)
        self.open_now.add(descriptor)
        return descriptor

    def close(self, descriptor):
        self.open_now.remove(descriptor)
        super().close(descriptor)


def message(body=b"x" * 100, **fields):
    return reput.Message("T", body, **fields)


def many(store):
    return store.put_many([message(b"m" * 700) for _ in range(7)])


def each(store):
    # What no columns hold: messages that count as several, one by one.
    return store.put_many([message(properties={"INNER_MULTI_DISPATCH": "%LMQ%a"}) for _ in "ab"])


OPERATIONS = {
    "put": lambda store: store.put(message()),
    "put-roll": lambda store: store.put(message(b"r" * 2_500)),
    "put_many": many,
    "put_each": each,
    "flush": lambda store: (store.put(message()), store.flush()),
    "wait": lambda store: store.put(message()).wait(),
    "wait_dispatched": lambda store: (store.put(message()), store.wait_dispatched()),
}


def open_small(path, plugins=(), *, flush="async", threads=True):
    config = {"commitlog": {"file_size": 4 << 10, "flush": flush, "max_light_queues": 9}}
    return reput.open(path, plugins=plugins, config=config, disk=QuickDisk(), threads=threads)


class OtherThread:
    """Does what it is asked on a thread of its own; what hangs there fails."""

    def __init__(self):
        self._asked, self._answers = queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            work = self._asked.get()
            try:
                self._answers.put((work(), None))
            except BaseException as error:
                self._answers.put((None, error))

    def do(self, work):
        self._asked.put(work)
        answer, error = self._answers.get(timeout=SECONDS)
        if error is not None:
            raise error
        return answer


@pytest.fixture(scope="module")
def other():
    return OtherThread()


def records_of(store):
    """``(physical offset, queue offset)`` of every message, which is sound."""
    return [
        (int(batch.physical_offset[row]), int(batch.queue_offset[row]))
        for batch in store.scan(check_crc=True)
        for row in range(len(batch))
    ]


def assert_whole(store, where):
    """The log decodes to its end, and its queue offsets have neither gaps nor doubles."""
    records = []
    for batch in store.scan(check_crc=True):
        assert batch.finding is None, where
        records += zip(batch.physical_offset.tolist(), batch.queue_offset.tolist(), strict=True)
    assert [number for _, number in records] == list(range(len(records))), where
    return records


def assert_sound_from_its_head(store, where):
    """The log decodes to its end, and its last message is there."""
    batches = list(store.scan(check_crc=True))
    assert all(batch.finding is None for batch in batches), where
    assert batches[-1].queue_offset[-1] == 2, where


def places(operation):
    """The places to try where a store serves for all: its log grows, and is read each time."""
    steps = {"put": 1, "wait": 1, "wait_dispatched": 2, "flush": 60}
    return itertools.count(1, 1 if SOAK else steps.get(operation, 7))


@pytest.mark.proof
@pytest.mark.parametrize("flush", ["async", "sync"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_ctrl_c_anywhere_leaves_the_log_whole_and_every_lock_free(
    tmp_path, other, operation, flush
):
    witness = Witness()
    acknowledged = []
    store = open_small(tmp_path, [witness], flush=flush)
    for at in places(operation):
        store.put(message())
        before = len(records_of(store))

        with interrupted(at) as interrupts:
            OPERATIONS[operation](store)

        assert len(records_of(store)) - before in (0, 1, 2, *range(3, 8)), interrupts.where
        acknowledged.append(other.do(lambda: store.put(message())).physical_offset)
        other.do(store.flush)
        assert_whole(store, interrupts.where)
        if interrupts.where is None:
            break
    assert other.do(lambda: store.wait_dispatched(SECONDS))
    records = assert_whole(store, "the end")
    other.do(store.close)

    assert at > 1
    assert set(acknowledged) <= {offset for offset, _ in records}
    assert witness.seen == [offset for offset, _ in records]
    with reput.open(tmp_path, "r", plugins=[Witness()]) as again:
        assert again.clean
        assert records_of(again) == records


@pytest.mark.proof
@pytest.mark.parametrize(
    ("threads", "leaves"),
    [(True, True), (True, False), (False, True)],
    ids=["raises", "returns", "raises-no-threads"],
)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_handler_that_closes_the_store_ends_wherever_it_comes(
    tmp_path, other, operation, threads, leaves
):
    for at in itertools.count(1, STEP * (5 if operation == "flush" and not SOAK else 1)):
        path = tmp_path / str(at)
        store = open_small(path, [Witness()], threads=threads)
        first = store.put(message())
        outcome = []

        def close(store=store):
            store.close(timeout=5)
            if leaves:
                interrupt()

        interrupts = Interrupts(at, close)
        try:
            with interrupts:
                outcome.append(OPERATIONS[operation](store))
        except (KeyboardInterrupt, ReputError) as error:
            outcome.append(error)
        other.do(store.close)

        with reput.open(path, "r", plugins=[Witness()]) as again:
            records = assert_whole(again, interrupts.where)
            assert records[0][0] == first.physical_offset
            stored = [each for each in outcome if isinstance(each, reput.Receipt)]
            assert all(each.physical_offset in dict(records) for each in stored), interrupts.where
        reput.open(path, plugins=[Witness()], disk=QuickDisk()).close()
        if interrupts.where is None:
            break
    assert at > 1


@pytest.mark.parametrize("operation", ["put", "put-roll", "put_many", "put_each"])
def test_a_handler_that_puts_is_refused_inside_of_a_put_and_heard_outside(
    tmp_path, other, operation
):
    answers, errors = [], []

    def put():
        try:
            answers.append(store.put(message(b"handler")))
        except ServiceNotAvailableError as error:
            errors.append(str(error))

    store = open_small(tmp_path)
    for at in places(operation):
        interrupts = Interrupts(at, put)
        with interrupts:
            OPERATIONS[operation](store)
        assert_whole(store, interrupts.where)
        other.do(lambda: store.put(message()))
        if interrupts.where is None:
            break
    records = dict(records_of(store))
    store.close()

    # A put in one step has no inside.
    assert errors or (operation == "put" and ENGINE.name == "native")
    assert all("inside of another put" in text for text in errors)
    assert answers
    assert all(each.physical_offset in records for each in answers)


@pytest.mark.parametrize("leaves", [True, False], ids=["raises", "returns"])
def test_a_handler_that_closes_the_store_inside_of_trim_log_ends(tmp_path, other, leaves):
    for at in itertools.count(1, 1 if SOAK else 97):
        path, left = tmp_path / str(at), []
        store = open_small(path, [Witness()], threads=False)
        for _ in range(3):
            store.put(message(b"r" * 2_500))
        store.wait_dispatched()

        def close(store=store, path=path, left=left):
            store.close(timeout=5)
            left.append(sorted(os.listdir(path / "commitlog")))
            if leaves:
                interrupt()

        interrupts = Interrupts(at, close)
        # Which file it does not find any more depends on where it was interrupted.
        with contextlib.suppress(KeyboardInterrupt, OSError, ReputError), interrupts:
            store.trim_log(1 << 62)
        other.do(store.close)

        assert left in ([], [sorted(os.listdir(path / "commitlog"))]), interrupts.where
        with reput.open(path, plugins=[Witness()], disk=QuickDisk()) as again:
            assert_sound_from_its_head(again, interrupts.where)
        if interrupts.where is None:
            break
    assert at > 1


@pytest.mark.costly
def test_a_handler_that_closes_a_store_that_closes_ends(tmp_path, other):
    for at in itertools.count(1, STEP):
        path = tmp_path / str(at)
        store = open_small(path, [Witness()])
        store.put(message())

        interrupts = Interrupts(at, store.close)
        with interrupts:
            store.close()

        assert store.closed
        with reput.open(path, plugins=[Witness()], disk=QuickDisk()) as again:
            assert again.clean, interrupts.where
        if interrupts.where is None:
            break
    assert at > 1


@pytest.mark.costly
def test_ctrl_c_anywhere_in_close_leaves_a_store_that_a_second_close_gives_up(tmp_path, other):
    for at in itertools.count(1, STEP):
        path = tmp_path / str(at)
        store = open_small(path, [Witness()])
        store.put(message())

        with interrupted(at) as interrupts:
            store.close()
        other.do(store.close)

        with reput.open(path, plugins=[Witness()], disk=QuickDisk()) as again:
            assert_whole(again, interrupts.where)
        if interrupts.where is None:
            break
    assert at > 1


@pytest.mark.parametrize("threads", [True, False], ids=["thread", "no-thread"])
def test_ctrl_c_anywhere_in_a_call_of_a_plugin_leaves_nobody_inside(threads):
    for at in itertools.count(1):
        calls, told = HookCalls(threads=threads), []

        with interrupted(at) as interrupts:
            calls.request("any", "reput_flush", lambda: None).wait(SECONDS)
        for call in calls.running():  # made by its thread all the same, or is about to be
            assert call.wait(SECONDS), interrupts.where
        calls.refuse()
        calls.after_last(lambda told=told: told.append("last"))

        assert told == ["last"], interrupts.where
        if interrupts.where is None:
            break
    assert at > 1


def test_a_handler_that_closes_a_pool_while_it_makes_room_leaves_no_file_open(tmp_path):
    names = [str(tmp_path / name) for name in "abc"]
    for name in names:
        (tmp_path / name).write_bytes(name[-1].encode())
    for at in itertools.count(1):
        disk = CountingDisk()
        pool = FilePool(disk, 2)
        for name in names[:2] * 2:  # each was used again, so that each is looked at
            pool.read(name, 1, 0)

        interrupts = Interrupts(at, pool.close)
        with interrupts:
            data = pool.read(names[2], 1, 0)
        if interrupts.where is None:
            pool.close()

        assert (data, disk.open_now) == (b"c", set()), interrupts.where
        if interrupts.where is None:
            break
    assert at > 20


@pytest.mark.shows("calls-beside")
def test_several_threads_close_one_store_and_each_finds_it_closed(tmp_path):
    closed = []

    class Slow(Witness):
        @reput.hookimpl
        def reput_close(self):
            started.wait(SECONDS)
            closed.append(self.name)

    def close():
        store.close()
        with reput.open(tmp_path, "r", plugins=[Witness()]) as again:
            answers.put((again.clean, list(closed)))

    started, answers = threading.Event(), queue.SimpleQueue()
    store = open_small(tmp_path, [Slow()])
    store.put(message())
    threads = [threading.Thread(target=close, daemon=True) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert answers.empty()
    started.set()
    for thread in threads:
        thread.join(SECONDS)

    assert [answers.get(timeout=SECONDS) for _ in threads] == [(True, ["witness"])] * 5


@pytest.mark.shows("calls-beside")
def test_a_put_beside_a_close_is_stored_or_refused(tmp_path):
    stored, errors = [], []

    def put():
        try:
            while True:
                stored.append(store.put(message()).physical_offset)
                begun.set()
        except ServiceNotAvailableError as error:
            errors.append(error)

    begun = threading.Event()
    store = open_small(tmp_path)
    threads = [threading.Thread(target=put, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(SECONDS)
    store.close()
    for thread in threads:
        thread.join(SECONDS)

    assert len(errors) == 3
    with reput.open(tmp_path, "r") as again:
        assert again.clean
        assert sorted(stored) == [offset for offset, _ in records_of(again)]


def test_ctrl_c_while_a_close_waits_for_the_loop_leaves_no_thread(tmp_path, monkeypatch):
    def wake(loop):
        if loop.board.is_stopping and not came:
            came.append(True)
            interrupt()
        real(loop)

    real, came = ReputLoop.wake, []
    before = set(threading.enumerate())
    store = open_small(tmp_path, [Witness()])
    monkeypatch.setattr(ReputLoop, "wake", wake)
    with pytest.raises(KeyboardInterrupt):
        store.close()
    store.close()

    for thread in set(threading.enumerate()) - before:
        thread.join(SECONDS)
        assert not thread.is_alive(), thread.name


def test_a_handler_that_closes_the_store_inside_of_a_resume_closes_a_plugin_once(
    tmp_path, monkeypatch
):
    class Closed(Witness):
        @reput.hookimpl
        def reput_close(self):
            closed.append(self.name)

    def close(*_):
        store.close()

    closed = []
    store = open_small(tmp_path, [Closed()])
    store.suspend_plugin("witness")
    monkeypatch.setattr(PluginLifecycle, "_open", close)  # before its call of `reput_open`
    store.resume_plugin("witness")

    assert closed == ["witness"]


def test_a_thread_is_waited_for_after_an_exception_has_ended_the_waiting():
    inside, may_end, ended = threading.Event(), threading.Event(), []

    def work():
        inside.set()
        assert may_end.wait(10)
        ended.append(True)
        return False

    thread = PeriodicThread("any", 0, work)
    thread.start()
    assert inside.wait(10)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)

    def stop():
        signal.setitimer(signal.ITIMER_REAL, 0.05)  # here: it comes inside of the block below
        thread.stop()

    try:
        with pytest.raises(KeyboardInterrupt):
            stop()
    finally:
        signal.signal(signal.SIGALRM, before)
    threading.Timer(0.1, may_end.set).start()

    thread.stop()
    assert ended


INNER = {
    "flush": lambda store: store.flush(),
    "add_plugin": lambda store: store.add_plugin(Witness()),
    "remove_plugin": lambda store: store.remove_plugin("witness"),
    "suspend_plugin": lambda store: store.suspend_plugin("witness"),
    "resume_plugin": lambda store: store.resume_plugin("witness"),
    "trim_log": lambda store: store.trim_log(1 << 62),
}


@pytest.mark.parametrize(
    ("place", "outer"),
    [
        ("runtime.pluginflusher.PluginFlusher._save_checkpoint", "flush"),
        ("pluginlifecycle.PluginLifecycle._save_manifest", "remove_plugin"),
        ("logtrimmer.LogTrimmer._remove_below", "trim_log"),
    ],
)
def test_a_handler_that_cannot_wait_for_the_call_it_interrupted_is_refused_at_once(
    tmp_path, monkeypatch, place, outer
):
    refused = {}

    def handler(*_):
        for name, call in INNER.items():
            try:
                call(store)
            except ServiceNotAvailableError as error:
                refused[name] = str(error)

    def interrupted_there(*arguments, **named):
        if not refused:
            signal.raise_signal(signal.SIGUSR1)
        return real(*arguments, **named)

    owner, _, name = f"reput.dispatch.{place}".rpartition(".")
    module, _, owner = owner.rpartition(".")
    real = getattr(getattr(importlib.import_module(module), owner), name)
    before = signal.signal(signal.SIGUSR1, handler)
    disk = QuickDisk()
    try:
        config = {"commitlog": {"file_size": 4 << 10}}
        with reput.open(tmp_path, plugins=[Witness()], config=config, disk=disk) as store:
            for _ in range(3):
                store.put(message(b"r" * 2_500))
            store.wait_dispatched()
            monkeypatch.setattr(f"{module}.{owner}.{name}", interrupted_there)

            INNER[outer](store)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert refused.keys() >= INNER.keys() - ({"flush"} if outer != "flush" else set())
    assert all(f"and call {each} when" in text for each, text in refused.items())


def test_a_thread_whose_start_a_handler_interrupted_leaves_the_work_to_the_other(monkeypatch):
    def interrupted_start(thread):
        thread.start()
        started.append(thread)
        if len(started) == 1:
            plugin_thread.wake()  # as by a handler

    started = []
    monkeypatch.setattr(hookcalls, "start_thread", interrupted_start)
    calls = HookCalls(keeps_threads=True)
    plugin_thread = hookcalls.PluginThread("p", calls, stays=True)

    plugin_thread.wake()
    started[0].join(SECONDS)
    plugin_thread.end()
    started[1].join(SECONDS)

    assert len(started) == 2
    assert not any(thread.is_alive() for thread in started)


@pytest.mark.parametrize("threads", [True, False], ids=["threads", "no-threads"])
def test_a_wait_that_could_not_end_before_the_interrupted_code_is_refused_at_once(
    tmp_path, threads
):
    with open_small(tmp_path, [Witness()], threads=threads) as store:
        with store._parts.writer.members.board.lock:  # of the code that the handler interrupted
            store.wait_dispatched()  # there is nothing to wait for
            store.put(message())
            if threads:  # the thread that dispatches needs the lock
                with pytest.raises(ServiceNotAvailableError, match="call wait_dispatched when"):
                    store.wait_dispatched()
            else:
                assert store.wait_dispatched()
        assert store.wait_dispatched()


@pytest.mark.parametrize("threads", [True, False], ids=["threads", "no-threads"])
def test_a_hook_may_wait_for_another_store(tmp_path, threads):
    class Mirror(Witness):
        @reput.hookimpl
        def reput_dispatch(self, batch):
            other.put(message())
            self.seen.append(other.wait_dispatched())

    mirror = Mirror()
    with open_small(tmp_path / "other", [Witness()]) as other:
        with open_small(tmp_path / "store", [mirror], threads=threads) as store:
            store.put(message())
            store.wait_dispatched(raise_suspended=True)
    assert mirror.seen == [True]
