"""Runs ``reput`` in this process."""

from __future__ import annotations

import pytest
from commands import commands


@pytest.fixture
def run():
    """``run("cat", path, "T")``: how that command ended."""
    with commands() as run:
        yield run
