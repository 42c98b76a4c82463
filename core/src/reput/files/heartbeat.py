"""Tells the one who waits for a long piece of work that it advances.

A flush of a thousand files on a slow disk takes long and does not hang. The thread that makes it
beats the heart of the call that it is part of, with every file; the one that waits looks at the
last beat and not only at the beginning. `reput.files.disk` beats it, so that a plugin need do
nothing.
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
    """Tell whoever waits for what this thread does that it has advanced."""
    if _hearts.heart is not None:
        _hearts.heart()


def heart_of_thread() -> Heart | None:
    """The heart that `beat` beats on this thread, for another thread that works for this one."""
    return _hearts.heart


@contextlib.contextmanager
def beating(heart: Heart | None) -> Iterator[None]:
    """Have `beat` on this thread call ``heart`` for the time of the ``with`` block."""
    outer, _hearts.heart = _hearts.heart, heart
    try:
        yield
    finally:
        _hearts.heart = outer


def set_heart(heart: Heart | None) -> Heart | None:
    """Have `beat` on this thread call ``heart`` from now on.

    Returns:
        The one that it called before, to be set again afterwards.
    """
    outer, _hearts.heart = _hearts.heart, heart
    return outer
