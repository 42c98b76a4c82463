"""A store with transactions that runs step by step, and what is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import reput
from reput_testing import ManualClock

CONFIG = {"commitlog": {"file_size": 65_536}}
PLUGINS = ["consumequeue", "transaction"]


@attrs.define(eq=False)
class Steps:
    """A store whose clock and work are moved by hand."""

    root: Path
    options: dict[str, Any]
    flush: str = "async"
    clock: ManualClock = attrs.field(factory=ManualClock)
    store: reput.Store = attrs.field(init=False)
    ids: list[str] = attrs.field(init=False, factory=list)
    """Of transactions that a test has begun."""

    def open(self, **options: Any) -> reput.Store:
        log = {**CONFIG["commitlog"], "flush": self.flush}
        config = {"commitlog": log, "transaction": {**self.options, **options}}
        self.store = reput.open(
            self.root, plugins=PLUGINS, config=config, clock=self.clock, threads=False
        )
        return self.store

    def reopen(self, **options: Any) -> reput.Store:
        self.store.close()
        return self.open(**options)

    def work_until(self, end: int) -> None:
        """Do all that is due until then, each at its time."""
        for _ in range(10_000):
            due = self.store.work()
            if due is None or due > end:
                break
            self.clock.now = max(self.clock.now, due)
        self.clock.now = max(self.clock.now, end)

    def work_for(self, duration_ms: int) -> None:
        self.work_until(self.clock.now + duration_ms)

    def read(self, topic: str, queue_id: int = 0) -> list[reput.MessageView]:
        self.store.wait_dispatched()
        found: list[reput.MessageView] = []
        while result := self.store.read(topic, queue_id, len(found), 1_000):
            found += result
        return found

    def bodies(self, topic: str, queue_id: int = 0) -> list[bytes]:
        return [message.body for message in self.read(topic, queue_id)]


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Callable[..., Steps]]:
    """``steps(check_max=3)``: an open store with these options of the plugin, and of ``flush``."""
    made = []

    def make(flush: str = "async", **options: Any) -> Steps:
        found = Steps(tmp_path / f"store {len(made)}", options, flush)
        found.open()
        made.append(found)
        return found

    yield make
    for each in made:
        each.store.close()
