"""Writers that die: they leave the stores that are opened after a crash."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable


def write_and_die(write: Callable[[], None]) -> None:
    """Call ``write`` in a child that ends right after it, without closing anything.

    To be called before any thread is started: a fork does not copy threads.

    Raises:
        RuntimeError: ``write`` raised an error, which the child has printed.
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
