"""Plugins that work by the clock: when they are called, what they may do, what stops them."""

from __future__ import annotations

import errno
import threading

import pytest
from openstores import plugin, state_of, until

import reput
from reput.errors import ServiceNotAvailableError
from reput.plugin.readresults import ReadResult
from reput.status import ReadStatus
from reput_testing import ManualClock
from reput_testing.crashes.storeinternals import store_internals

QUICK = {
    "commitlog": {"file_size": 65_536},
    "dispatch": {"retry_count": 2},
}

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.sizes(
        commitlog={"plugin_flush_interval_ms": 10},
        dispatch={"retry_pause_ms": 1},
    ),
]


class Echo(reput.Plugin):
    """Puts a message back a second after it came, under another topic."""

    def __init__(self, config=None):
        super().__init__(config)
        self.pending = []
        self.called_at = []

    @reput.hookimpl
    def reput_open(self, context):
        self.context = context

    @reput.hookimpl
    def reput_dispatch(self, batch):
        for row, code in enumerate(batch.topic_code.tolist()):
            if batch.topics[code] == "T":
                self.pending.append(int(batch.store_timestamp[row]) + 1_000)
                self.context.wake()

    @reput.hookimpl
    def reput_work(self, now):
        self.called_at.append(now)
        due = [time for time in self.pending if time <= now]
        if due:
            self.context.store.put_many([reput.Message("Echo", b"%d" % time) for time in due])
            self.pending = [time for time in self.pending if time > now]
        return min(self.pending, default=None)


def open_with(path, *plugins, rules=None, **options):
    config = {**QUICK, "dispatch": {**QUICK["dispatch"], **(rules or {})}}
    return reput.open(path, plugins=plugins, config=config, **options)


def topics_of(store):
    return [batch.topics[code] for batch in store.scan() for code in batch.topic_code.tolist()]


# --------------------------------------------------------------------------- when


def test_step_by_step_the_clock_decides(tmp_path):
    clock = ManualClock()
    echo = Echo()
    with open_with(tmp_path, echo, threads=False, clock=clock) as store:
        nothing_yet = store.work()
        begin = clock.now
        store.put(reput.Message("T", b"a"))
        clock.advance(400)
        store.put(reput.Message("T", b"b"))
        first = store.work()
        clock.now = first
        second = store.work()
        clock.now = second
        last = store.work()
        topics = topics_of(store)

    assert (nothing_yet, first, second, last) == (None, begin + 1_000, begin + 1_400, None)
    assert topics == ["T", "T", "Echo", "Echo"]


def test_what_a_slice_wakes_is_due_at_once(tmp_path):
    clock = ManualClock()
    calls = []

    def work(self, now):
        calls.append(now)
        return now if len(calls) < 3 else None

    with open_with(tmp_path, plugin("busy", reput_work=work), threads=False, clock=clock) as store:
        answers = [store.work() for _ in range(4)]

    assert answers == [clock.now, clock.now, None, None]


def test_with_threads_it_works_by_itself(tmp_path):
    clock = ManualClock()
    echo = Echo()
    with open_with(tmp_path, echo, clock=clock) as store:
        store.put(reput.Message("T", b"a"))
        assert store.wait_dispatched(10)
        clock.advance(5_000)
        assert store.work() is None  # only wakes it: the clock has jumped
        until(lambda: "Echo" in topics_of(store))

    assert echo.pending == []


def test_work_is_called_when_the_clock_was_set_back(tmp_path):
    """Its time has moved away: only the plugin knows what is due now."""
    clock = ManualClock()
    echo = Echo()
    with open_with(tmp_path, echo, threads=False, clock=clock) as store:
        work = store_internals(store).workers._works["echo"]
        store.put(reput.Message("T", b"a"))
        store.work()
        requested = []
        for jump in (0, 1, -86_400_000, 1):
            clock.advance(jump)
            assert work.work() is not None
            requested.append([call.hook for call in work.runner.calls])
            for call in work.runner.calls:
                call.wait()

    assert requested == [[], [], ["reput_work"], []]


def test_nobody_works_in_a_read_only_store(tmp_path):
    calls = []
    worker = plugin("worker", reput_work=lambda self, now: calls.append(now))
    with open_with(tmp_path, worker, threads=False) as store:
        store.put(reput.Message("T", b"a"))
    calls.clear()

    with open_with(tmp_path, worker, mode="r") as store, pytest.raises(reput.ReputError):
        store.work()

    assert calls == []


# --------------------------------------------------------------------------- what goes wrong


def test_work_that_raises_is_tried_again_and_then_suspended(tmp_path):
    calls = []

    def work(self, now):
        calls.append(now)
        raise ValueError("broken")

    with open_with(tmp_path, plugin("bad", reput_work=work)) as store:
        until(lambda: state_of(store, "bad").state == "suspended")
        state = state_of(store, "bad")
        store.put(reput.Message("T", b"a"))

    assert len(calls) == 3
    assert "broken" in state.last_error


