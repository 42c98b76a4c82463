"""Ends a forked child in which a thread of the store would go on."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["end_forked_thread"]

_EXIT_CODE: Final = 70


def end_forked_thread(process: int) -> None:
    """End this process at once if it is a forked child, and not ``process``.

    Called on a store's own threads. A plugin that forks there returns twice, and the child must not
    go on as if the store were its own.
    """
    if os.getpid() != process:
        os._exit(_EXIT_CODE)
