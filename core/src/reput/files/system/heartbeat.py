"""Heartbeats: tell a waiting thread that the work it waits for advances.

A flush of a thousand files on a slow disk takes long, but does not hang. The flushing thread beats
the heart of its call after every file; the waiting thread measures the time since the last beat,
not since the beginning. `reput.files.system.disk` beats, so that plugins need not.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

__all__ = ["beat", "beating", "heart_of_thread"]

Heart = Callable[[], None]


class _Hearts(threading.local):
    heart: Heart | None = None


_hearts = _Hearts()


def beat() -> None:
    """Tell a thread that waits for this thread's work that the work has advanced."""
    if _hearts.heart is not None:
        _hearts.heart()


def heart_of_thread() -> Heart | None:
    """Return the heart that `beat` calls on this thread, for a thread that works on its behalf."""
    return _hearts.heart


@contextlib.contextmanager
def beating(heart: Heart | None) -> Iterator[None]:
    """Have `beat` on this thread call ``heart`` during the ``with`` block."""
    outer, _hearts.heart = _hearts.heart, heart
    try:
        yield
    finally:
        _hearts.heart = outer


def set_heart(heart: Heart | None) -> Heart | None:
    """Have `beat` on this thread call ``heart`` from now on.

    Returns:
        The previous heart, which the caller sets again afterwards.
    """
    outer, _hearts.heart = _hearts.heart, heart
    return outer
