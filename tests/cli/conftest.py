"""Runs ``reput`` in this process, and makes stores that need no plugin."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from clistores import own_plugins, plain_store, plugin_store, run, writer

from reput_tools.cli.root import ReputGroup

__all__ = ["group", "own_plugins", "plain_store", "plugin_store", "run", "writer"]


@pytest.fixture
def group() -> Callable[[], ReputGroup]:
    """A group that has loaded no plugin's commands yet."""
    return lambda: ReputGroup("reput")
