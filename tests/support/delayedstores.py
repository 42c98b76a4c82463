"""Stores with delayed messages of both kinds, whose hooks are called by hand."""

from __future__ import annotations

import attrs
from openstores import bodies_in

import reput
from reput_schedule import SchedulePlugin
from reput_schedule.timerwheel.layout import ROLL_WINDOW_SLOTS
from reput_testing import ManualClock, QuickDisk

SECOND = 1_000
LEVEL_MS = 10 * SECOND  # of level 3


@attrs.define
class Delayed:
    """A store with delayed messages, whose hooks are called by hand."""

    root: object
    clock: ManualClock
    disk: object = attrs.field(factory=QuickDisk)
    due: dict = attrs.field(factory=dict)
    """When each message that waits or was delivered comes, by its body."""
    cancelled: set = attrs.field(factory=set)
    roll_window_slots: int = ROLL_WINDOW_SLOTS
    store: reput.Store = None
    plugin: SchedulePlugin = None

    def open(self):
        sizes = {"timer_log_file_size": 4096, "roll_window_slots": self.roll_window_slots}
        self.plugin = type("SizedPlugin", (SchedulePlugin,), sizes)()
        self.store = reput.open(
            self.root,
            plugins=["consumequeue", self.plugin],
            config={
                "commitlog": {"file_size": 1 << 16},
                "consumequeue": {"units_per_file": 64},
            },
            clock=self.clock,
            disk=self.disk,
            threads=False,
        )
        return self

    def put_in(self, body, delay_ms):
        due = self.clock() + delay_ms
        named = {"UNIQ_KEY": body, "TIMER_DELIVER_MS": str(due)}
        self.store.put(reput.Message("Topic", body.encode(), properties=named))
        self.due[body] = due

    def put_at_level(self, body):
        self.store.put(reput.Message("Topic", body.encode(), properties={"DELAY": "3"}))
        self.due[body] = self.clock() + LEVEL_MS

    def cancel(self, body):
        self.store.plugin("schedule").cancel("Topic", unique_key=body, deliver_at=self.due[body])
        self.cancelled.add(body)

    def work(self, times=5):
        """Have the worker run, whatever was dispatched by then."""
        for _ in range(times):
            self.plugin.reput_work(now=self.clock())

    def settle(self):
        """Do all that is due."""
        for _ in range(100):
            due = self.store.work()
            if due is None or due > self.clock():
                return
        raise AssertionError("the work at one moment does not end")

    def pass_time(self, duration_ms):
        """Let time pass, from one thing that is due to the next."""
        end = self.clock() + duration_ms
        while True:
            self.settle()
            due = self.store.work()
            if due is None or due > end:
                break
            self.clock.now = max(due, self.clock())
        self.clock.now = end
        self.settle()

    def delivered(self):
        self.store.wait_dispatched()
        return [body.decode() for body in bodies_in(self.store, "Topic", 0, 0, 1_000)]

    def expected(self):
        due = [body for body, time in self.due.items() if time <= self.clock()]
        return sorted(set(due) - self.cancelled)

    def close(self):
        self.store.close()
