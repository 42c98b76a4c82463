"""Have rustfmt and clippy look at the kernels, where there is a cargo; called by tox -e lint."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def main() -> int:
    """0 where there is nothing to say, or nobody to say it."""
    if shutil.which("cargo") is None:
        sys.stderr.write("native: not linted, as there is no cargo\n")
        return 0
    manifest = ("--manifest-path", str(Path(__file__).with_name("Cargo.toml")))
    commands = (
        ("cargo", "fmt", "--check", *manifest),
        (
            "cargo",
            "clippy",
            "--all-targets",
            "--locked",
            "--quiet",
            *manifest,
            "--",
            "-D",
            "warnings",
        ),
    )
    return max(subprocess.run(command, check=False).returncode for command in commands)


sys.exit(main())
