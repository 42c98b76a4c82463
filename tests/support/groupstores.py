"""A store with consumer groups that runs step by step, and what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

import reput
from reput.errors import ReputError
from reput_consumer import ConsumerPlugin
from reput_testing import ManualClock

CONFIG = {"commitlog": {"file_size": 1 << 20}}
PLUGINS = ("consumequeue", "schedule", "consumer")


class FailedError(ReputError):
    """A disk has failed."""


Failures = list[bool | type[BaseException]]
"""Of each operation to come: whether, or with which error, it fails. Later ones succeed."""


@attrs.define(eq=False)
class FailingStore:
    """The store as the plugin sees it, of which some reads and puts fail."""

    store: Any
    reads: Failures
    puts: Failures
    queue: tuple[str, int] | None
    """A queue that cannot be read."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def read(self, topic: str, queue_id: int, *arguments: Any) -> Any:
        _fail_if_due(self.reads)
        if (topic, queue_id) == self.queue:
            raise FailedError
        return self.store.read(topic, queue_id, *arguments)

    def put_many(self, messages: Any) -> Any:
        _fail_if_due(self.puts)
        return self.store.put_many(messages)


def _or_none(failures: Failures | None) -> Failures:
    return [] if failures is None else failures


def _fail_if_due(failures: Failures) -> None:
    failure = failures and failures.pop(0)
    if failure:
        raise FailedError if failure is True else failure


@attrs.define(eq=False)
class Steps:
    """A store whose clock and work are moved by hand."""

    root: Path
    plugins: tuple[str, ...] = PLUGINS
    options: dict[str, Any] = attrs.field(factory=dict)
    clock: ManualClock = attrs.field(factory=ManualClock)
    store: reput.Store = attrs.field(init=False)

    def open(
        self, mode: str = "w", more_config: dict[str, Any] | None = None, **more: Any
    ) -> reput.Store:
        config = {**CONFIG, "consumer": self.options, **(more_config or {})}
        named = {"plugins": self.plugins, "config": config} if mode == "w" else {}
        self.store = reput.open(
            self.root, mode=mode, clock=self.clock, threads=False, **named, **more
        )
        return self.store

    def reopen(self) -> reput.Store:
        self.store.close()
        return self.open()

    @property
    def plugin(self) -> ConsumerPlugin:
        return self.store.plugin(ConsumerPlugin)

    def break_store(
        self,
        reads: Failures | None = None,
        puts: Failures | None = None,
        *,
        queue: tuple[str, int] | None = None,
    ) -> None:
        """Have these reads and puts of the plugin fail from now on, and no others."""
        port = self.plugin.port
        store = port.context.store
        store = store.store if isinstance(store, FailingStore) else store
        failing = FailingStore(store, _or_none(reads), _or_none(puts), queue)
        port.context = port.sender.context = attrs.evolve(port.context, store=failing)

    def put(self, *bodies: str, topic: str = "orders", queue: int = 0, **fields: Any) -> None:
        for body in bodies:
            self.store.put(reput.Message(topic, body.encode(), queue, **fields))
        self.store.wait_dispatched()

    def work_until(self, end: int) -> None:
        """Do all that is due until then, each at its time."""
        for _ in range(10_000):
            due = self.store.work()
            if due is None or due > end:
                break
            self.clock.now = max(self.clock.now, due)
        self.clock.now = max(self.clock.now, end)
        self.store.work()

    def work_for(self, duration_ms: int) -> None:
        self.work_until(self.clock.now + duration_ms)

    def consumer(self, group: str = "g", topics: Any = "orders", **options: Any) -> Any:
        options = {"start": "earliest", "idle": 0, **options}
        return self.store.consumer(group, topics, **options)

    def read(self, topic: str, queue: int = 0) -> list[reput.MessageView]:
        self.store.wait_dispatched()
        return list(self.store.read(topic, queue, 0, 1_000))

    def offset(self, group: str = "g", topic: str = "orders", queue: int = 0) -> int | None:
        found = {(each.topic, each.queue_id): each for each in self.plugin.progress(group).queues}
        return found[topic, queue].offset if (topic, queue) in found else None


def bodies(messages: Any) -> list[str]:
    """Bodies as texts."""
    return [message.body.decode() for message in messages]
