"""``tombstones``: when the tombstones that a compaction has kept may be dropped.

Without the file, an opening could not know whether a queue without new messages has to be compacted
again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import attrs

from reput_compaction.filepairs.offsetnotelayout import TOMBSTONES

if TYPE_CHECKING:
    from reput.files import Disk
    from reput_compaction.filepairs.queuenames import Places

_FIELD: Final = "oldest_store_timestamp"


@attrs.frozen
class Tombstones:
    """The kept tombstones of one queue."""

    oldest: int | None
    """Store time of the oldest tombstone kept, ms; None when there is none."""

    @classmethod
    def load(cls, disk: Disk, places: Places) -> Tombstones:
        """Read the file; a missing file means that no tombstones are kept."""
        try:
            found = json.loads(disk.read_file(f"{places.notes}/{TOMBSTONES}", 4096))[_FIELD]
        except FileNotFoundError:
            return cls(None)  # never compacted, or by RocketMQ, which keeps no tombstones
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return cls(0)  # unreadable: the next run finds out
        return cls(found if type(found) is int else None)

    def save(self, disk: Disk, places: Places) -> None:
        """Replace the file, durably."""
        document = json.dumps({_FIELD: self.oldest}).encode()
        disk.replace(f"{places.notes}/{TOMBSTONES}", document)
