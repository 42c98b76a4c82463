"""How the user can call ``reput`` again from the same shell."""

from __future__ import annotations

import os
import shlex
import shutil
import sys


def program() -> str:
    """Return what to type before a command's name: ``reput``, or the path that was used."""
    called = sys.argv[0]
    name = os.path.basename(called)
    if name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m reput_tools.cli"
    # In a virtual environment that is not active the bare name would not be found.
    found = shutil.which("reput")
    if name != "reput" or not os.path.exists(called):
        return "reput"
    if found is not None and os.path.samefile(found, called):
        return "reput"
    return shlex.quote(min(os.path.relpath(called), os.path.abspath(called), key=len))
