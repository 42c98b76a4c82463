"""Read groups: plugins that take long in every batch read the log on threads of their own."""

from __future__ import annotations

import threading

import pytest
from openstores import plugin, put, until

import reput

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
        loop = store._parts.members.loop

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
