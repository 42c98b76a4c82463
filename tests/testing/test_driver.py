"""The driver calls hooks as a store does."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest

import reput
from reput.plugin import NoConfig
from reput_testing import Driver, ManualClock, ReadOnlyDisk, SmallLog, sample_log


@attrs.define(eq=False)
class RecorderPlugin(reput.Plugin):
    """Notes which hooks were called."""

    config: Any = attrs.field(factory=NoConfig)
    answer: Any = 0
    calls: list[Any] = attrs.field(factory=list, init=False)
    context: Any = attrs.field(default=None, init=False)

    @reput.hookimpl
    def reput_open(self, context: reput.StoreContext) -> None:
        self.context = context
        self.calls.append("open")

    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        self.calls.append(("recover", max_physical_offset, progress))
        return self.answer

    @reput.hookimpl
    def reput_enrich(self, batch: reput.DispatchBatch) -> dict[str, Any]:
        return {"tags_code": np.full(len(batch), 42)}

    @reput.hookimpl
    def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
        self.calls.append(("dispatch", len(batch), set(batch.tags_code.tolist())))

    @reput.hookimpl
    def reput_arrive(self) -> None:
        self.calls.append("arrive")

    @reput.hookimpl
    def reput_flush(self) -> None:
        self.calls.append("flush")

    @reput.hookimpl
    def reput_close(self) -> None:
        self.calls.append("close")


@pytest.fixture
def log() -> SmallLog:
    return sample_log()


def test_hooks_are_called_in_the_order_of_a_store(tmp_path, log):
    plugin = RecorderPlugin()

    with Driver(plugin, "recorder", tmp_path, log.first(3)) as driver:
        driver.catch_up({1})

    end = log.ends[2]
    assert plugin.calls == [
        "open",
        ("recover", end, 0),
        ("dispatch", 1, {42}),
        "arrive",
        ("dispatch", 2, {42}),
        "arrive",
        "flush",
        "close",
    ]
    assert driver.progress == end


def test_the_context_says_what_a_store_says(tmp_path, log):
    plugin, clock = RecorderPlugin(), ManualClock(5)

    driver = Driver(plugin, "recorder", tmp_path / "new", log, clean=False, clock=clock)
    driver.open()

    context = plugin.context
    assert (context.plugin, context.root) == ("recorder", str(tmp_path / "new"))
    assert (context.writable, context.clean, context.log) == (True, False, log)
    assert context.clock() == 5
    assert (tmp_path / "new").is_dir()


def test_progress_never_passes_the_log(tmp_path, log):
    plugin = RecorderPlugin(answer=1 << 40)

    driver = Driver(plugin, "recorder", tmp_path, log.first(3), progress=1 << 30)
    start = driver.open()

    assert plugin.calls[1] == ("recover", log.ends[2], log.ends[2])
    assert start == log.ends[2]


def test_dispatching_begins_where_the_plugin_says(tmp_path, log):
    plugin = RecorderPlugin(answer=log.starts[10])

    with Driver(plugin, "recorder", tmp_path, log, progress=log.starts[20]) as driver:
        assert driver.dispatched_to == log.starts[10]
        driver.catch_up()

    dispatched = sum(call[1] for call in plugin.calls if call[0] == "dispatch")
    assert dispatched == len(log) - 10


def test_a_trimmed_log_is_dispatched_from_its_beginning(tmp_path, log):
    plugin = RecorderPlugin()
    log.trim(2)

    driver = Driver(plugin, "recorder", tmp_path, log)

    assert driver.open() == log.min_physical_offset


def test_an_answer_that_is_no_offset_is_an_error(tmp_path, log):
    with pytest.raises(TypeError, match="returned '0', not an offset"):
        Driver(RecorderPlugin(answer="0"), "recorder", tmp_path, log).open()


def test_a_read_only_store_gets_a_disk_that_refuses_and_is_never_flushed(tmp_path, log):
    plugin = RecorderPlugin()

    with Driver(plugin, "recorder", tmp_path, log, writable=False):
        pass

    assert isinstance(plugin.context.disk, ReadOnlyDisk)
    assert "flush" not in plugin.calls


def test_what_a_plugin_raises_reaches_the_test_and_closes_it(tmp_path, log):
    plugin = RecorderPlugin()

    with pytest.raises(RuntimeError), Driver(plugin, "recorder", tmp_path, log):
        raise RuntimeError

    assert plugin.calls[-1] == "close"
    assert "flush" not in plugin.calls


def test_a_clock_stands_still_until_it_is_moved():
    clock = ManualClock(1_000)

    assert [clock(), clock(), clock.advance(500), clock(), clock.advance(-200)] == [
        *(1_000, 1_000),
        *(1_500, 1_500, 1_300),
    ]
