"""``reput --help`` and ``reput info`` with everything installed, and what they import."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata

import pytest

import reput

CODE = """
import json, sys
from reput_tools.cli import main
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def _offered(group):
    return list(metadata.entry_points(group=group))


def _imported_by(module):
    code = f"import json, sys, {module}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return set(json.loads(done.stdout))


def _run(*arguments):
    return subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_lists_commands_of_plugins_and_imports_no_plugin_nor_numpy():
    commands = [entry_point.name.split()[0] for entry_point in _offered("reput.commands")]
    packages = {
        entry_point.module.partition(".")[0]
        for group in ("reput.commands", "reput.plugins")
        for entry_point in _offered(group)
    } - {"reput_tools"}

    done = _run("--help")

    assert done.returncode == 0
    assert {"compact", "schedule", "transactions"} <= set(commands)
    assert [name for name in commands if f"\n  {name} " not in done.stdout] == []
    assert len(packages) >= 6
    assert {"numpy", "rich", "pluggy", "attr", *packages}.isdisjoint(_imported(done))


def _imported(done):
    """Return the top-level packages that a run has imported."""
    return {name.partition(".")[0] for name in json.loads(done.stderr)}


@pytest.mark.parametrize("command", ["compact", "schedule", "transactions"])
def test_help_of_a_command_of_a_plugin_does_not_import_the_plugin(command):
    done = _run(command, "--help")

    assert done.returncode == 0
    assert f"Usage: reput {command} " in done.stdout
    assert {"numpy", "rich", "pluggy", "attr"}.isdisjoint(_imported(done))


FOR_WRITERS = {
    "asyncio",
    "secrets",
    "ssl",
    "reput_compaction.worker",
    "reput_consumer.localmembers",
    "reput_consumer.pop.popservice",
    "reput_consumer.backend.embeddedbackend",
    "reput_filter.sql.parser",
    "reput_integrity.scrub.backgroundscrub",
    "reput_schedule.delaylevels.delivery",
    "reput_transaction.completion.transactionworker",
}


@pytest.mark.costly
def test_info_imports_nothing_that_only_a_writer_or_a_consumer_needs(tmp_path):
    names = {each.name for each in _offered("reput.plugins")} - {"retention", "table"}
    path = str(tmp_path / "s")
    with reput.open_store(path, plugins=names) as store:
        store.put(reput.Message("orders", b"one", keys="k"))

    done = _run("info", path)

    assert done.returncode == 0, done.stderr
    assert "orders" in done.stdout
    assert len(names) >= 8
    imported = json.loads(done.stderr)
    assert "reput_consumer.plugin" in imported
    own = FOR_WRITERS - _imported_by("numpy")  # whose older releases draw random numbers
    assert sorted(own.intersection(imported)) == []
