"""The event loop of a server: uvloop's where it is installed; otherwise asyncio's."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import cast


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes the event loop."""
    try:
        found = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return asyncio.new_event_loop
    return cast("Callable[[], asyncio.AbstractEventLoop]", found)
