"""What a signal handler interrupts may hold a lock that other threads wait for: close ends."""

from __future__ import annotations

import functools
import gc
import itertools
import pathlib
import re
import threading

import pytest

import reput
from reput import signalsafe
from reput.plugin.base import Plugin
from reput_testing import QuickDisk

SECONDS = 30
SMALL = {"commitlog": {"file_size": 4 << 10}}


class Witness(Plugin):
    name = "witness"

    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass


def close_elsewhere(work):
    """On a thread of its own, so that a close that hangs fails."""
    errors = []

    def run():
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive(), "close hangs"
    assert not errors


def test_close_ends_whatever_lock_its_thread_holds(tmp_path):
    """As in a handler that interrupts what is done under it, while other threads want it."""

    def hold_and_close(store, lock):
        with lock:
            store.close(timeout=5)
            assert lock._is_owned()

    def known():
        return [*signalsafe._locks, *signalsafe._hook_locks]

    for number in itertools.count():
        path, before = tmp_path / str(number), set(known())
        store = reput.open(path, plugins=[Witness()], config=SMALL, disk=QuickDisk())
        store.put(reput.Message("T", b"r" * 2_500))
        made = [found() for found in known() if found not in before]
        store.put(reput.Message("T", b"x"))
        # Not ==: a thread of one store may make a lock earlier than that thread of another one.
        if number >= len(made):
            break
        close_elsewhere(functools.partial(hold_and_close, store, made[number]))

        with reput.open(path, "r", plugins=[Witness()]) as again:
            assert again.clean, number
            assert sum(len(batch) for batch in again.scan(check_crc=True)) == 2
    store.close()
    assert number > 10


def test_every_reentrant_lock_of_the_core_can_be_let_go():
    """One that is made elsewhere is one that close may wait for; annotations may name the class."""
    made = re.compile(r"RLock\(\)|factory=(threading\.)?RLock")
    sources = list(pathlib.Path(reput.__file__).parent.rglob("*.py"))
    assert [path.name for path in sources if made.search(path.read_text())] == ["signalsafe.py"]


@pytest.mark.parametrize("threshold", [1, 5, 6, 9])
@pytest.mark.costly
def test_locks_are_let_go_while_the_garbage_collector_forgets_some(threshold):
    class Circle:
        def __init__(self):
            self.me, self.lock = self, signalsafe.new_lock()

    before = gc.get_threshold()
    gc.set_threshold(threshold)
    try:
        for _ in range(5_000):
            Circle()
            with signalsafe.locks_released():
                pass
    finally:
        gc.set_threshold(*before)


# --------------------------------------------------------------------------- Rounds


def test_rounds_begin_when_they_are_started_and_end_when_they_are_stopped():
    begun = threading.Event()

    def round_():
        begun.set()
        return True

    rounds = signalsafe.PeriodicThread("test-rounds", 0.001, round_)
    assert not any(thread.name == "test-rounds" for thread in threading.enumerate())
    rounds.start()
    assert begun.wait(SECONDS)
    rounds.stop()

    assert not any(thread.name == "test-rounds" for thread in threading.enumerate())


def test_rounds_that_were_never_started_can_be_stopped():
    signalsafe.PeriodicThread("test-rounds", 0.001, lambda: True).stop()


@pytest.mark.parametrize("name", ["reput-flush", "reput-watch", "reput-flush-plugins"])
def test_an_opening_that_is_interrupted_as_a_thread_starts_leaves_no_thread(
    tmp_path, monkeypatch, name
):
    """As a signal handler may raise once the thread runs, and before the call has returned."""
    real = signalsafe.PeriodicThread.start

    def interrupted(rounds):
        real(rounds)
        if rounds._thread.name == name:
            raise KeyboardInterrupt

    monkeypatch.setattr(signalsafe.PeriodicThread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reput.open(tmp_path, plugins=[Witness()], config=SMALL, disk=QuickDisk())

    assert [thread for thread in threading.enumerate() if thread.name == name] == []
