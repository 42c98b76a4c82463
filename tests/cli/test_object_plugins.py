"""Plugins that a program gave as objects are in the list of a store's plugins."""

from __future__ import annotations

import pytest

import reput
from reput_tools.cli.kit.exitcodes import ExitCode


class Counting(reput.Plugin):
    """Counts messages."""

    name = "counting"

    @reput.hookimpl
    def reput_dispatch(self, batch):
        if self.fails:
            raise ValueError("not today")

    def __init__(self, *, fails=False):
        self.fails = fails


@pytest.fixture
def made(tmp_path):
    def make(**options):
        config = {"dispatch": {"retry_count": 0}}
        plugin = Counting(**options)
        with reput.open(tmp_path / "store", plugins=[plugin], config=config) as store:
            store.put(reput.Message("orders", b"body"))
            store.wait_dispatched()
        return tmp_path / "store"

    return make


def test_an_object_has_its_row(made, run):
    path = made()

    found = run("plugins", path)
    [plugin] = run("plugins", path, "--json").json["plugins"]

    assert found.code == ExitCode.OK
    assert [line.split()[:4] for line in found.out.splitlines()[:2]] == [
        ["PLUGIN", "VERSION", "STATE", "DISPATCHED"],
        ["counting", "-", "idle", str(plugin["dispatched_to"])],
    ]
    assert "counting" in found.err
    assert plugin["name"] == "counting"
    assert plugin["lag_size"] == 0
    assert plugin["message_count"] == 1


def test_an_object_that_failed_is_suspended_with_its_error(made, run):
    path = made(fails=True)

    found = run("plugins", path)

    assert found.out.splitlines()[1].split()[:3] == ["counting", "-", "suspended"]
    assert "not today" in found.err
    assert "reput resume" in found.err