def test_a_resumed_plugin_works_again(tmp_path):
    broken = threading.Event()
    broken.set()
    calls = []

    def work(self, now):
        if broken.is_set():
            raise ValueError("broken")
        calls.append(now)

    with open_with(tmp_path, plugin("bad", reput_work=work)) as store:
        until(lambda: state_of(store, "bad").state == "suspended")
        broken.clear()
        store.resume_plugin("bad")
        until(lambda: calls)

        assert state_of(store, "bad").state == "running"


@pytest.mark.sizes(
    dispatch={"retry_max_pause_ms": 2},
)
def test_a_full_disk_is_waited_out(tmp_path):
    calls = []

    def work(self, now):
        calls.append(now)
        if len(calls) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")

    with open_with(tmp_path, plugin("patient", reput_work=work)) as store:
        until(lambda: len(calls) >= 10)

        assert state_of(store, "patient").state == "running"


@pytest.mark.parametrize("answer", ["soon", 1.5, True])
def test_nonsense_for_a_time_suspends(tmp_path, answer):
    odd = plugin("odd", reput_work=lambda self, now: answer)
    with open_with(tmp_path, odd) as store:
        until(lambda: state_of(store, "odd").state == "suspended")

        assert repr(answer) in state_of(store, "odd").last_error


def test_a_plugin_that_was_taken_away_works_no_more(tmp_path):
    calls = []
    with open_with(tmp_path, plugin("worker", reput_work=lambda self, now: calls.append(now))) as s:
        until(lambda: calls)
        s.remove_plugin("worker")
        count = len(calls)
        s.work()

        assert len(calls) == count


# --------------------------------------------------------------------------- the store


def test_the_store_is_not_there_while_it_opens(tmp_path):
    caught = []

    def opened(self, context):
        try:
            context.store.put_many([reput.Message("T", b"a")])
        except ServiceNotAvailableError as error:
            caught.append(str(error))

    with open_with(tmp_path, plugin("eager", reput_open=opened)):
        pass

    assert len(caught) == 1
    assert "not open yet" in caught[0]


def test_a_plugin_is_not_asked_about_what_it_puts_itself(tmp_path):
    def stamp(self, messages):
        asked.append((self.mark, [message.topic for message in messages]))

    def work(self, now):
        self.context.store.put_many([reput.Message("Mine", b"x")])

    def keep(self, context):
        self.context = context

    asked = []
    one = plugin("one", mark="one", reput_put=stamp, reput_open=keep, reput_work=work)
    two = plugin("two", mark="two", reput_put=stamp)
    with open_with(tmp_path, one, two, threads=False) as store:
        store.work()
        store.put(reput.Message("User", b"y"))

    assert asked == [("two", ["Mine"]), ("one", ["User"]), ("two", ["User"])]


def test_the_others_read_for_it_and_it_may_answer_first(tmp_path):
    def answer(status):
        def read(self, topic):
            return ReadResult(status, 0, 0, 0)

        return read

    first = plugin("zeta", reput_open=lambda self, context: contexts.append(context))
    type(first).reput_read = reput.hookimpl(tryfirst=True)(answer(ReadStatus.NO_MATCHED_MESSAGE))
    contexts = []
    with open_with(tmp_path, plugin("alpha", reput_read=answer(ReadStatus.FOUND)), first) as store:
        outside = store.read("T", 0, 0).status
        inside = contexts[0].store.read("T", 0, 0).status

    assert outside is ReadStatus.NO_MATCHED_MESSAGE
    assert inside is ReadStatus.FOUND


def test_a_plugin_that_works_is_flushed_in_every_round(tmp_path):
    flushed = []
    saver = plugin(
        "saver", reput_work=lambda self, now: None, reput_flush=lambda self: flushed.append(1)
    )
    idle = plugin(
        "idle", reput_dispatch=lambda self, batch: None, reput_flush=lambda self: flushed.append(2)
    )
    with open_with(tmp_path, saver, idle, threads=False) as store:
        store.flush()
        store.flush()
        count = len(flushed)

    assert flushed[:count].count(1) == 2
    assert flushed[:count].count(2) == 1


def test_a_worker_that_has_a_thread_is_given_no_second_one(tmp_path):
    with open_with(tmp_path, Echo()) as store:
        workers = store_internals(store).workers
        before = [thread for thread in threading.enumerate() if thread.name == "reput-echo"]

        workers.start()  # as one that `schedule_due` overtook on the thread that flushes plugins

        after = [thread for thread in threading.enumerate() if thread.name == "reput-echo"]
    assert after == before != []


def test_a_wake_that_comes_after_the_plugin_was_removed_starts_no_thread(tmp_path):
    """Its thread would ask every second whether there is work, until the store is closed."""
    with open_with(tmp_path, Echo()) as store:
        workers = store_internals(store).workers
        work = workers._works["echo"]
        store.remove_plugin("echo")

        workers._schedule(work)  # by a thread that had looked the work up before

        assert [thread for thread in threading.enumerate() if thread.name == "reput-echo"] == []
        assert work.work() is None
