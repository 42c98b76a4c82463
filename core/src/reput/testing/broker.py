"""``python -m reput.testing.broker``: a broker for tests in any language, of reput-server."""

from __future__ import annotations

import runpy
import sys
from importlib.util import find_spec

if __name__ == "__main__":
    if find_spec("reput_server") is None:
        sys.stderr.write(
            "reput: the broker is not installed; pip install ./server (in a checkout of reput)\n"
        )
        sys.exit(5)
    runpy.run_module("reput_server.testing", run_name="__main__", alter_sys=True)
