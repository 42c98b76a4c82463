"""A mark for tests that measure or limit the memory of a process."""

from __future__ import annotations

import os

import pytest

plain_memory = pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="AddressSanitizer takes memory of its own",
)
