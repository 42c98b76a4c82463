"""Threads that wait for the disk: one flushes for all, and nobody waits for a thread that left."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest
from openstores import until

from reput.engine import REFERENCES
from reput.log.writer.flushleader import FlushLeader

SECONDS = 30
CLASSES = {FlushLeader, REFERENCES.get(FlushLeader, FlushLeader)}  # both, where both engines are


@pytest.fixture(
    params=sorted(CLASSES, key=lambda each: each.__module__), ids=lambda c: c.__module__
)
def turns(request):
    return request.param(100)


class Log:
    """Something that grows, and that is flushed in turn."""

    def __init__(self, turns, end=100):
        self.turns = turns
        self.end = end
        self.flushes = 0
        self.flushing = 0
        self.lock = threading.Lock()

    def append(self):
        with self.lock:
            self.end += 1
            return self.end

    def flush(self):
        self.flushing += 1
        assert self.flushing == 1
        target = self.end
        self.flushes += 1
        os.sched_yield()
        self.flushing -= 1
        self.turns.reached(target)


class Held:
    """A flush that lasts until it is let go."""

    def __init__(self, turns, end):
        self.turns, self.end = turns, end
        self.begun, self.let_go = threading.Event(), threading.Event()

    def __call__(self):
        self.begun.set()
        assert self.let_go.wait(SECONDS)
        self.turns.reached(self.end)


class Waiting:
    """A thread that waits in turn, and what came of it."""

    def __init__(self, turns, offset, flush, timeout=None):
        self.answers = []
        self.thread = threading.Thread(
            target=lambda: self.answers.append(turns.wait(offset, timeout, flush)), daemon=True
        )
        self.thread.start()

    def answer(self):
        self.thread.join(SECONDS)
        return self.answers


def never():
    raise AssertionError("it is not this thread's turn")


@contextlib.contextmanager
def on_signal(handler):
    """Have the main thread run ``handler(frame)``; gives a function that sends the signal."""
    main = threading.main_thread().ident
    before = signal.signal(signal.SIGUSR1, lambda _, frame: handler(frame))
    try:
        yield lambda: signal.pthread_kill(main, signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def wait_here(turns, offset, flush):
    return turns.wait(offset, None, flush)


def is_waiting(frame):
    """Whether a handler came into `wait_here`."""
    while frame is not None and frame.f_code is not wait_here.__code__:
        frame = frame.f_back
    return frame is not None


def test_only_what_is_not_on_disk_is_flushed_and_by_the_thread_that_waits(turns):
    log = Log(turns, 170)

    turns.reached(90)  # less than what is known to be on disk changes nothing

    assert turns.wait(100, None, never)
    assert turns.wait(0, 0.0, never)
    assert turns.flushed_offset == 100
    assert turns.wait(150, 0.0, log.flush)
    assert (turns.flushed_offset, log.flushes) == (170, 1)


def test_every_put_of_many_threads_is_on_disk_when_its_wait_returns(turns):
    log, early = Log(turns), []

    def produce():
        for _ in range(300):
            offset = log.append()
            if not turns.wait(offset, SECONDS, log.flush) or turns.flushed_offset < offset:
                early.append(offset)

    threads = [threading.Thread(target=produce) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)

    assert early == []
    assert turns.flushed_offset == log.end == 100 + 8 * 300
    assert log.flushes <= 8 * 300


def test_one_flush_is_enough_for_all_that_wait_below_its_end(turns):
    flush = Held(turns, 200)
    first = Waiting(turns, 150, flush)
    assert flush.begun.wait(SECONDS)
    others = [Waiting(turns, offset, never) for offset in (101, 150, 200)]

    assert turns.wait(102, 0.001, never) is False
    flush.let_go.set()

    assert [each.answer() for each in (first, *others)] == [[True]] * 4


def test_who_is_not_covered_flushes_next_and_once_for_all(turns):
    flush, log = Held(turns, 150), Log(turns, 400)
    first = Waiting(turns, 150, flush)
    assert flush.begun.wait(SECONDS)
    others = [Waiting(turns, offset, log.flush) for offset in (120, 300, 250, 400)]

    flush.let_go.set()

    assert [each.answer() for each in (first, *others)] == [[True]] * 5
    assert log.flushes == 1


def test_a_thread_waits_no_longer_than_it_is_told(turns):
    flush = Held(turns, 200)
    first = Waiting(turns, 150, flush)
    assert flush.begun.wait(SECONDS)

    answers = [turns.wait(150, timeout, never) for timeout in (-1.0, 0.0, 0.07)]
    flush.let_go.set()

    assert answers == [False] * 3
    assert first.answer() == [True]
    assert turns.wait(200, 0.0, never)


@pytest.mark.parametrize("timeout", [None, 1e300, float("inf")])
def test_a_wait_without_an_end_ends_with_the_flush(turns, timeout):
    flush = Held(turns, 200)
    first = Waiting(turns, 150, flush)
    assert flush.begun.wait(SECONDS)
    other = Waiting(turns, 150, never, timeout)

    flush.let_go.set()

    assert (first.answer(), other.answer()) == ([True], [True])


def test_a_flush_that_does_not_reach_far_enough_is_made_again_until_the_time_is_up(turns):
    log = Log(turns, 110)

    assert turns.wait(111, 0.01, log.flush) is False

    assert log.flushes >= 1


def test_after_a_failure_nobody_waits_and_nobody_flushes(turns):
    def fail():
        begun.set()
        assert let_go.wait(SECONDS)
        turns.reached(150)
        turns.fail()

    begun, let_go = threading.Event(), threading.Event()
    first = Waiting(turns, 200, fail)
    assert begun.wait(SECONDS)
    others = [Waiting(turns, offset, never) for offset in (150, 151, 400)]
    let_go.set()

    assert [each.answer() for each in (first, *others)] == [[False], [True], [False], [False]]
    assert turns.wait(150, None, never)
    assert turns.wait(151, None, never) is False


def test_what_a_flush_raises_ends_this_wait_and_the_next_thread_has_its_turn(turns):
    class Interrupt(BaseException):
        pass

    def interrupted():
        begun.set()
        assert let_go.wait(SECONDS)
        raise Interrupt

    def lead():
        with pytest.raises(Interrupt):
            turns.wait(150, None, interrupted)
        left.set()

    begun, let_go, left = threading.Event(), threading.Event(), threading.Event()
    log = Log(turns, 300)
    threading.Thread(target=lead, daemon=True).start()
    assert begun.wait(SECONDS)
    others = [Waiting(turns, 300, log.flush) for _ in range(3)]
    let_go.set()

    assert [each.answer() for each in others] == [[True]] * 3
    assert left.wait(SECONDS)
    assert log.flushes == 1


def test_what_is_called_inside_of_a_flush_flushes_itself(turns):
    def outer():
        inside.append(turns.wait(180, None, inner.flush))
        assert turns.wait(300, 0.001, lambda: None) is False
        turns.reached(150)  # as it knew before

    inner, inside = Log(turns, 200), []

    assert turns.wait(150, None, outer)

    assert inside == [True]
    assert turns.flushed_offset == 200
    assert turns.wait(300, None, Log(turns, 300).flush)


def test_a_handler_that_raises_ends_a_wait_for_another_threads_flush(turns):
    class Interrupt(Exception):
        pass

    def handler(frame):
        if is_waiting(frame):
            came.set()
            raise Interrupt

    def interrupt():
        assert flush.begun.wait(SECONDS)
        until(lambda: send() or came.is_set())

    came, flush = threading.Event(), Held(turns, 200)
    first = Waiting(turns, 150, flush)
    assert flush.begun.wait(SECONDS)
    with on_signal(handler) as send:
        helper = threading.Thread(target=interrupt, daemon=True)
        helper.start()
        with pytest.raises(Interrupt):
            wait_here(turns, 150, never)
        helper.join(SECONDS)

    assert turns.flushed_offset == 100
    flush.let_go.set()
    assert first.answer() == [True]
    assert turns.wait(200, 0.0, never)


def test_no_thread_waits_for_one_that_is_in_a_handler(turns):
    def handler(frame):
        # Between the two flushes somebody has to have the second turn: not this thread, whose
        # handler waits for the others.
        if is_waiting(frame) and not flush.let_go.is_set():
            flush.let_go.set()
            answers.extend(other.answer())

    def interrupt():
        until(lambda: send() or flush.let_go.is_set())

    answers, flush, log = [], Held(turns, 150), Log(turns, 300)
    first = Waiting(turns, 150, flush)
    assert flush.begun.wait(SECONDS)
    with on_signal(handler) as send:
        helper = threading.Thread(target=interrupt, daemon=True)
        helper.start()
        other = Waiting(turns, 250, log.flush)
        assert wait_here(turns, 300, log.flush)
        helper.join(SECONDS)

    assert (first.answer(), answers, log.flushes) == ([True], [True], 1)


def test_a_handler_may_wait_in_turn_while_its_thread_waits(turns):
    def handler(frame):
        if is_waiting(frame) and not inside:
            inside.append(frame)
            answers.append(turns.wait(140, 0.001, never))
            came.set()

    def interrupt():
        until(lambda: send() or came.is_set())
        flush.let_go.set()

    came, inside, answers, flush = threading.Event(), [], [], Held(turns, 150)
    first = Waiting(turns, 150, flush)
    assert flush.begun.wait(SECONDS)
    with on_signal(handler) as send:
        helper = threading.Thread(target=interrupt, daemon=True)
        helper.start()
        assert wait_here(turns, 150, never)
        helper.join(SECONDS)

    assert (first.answer(), answers) == ([True], [False])
