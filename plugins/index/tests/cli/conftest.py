"""Runs ``reput`` in this process."""

from __future__ import annotations

import pytest
from commands import commands


@pytest.fixture
def run():
    """``run("grep", path, "text")``: how that command ended."""
    with commands() as run:
        yield run
