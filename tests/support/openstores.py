"""What tests of plugins in open stores share: plugins made of functions, puts, and waiting."""

from __future__ import annotations

import threading

import reput
from reput.dispatch.runtime.hookcalls import Call
from reput.files import Disk
from reput.store.directory.storelock import StoreLock


def plugin(name, **members):
    """A plugin of that name, with hooks given as plain functions."""
    made = {key: reput.hookimpl(f) if callable(f) else f for key, f in members.items()}
    return type(f"{name.capitalize()}Plugin", (reput.Plugin,), made)()


def put(store, count, first=0):
    """Put numbered messages one by one; their physical offsets."""
    return [
        store.put(reput.Message("T", b"%d" % number)).physical_offset
        for number in range(first, first + count)
    ]


def next_queue_offset(store, topic, queue_id, following):
    """Have the queue go on at another queue offset, as after a loss."""
    appender = store.log._appender
    appender.start_queues(store.log.queue_offsets | {(topic, queue_id): following})


def state_of(store, name):
    """How a plugin of the store is doing."""
    return next(state for state in store.plugins() if state.name == name)


def is_written(root):
    """Whether somebody has the store open for writing, or may still write it."""
    return StoreLock(f"{root}/lock", str(root), Disk()).is_taken()


def only_hangs(monkeypatch, *calls):
    """Let only these calls count as hanging: pairs of plugin and hook, in a set that may change.

    On a busy machine each thread may stand still for longer than ``stall_ms``.
    """
    hanging, idle_seconds = set(calls), Call.idle_seconds.fget
    idle = property(lambda c: idle_seconds(c) if (c.plugin, c.hook) in hanging else 0.0)
    monkeypatch.setattr(Call, "idle_seconds", idle)
    return hanging


def until(condition):
    """Wait for what another thread is about to do; the limit is for broken code only."""
    turn = threading.Event()
    for _ in range(2_000):
        if condition():
            return
        turn.wait(0.005)
    raise AssertionError("it never happened")


def reads(store, topic="T", queue_id=0, at=0, *limits, **options):
    """Read a queue from a place on, until a read leads no further."""
    while (result := store.read(topic, queue_id, at, *limits, **options)).next_queue_offset > at:
        yield result
        at = result.next_queue_offset


def messages_in(store, topic="T", queue_id=0, at=0, *limits, **options):
    """Every message of a queue from a place on."""
    return [
        each for result in reads(store, topic, queue_id, at, *limits, **options) for each in result
    ]


def bodies_in(store, topic="T", queue_id=0, at=0, *limits):
    """Body of every message of a queue from a place on."""
    return [each.body for each in messages_in(store, topic, queue_id, at, *limits)]
