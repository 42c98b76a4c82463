"""One number for each queue of a batch, so that sorting the numbers groups the messages by queue.

A record's queue id is any 32-bit number: no checksum covers it, so damage can make it negative.
Such a number must not change the half of the key that stands for the topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["queue_keys", "queue_of_key"]

_LOW = 0xFFFFFFFF
_SIGN = 0x80000000


def queue_keys(topic_code: npt.NDArray[Any], queue_id: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return ``(n,)`` int64: the topic's code in the upper, the queue id in the lower 32 bits."""
    keys: npt.NDArray[np.int64] = topic_code.astype(np.int64) << 32
    keys |= queue_id.astype(np.int64) & _LOW
    return keys


def queue_of_key(key: int) -> tuple[int, int]:
    """Return the topic's code and the queue id, which may be negative, of a key."""
    queue_id = key & _LOW
    return key >> 32, queue_id - ((queue_id & _SIGN) << 1)
