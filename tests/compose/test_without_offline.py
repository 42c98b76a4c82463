"""Plugins answer offline tools, and need none of them: `reput_tools.offline` may be missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

STORE = """
import sys
sys.modules["reput_tools.offline"] = None  # as if it were not installed

import reput

plugins = ["compaction", "consumequeue", "consumer", "filter", "index", "integrity", "schedule",
           "transaction"]
config = {"commitlog": {"file_size": 65_536}}
for _ in range(2):
    with reput.open(sys.argv[1], plugins=plugins, config=config) as store:
        store.put(reput.Message("orders", b"body", 0, keys="k"))
        assert store.wait_dispatched(10)
        store.flush()
        print(len(store.read("orders", 0, 0)), len(store.query("orders", "k").messages))
"""


@pytest.mark.costly
def test_a_store_with_all_plugins_runs_without_the_offline_tools(tmp_path):
    command = [sys.executable, "-c", STORE, str(tmp_path / "store")]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["1 1", "2 2"]
