from __future__ import annotations

import json
import subprocess
import sys

CODE = """
import sys, json
sys.argv = ["reput", "--help"]
from reput_tools.cli import main
try:
    main()
finally:
    names = [name for name in ("numpy", "rich", "reput_consumequeue") if name in sys.modules]
    print(json.dumps(names), file=sys.stderr)
"""


def test_help_loads_no_plugin() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0
    assert json.loads(done.stderr) == []
