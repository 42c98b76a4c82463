"""How many descriptors a pool may keep, by the limit of the process (``ulimit -n``)."""

from __future__ import annotations

import errno
from typing import Final

__all__ = ["EXHAUSTED", "kept_count"]

EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE)
"""Errors of a process, or a system, that has no descriptor left."""
_USUAL: Final = 1_024


def kept_count(wanted: int) -> int:
    """Return how many descriptors a pool may keep open: ``wanted``, or fewer if they are rare.

    A quarter of 1,024, which is the usual limit, and a much smaller part of a lower one: sockets,
    logs and other pools need some, too.
    """
    try:
        import resource
    except ImportError:  # no such limit on this system
        return wanted
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY or limit >= 4 * max(wanted, _USUAL):
        return wanted
    return min(wanted, max(limit * limit // (4 * _USUAL), 1))
