"""What a store's own threads do when a plugin forks on one of them."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["end_forked_thread"]

_EXIT_CODE: Final = 70


def end_forked_thread(process: int) -> None:
    """End this process at once where it is not ``process`` but a forked child.

    For a store's own threads. A plugin that forks on one of them comes back twice, and the one in
    the child must not go on as if the store were its own.
    """
    if os.getpid() != process:
        os._exit(_EXIT_CODE)
