"""Write to sockets what the system takes at once: to many of them in one call."""

from __future__ import annotations

import os
from collections.abc import Sequence

from reput.engine import kernel


@kernel
def write_sockets(answers: Sequence[tuple[int, bytes]]) -> list[int]:
    """Write to each socket what the system takes now, and return how many bytes that is.

    Args:
        answers: descriptors of sockets that do not block, and what is written to each. A socket
            that fails takes nothing, and its error comes again later.
    """
    return [written_size(descriptor, data) for descriptor, data in answers]


def written_size(descriptor: int, data: bytes) -> int:
    """The same for one socket."""
    try:
        return os.write(descriptor, data) if data else 0
    except OSError:
        return 0
