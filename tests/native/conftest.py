"""Tests of the compiled kernels; `make test` installs these if cargo is installed."""

from __future__ import annotations

import os

from reput.engine import ENGINE

if ENGINE.name != "native" and os.environ.get("REPUT_ENGINE") != "native":
    collect_ignore_glob = ["*"]
