"""Builds the site: ``python docs/site/build.py TARGET``; a warning of Sphinx is an error.

The site is built in a folder beside the target and takes its place when it is whole, so a build
that fails leaves the site that was there before.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def build(target: Path) -> None:
    """Build the site in the folder ``target``, which is replaced.

    Raises:
        subprocess.CalledProcessError: Sphinx has failed, or warned.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="site-", dir=target.parent) as scratch:
        made, notes = Path(scratch, "site"), Path(scratch, "doctrees")
        command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--fresh-env", "--quiet"]
        subprocess.run(
            [*command, "-d", str(notes), "-c", str(HERE), str(HERE.parent), str(made)], check=True
        )
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
