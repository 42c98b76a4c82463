"""Keep off the terminal what a JVM says when it starts, and no setting can stop."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def stderr_aside() -> Iterator[None]:
    """Have processes that the block starts write errors to a file, printed if the block fails.

    They keep that file to their end. Their later failures come as exceptions.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        except BaseException:
            file.seek(0)
            os.write(terminal, file.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
