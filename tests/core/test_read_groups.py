"""Read groups: plugins that take long in every batch read the log on threads of their own."""

from __future__ import annotations

import threading

import pytest
from openstores import plugin, put, until

import reput
from reput.dispatch.runtime.readgroup import ReadGroup
from reput.log.config import CommitLogConfig
from reput.log.reader.logreader import LogReader

pytestmark = pytest.mark.usefixtures("quiet")


def test_a_group_that_has_nothing_to_read_wakes_no_other_one(tmp_path, monkeypatch):
    """Two that did would wake each other for ever."""
    turn, wakes = threading.Event(), []

    def slowly(self, batch):
        turn.wait(0.15)

    plugins = [
        plugin("slow", reput_dispatch=slowly),
        plugin("quick", reput_dispatch=lambda self, batch: None),  # which the other one delays
    ]
    with reput.open(tmp_path, plugins=plugins) as store:
        loop = store._parts.writing().members.loop

        def has_moved():
            put(store, 20)
            turn.wait(0.05)
            return loop.own

        until(has_moved)
        assert store.wait_dispatched(60)
        monkeypatch.setattr(loop, "wake", lambda: wakes.append(1))

        assert not loop._join(loop.own[0])

        assert wakes == []
        monkeypatch.undo()


def test_members_that_are_behind_share_one_window_in_memory_whatever_its_size(
    tmp_path, monkeypatch
):
    window_reader = LogReader.window_reader
    made, sizes, seen = [], set(), {"first": 0, "second": 0}

    def counted(self, **given):
        made.append(window_reader(self, **given))
        return made[-1]

    def halve(self, seconds):
        self._short_size = max(self._short_size // 2, 1_024)
        if self._behind is not None:
            sizes.add(self._behind.window_size)

    def counting(name):
        def count(self, batch):
            seen[name] += len(batch)

        return plugin(name, reput_dispatch=count)

    with reput.open(tmp_path, plugins=[counting("first")]) as store:
        put(store, 200)
        assert store.wait_dispatched(60)
    monkeypatch.setattr(CommitLogConfig, "window_size", 8 << 10)
    monkeypatch.setattr(ReadGroup, "_size_windows", halve)
    with reput.open(
        tmp_path, plugins=[counting("first"), counting("second")], threads=False
    ) as store:
        shared = store._parts.writing().members.loop.shared
        shared.step()  # makes the reader for the front
        monkeypatch.setattr(LogReader, "window_reader", counted)
        put(store, 1, first=200)  # the store is busy, so windows behind are short
        while seen["second"] < 201:
            assert shared.step()
            assert len(made) <= 1
        shared.step()

        assert shared._behind is None
    assert seen["first"] >= 201
    assert len(made) == 1
    assert len(sizes) > 1


def test_a_message_now_and_then_is_followed_by_a_short_rest_and_a_stream_by_longer_ones(
    tmp_path, monkeypatch
):
    pauses, arrivals = [], []

    def rest(self, seconds, may_rest):
        pauses.append(seconds)
        if arrivals:
            put(store, 1, first=arrivals.pop())

    member = plugin("one", reput_dispatch=lambda self, batch: None)
    with reput.open(tmp_path, plugins=[member], threads=False) as store:
        shared = store._parts.writing().members.loop.shared
        monkeypatch.setattr(ReadGroup, "_rest", rest)

        def round_of(number, used):
            put(store, 1, first=number)
            assert shared.step()
            shared.rest(used)

        for number in range(3):  # nothing comes during these rests
            round_of(number, used=0.0008)
        arrivals += [5, 4, 3]
        for number in range(6, 10):
            round_of(number, used=0.0008)
        round_of(10, used=0.1)
        round_of(11, used=0.1)

    assert pauses[:4] == [0.002] * 4
    assert pauses[4:7] == [pytest.approx(9 * 0.0008)] * 3
    assert pauses[7:] == [0.002] * 2
