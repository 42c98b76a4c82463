"""``python -m reput`` is ``reput``, the command line: a distribution of its own."""

from __future__ import annotations

import sys
from importlib.util import find_spec

if find_spec("reput_tools.cli") is None:
    from reput.installhints import install_command

    command = install_command("tools")
    sys.stderr.write(f"reput: the command line is not installed: {command}\n")
    sys.exit(5)

from reput_tools.cli import main

main()
