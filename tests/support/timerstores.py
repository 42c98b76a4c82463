"""Stores whose only plugin beside the queues is the timer, driven by hand."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

import attrs
from openstores import messages_in

import reput
from reput.record import Message
from reput_schedule import ScheduleConfig
from reput_schedule.api.recall import cancel_messages
from reput_schedule.timerwheel.layout import TIMER_LOG_FILE_SIZE
from reput_schedule.timerwheel.timer import Timer
from reput_testing.logs.clock import ManualClock

DAY = 86_400_000


@attrs.define(eq=False)
class TimerPlugin(reput.Plugin):
    """The hooks that the timer needs, and nothing else."""

    name: ClassVar[str] = "timertest"
    requires: ClassVar[frozenset[str]] = frozenset({"consumequeue"})

    options: ScheduleConfig = attrs.field(factory=ScheduleConfig)
    log_file_size: int = TIMER_LOG_FILE_SIZE
    timer: Timer = attrs.field(init=False, default=None)
    context: Any = attrs.field(init=False, default=None)

    @reput.hookimpl
    def reput_open(self, context):
        self.context = context
        self.timer = Timer(context, self.options.precision_ms, log_file_size=self.log_file_size)
        self.timer.load()

    @reput.hookimpl
    def reput_recover(self, max_physical_offset, progress):
        return self.timer.recover(max_physical_offset, progress)

    @reput.hookimpl
    def reput_put(self, messages):
        now = self.context.clock()
        return [self.timer.transform(message, now) for message in messages]

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.timer.dispatch(batch)

    @reput.hookimpl
    def reput_work(self, now):
        return self.timer.work(now)

    @reput.hookimpl
    def reput_flush(self):
        self.timer.flush()

    @reput.hookimpl
    def reput_trim(self, min_physical_offset):
        self.timer.trim(min_physical_offset)

    @reput.hookimpl
    def reput_hold(self):
        return self.timer.hold()

    @reput.hookimpl
    def reput_close(self):
        self.timer.close()


class TimerStore:
    """A store with a clock that is moved by hand; nothing runs by itself."""

    def __init__(
        self,
        root: Path,
        clock: ManualClock | None = None,
        log_file_size: int = 1 << 16,
        **options: Any,
    ) -> None:
        self.root = Path(root)
        self.clock = clock or ManualClock()
        self.log_file_size, self.options = log_file_size, options
        self.open()

    def open(self) -> TimerStore:
        """Open the directory, anew."""
        self.plugin = TimerPlugin(ScheduleConfig(**self.options), self.log_file_size)
        self.store = reput.open(
            self.root,
            plugins=["consumequeue", self.plugin],
            clock=self.clock,
            threads=False,
            config={"commitlog": {"file_size": 1 << 22}},
        )
        return self

    @property
    def timer(self) -> Timer:
        """The timer of this opening."""
        return self.plugin.timer

    def put(self, body: str, *, topic: str = "Topic", **properties: object) -> None:
        """Put one message; properties as RocketMQ names them."""
        texts = {name: str(value) for name, value in properties.items()}
        self.store.put(Message(topic, body.encode(), properties=texts))

    def put_at(self, body: str, deliver_timestamp: int, **properties: object) -> None:
        """Put one message for a time; its body is its unique key."""
        wanted = {"UNIQ_KEY": body, "TIMER_DELIVER_MS": deliver_timestamp}
        self.put(body, **wanted, **properties)

    def put_in(self, body: str, delay_ms: int, **properties: object) -> None:
        """Put one message for a time from now."""
        self.put_at(body, self.clock() + delay_ms, **properties)

    def cancel(self, body: str, deliver_timestamp: int) -> None:
        """Cancel a message that `put_at` put."""
        self.store.put_many(cancel_messages("Topic", body, deliver_timestamp))

    def run(self) -> int | None:
        """Do what is due now; when the next is, ms."""
        for _ in range(10_000):
            due = self.store.work()
            if due is None or due > self.clock():
                return due
        raise AssertionError("the work at one moment does not end")

    def run_until(self, timestamp: int) -> None:
        """Let time pass, from one thing that is due to the next."""
        while (due := self.run()) is not None and due <= timestamp:
            self.clock.now = max(due, self.clock())
        self.clock.now = max(timestamp, self.clock())
        self.run()

    def messages(self, topic: str = "Topic") -> list[Any]:
        """What can be read of a topic's queue 0."""
        self.store.wait_dispatched()
        return messages_in(self.store, topic, 0, 0, 10_000, 1 << 26)

    def bodies(self, topic: str = "Topic") -> list[str]:
        """Bodies of what was delivered, in their order."""
        return [message.body.decode() for message in self.messages(topic)]

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def reopen(self) -> TimerStore:
        """Close and open."""
        self.close()
        return self.open()

    def crash(self, *, flushed: bool = False) -> TimerStore:
        """Go on with what a killed process leaves, in another directory."""
        if flushed:
            self.store.flush()
        left = self.root.with_name(self.root.name + "x")
        copy_sparsely(self.root, left)
        self.close()
        shutil.rmtree(self.root)
        self.root = left
        return self

    def __enter__(self) -> TimerStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def copy_sparsely(source: Path, target: Path) -> None:
    """Copy a directory; what is zero takes no room."""
    for path in sorted(source.rglob("*")):
        there = target / path.relative_to(source)
        if path.is_dir():
            there.mkdir(parents=True, exist_ok=True)
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as old, there.open("wb") as new:
            size, at = path.stat().st_size, 0
            new.truncate(size)
            for start, end in _data(old.fileno(), size):
                for at in range(start, end, 1 << 20):
                    old.seek(at)
                    data = old.read(min(1 << 20, end - at))
                    if data.strip(b"\0"):
                        new.seek(at)
                        new.write(data)


def _data(descriptor: int, size: int) -> list[tuple[int, int]]:
    from reput.files import Disk

    return Disk().data_ranges(descriptor, 0, size)
