"""``tombstones``: when the tombstones that a compaction has kept may go.

Without it nobody could tell, after an opening, whether a queue that gets no messages has to be
compacted once more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_compaction.pairs._names import Places

__all__ = ["Tombstones"]

_NAME: Final = "tombstones"
_FIELD: Final = "oldest_store_timestamp"


@attrs.frozen
class Tombstones:
    """Of one queue."""

    oldest: int | None
    """Store time of the oldest one that was kept, ms; None when there is none."""

    @classmethod
    def load(cls, disk: Disk, places: Places) -> Tombstones:
        """What was saved; none when there is nothing that can be read."""
        try:
            found = json.loads(disk.read_file(f"{places.notes}/{_NAME}", 4096))[_FIELD]
        except FileNotFoundError:
            return cls(None)  # never compacted, or by RocketMQ, which keeps none
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return cls(0)  # unknown: the next run finds out
        return cls(found if type(found) is int else None)

    def save(self, disk: Disk, places: Places) -> None:
        """Replace the file, durably."""
        document = json.dumps({_FIELD: self.oldest}).encode()
        disk.replace(f"{places.notes}/{_NAME}", document)
