"""``reput --help`` with everything installed: all commands, and nothing of what adds them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata

import pytest

CODE = """
import json, sys
from reput_cli import main
try:
    main()
finally:
    print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def _offered(group):
    return list(metadata.entry_points(group=group))


def _run(*arguments):
    return subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_help_lists_commands_of_plugins_and_imports_no_plugin_nor_numpy():
    commands = [entry_point.name.split()[0] for entry_point in _offered("reput.commands")]
    packages = {
        entry_point.module.partition(".")[0]
        for group in ("reput.commands", "reput.plugins")
        for entry_point in _offered(group)
    }

    done = _run("--help")

    assert done.returncode == 0
    assert {"compact", "schedule", "transactions"} <= set(commands)
    assert [name for name in commands if f"\n  {name} " not in done.stdout] == []
    assert len(packages) >= 6
    assert {"numpy", "rich", "pluggy", "attr", *packages}.isdisjoint(json.loads(done.stderr))


@pytest.mark.parametrize("command", ["compact", "schedule", "transactions"])
def test_help_of_a_command_of_a_plugin_does_not_import_the_plugin(command):
    done = _run(command, "--help")

    assert done.returncode == 0
    assert f"Usage: reput {command} " in done.stdout
    assert {"numpy", "rich", "pluggy", "attr"}.isdisjoint(json.loads(done.stderr))
