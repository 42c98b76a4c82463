"""What the package promises as a whole."""

from __future__ import annotations

import subprocess
import sys


def test_importing_it_loads_nothing_that_takes_long():
    code = "import sys, reput_server; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert "reput_server" in loaded
    assert {"asyncio", "numpy", "rich", "ssl"} & set(loaded) == set()
