"""Loads pages of a map ahead of use, without the interpreter lock while the disk works."""

from __future__ import annotations

import ctypes
import logging
import mmap
from functools import cache
from typing import Any, Final

__all__ = ["POPULATE_READ", "POPULATE_WRITE", "populate"]

logger = logging.getLogger(__name__)

# <linux/mman.h>, since Linux 5.14; the mmap module has no names for them.
POPULATE_READ: Final = 22
POPULATE_WRITE: Final = 23


def populate(address: int, size: int, kind: int) -> bool:
    """Load the pages of a map; a page that cannot be loaded does not raise a signal here.

    Args:
        address: where a page of the map begins.
        size: bytes.
        kind: `POPULATE_READ`, or `POPULATE_WRITE` for pages that will be written.

    Returns:
        Whether all pages are there; false also where the system does not know such a call.
    """
    madvise = _madvise()
    if madvise is None:
        return False
    failed = madvise(address, size, kind)
    if failed:
        logger.debug("no populate errno=%d", ctypes.get_errno())
    return not failed


@cache
def _madvise() -> Any:
    """Return the system's ``madvise``, which releases the interpreter lock; None if missing.

    It is tried once: a system that does not know the call would be asked again with each read.
    """
    try:
        function = ctypes.CDLL(None, use_errno=True).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_int
    with mmap.mmap(-1, mmap.PAGESIZE) as page:
        held = ctypes.c_char.from_buffer(page)
        failed = function(ctypes.addressof(held), mmap.PAGESIZE, POPULATE_READ)
        del held
    return None if failed else function
