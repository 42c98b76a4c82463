"""A plugin that is added to a store with messages reaches the end of the log, and says so."""

from __future__ import annotations

import pytest
from commands import cli_runner

import reput
from reput_tools.cli.root import reput as command_line

pytestmark = pytest.mark.shows("commands")

PLUGINS = ("compaction", "consumequeue", "filter", "index", "schedule", "transaction")


def _run(*arguments):
    return cli_runner().invoke(command_line, [str(each) for each in arguments])


def _filled(path):
    config = {"commitlog": {"file_size": 1 << 16}}
    with reput.open(path, plugins=["consumequeue"], config=config) as store:
        store.put_many([reput.Message("orders", b"%d" % number) for number in range(50)])
    return path


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plugin_added_by_backfill_is_at_the_end_for_every_later_look(tmp_path, plugin):
    path = _filled(tmp_path / "store")

    added = _run("backfill", path, plugin)

    assert added.exit_code == 0, added.output
    for mode in ("r", "w", "r"):
        with reput.open(path, mode) as store:
            assert store.wait_dispatched(10)
            states = {state.name: state.lag_size for state in store.plugins()}
        assert states == dict.fromkeys({plugin, "consumequeue"}, 0), mode


def test_only_queues_that_lag_are_said_to_lag(tmp_path):
    path = _filled(tmp_path / "store")
    with reput.open(path, plugins=["consumequeue", "index"]) as store:
        store.suspend_plugin("index")
        store.put(reput.Message("orders", b"last"))

    complete = _run("cat", path, "orders", "--count", "1")
    with reput.open(path) as store:
        store.suspend_plugin("consumequeue")
        store.put(reput.Message("orders", b"behind"))
    behind = _run("cat", path, "orders", "--count", "1")

    assert "not in the queues yet" not in complete.stderr
    assert "not in the queues yet" in behind.stderr
