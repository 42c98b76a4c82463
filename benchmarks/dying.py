"""Writers that die: what opening a store after a crash begins with."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

__all__ = ["write_and_die"]


def write_and_die(write: Callable[[], None]) -> None:
    """Call it in a child that ends behind it, without closing anything.

    To be called before there are threads: a fork does not take them along.

    Raises:
        RuntimeError: ``write`` raised something, which the child has printed.
    """
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if status:
            raise RuntimeError(f"the writer ended with status {status}")
        return
    status = 1
    try:
        write()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
