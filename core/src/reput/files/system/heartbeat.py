"""Heartbeats: tell a waiting thread that the work it waits for advances.

A flush of a thousand files on a slow disk takes long, but does not hang. The flushing thread beats
the heart of its call after every file; the waiting thread measures the time since the last beat,
not since the beginning. `reput.files.system.disk` beats, so that plugins need not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["heart"]


class _Heart(threading.local):
    """Has one `beat` for each thread; whoever sets it for some work restores it afterwards."""

    beat: Callable[[], object] = bool  # a call of C that does nothing


heart = _Heart()
"""``heart.beat()`` says that the work of this thread has advanced."""
