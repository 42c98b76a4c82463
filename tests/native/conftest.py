"""Tests of the compiled kernels, where they run; `tox -e native` sees to it that they do."""

from __future__ import annotations

import os

from reput.engine import ENGINE

if ENGINE.name != "native" and os.environ.get("REPUT_ENGINE") != "native":
    collect_ignore_glob = ["*"]
