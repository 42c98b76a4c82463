from __future__ import annotations

import json
import subprocess
import sys

# Other plugins may be installed, too; what they import is theirs to answer for.
CODE = """
import sys, json
import importlib.metadata
every = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **chosen: [
    found for found in every(**chosen) if found.name == "consumequeue"
]
sys.argv = ["reput", "--help"]
from reput_cli import main
try:
    main()
finally:
    names = [name for name in ("numpy", "rich", "reput_consumequeue") if name in sys.modules]
    print(json.dumps(names), file=sys.stderr)
"""


def test_help_loads_no_plugin_that_has_no_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0
    assert json.loads(done.stderr) == []
