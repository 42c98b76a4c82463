"""Tests of the compiled kernels, where they are installed; `make test` installs them if cargo is."""

from __future__ import annotations

import os

from reput.engine import ENGINE

if ENGINE.name != "native" and os.environ.get("REPUT_ENGINE") != "native":
    collect_ignore_glob = ["*"]
