"""Queue floors, ``<store>/reput/queue-offsets.json``: queue offsets below them are never reused.

If all messages of a queue were removed, the log does not tell the queue's next offset, and derived
files that do may be deleted, damaged, or rebuilt from the log. So next queue offsets are written
here before files of the log are removed; and before a plugin cuts or replaces its files, it writes
here what they say of queues without messages. Floors never fall. They apply whenever next queue
offsets are determined, and whenever queue files are made from the log.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from reput.files.jsonnotes import object_of
from reput.files.names import OWN_DIRECTORY
from reput.files.system.disk import Disk
from reput.locks import new_lock

if TYPE_CHECKING:
    from typing import Self

logger = logging.getLogger(__name__)

__all__ = ["QueueFloors"]

_NAME: Final = "queue-offsets.json"
_OFFSET_MAX: Final = 1 << 57  # positions of units in files, in bytes, are 64-bit numbers

Offsets = Mapping[tuple[str, int], int]


class QueueFloors:
    """The floors of one store's queues. Thread-safe.

    Args:
        root: the store's directory; empty for floors that are not kept in a file.
        disk: file operations.
        writable: whether `keep` writes the file; if false, it changes this object only.
        damaged: called with a text if the file is damaged and ignored.
    """

    def __init__(
        self,
        root: str = "",
        disk: Disk | None = None,
        *,
        writable: bool = False,
        damaged: Callable[[str], None] | None = None,
    ) -> None:
        self._damaged = damaged
        self._path = os.path.join(root, OWN_DIRECTORY, _NAME) if root else ""
        self._disk = disk or Disk()
        self._writable = writable
        self._lock = new_lock()  # reentrant, for signal handlers
        self._floors: dict[tuple[str, int], int] | None = None if root else {}

    @classmethod
    def of(cls, floors: Offsets) -> Self:
        """Return floors that are kept in no file."""
        made = cls()
        made._floors = dict(floors)
        return made

    @property
    def known(self) -> Offsets:
        """The floor of each (topic, queue id) that has one; replaced as a whole when one rises."""
        floors = self._floors
        if floors is None:
            with self._lock:
                if self._floors is None:
                    self._floors = self._load()
                floors = self._floors
        return floors

    def floor(self, topic: str, queue_id: int) -> int:
        """Return the queue offset below which no offset may be given; 0 if the queue has none."""
        return self.known.get((topic, queue_id), 0)

    def above(self, offsets: Offsets) -> dict[tuple[str, int], int]:
        """Return ``offsets`` raised to the floors, for all queues that are in either."""
        return {
            **offsets,
            **{key: max(low, offsets.get(key, 0)) for key, low in self.known.items()},
        }

    def keep(self, offsets: Offsets) -> None:
        """Raise the floors to ``offsets``; in a writable store they are on disk afterwards.

        Raises:
            OSError: the file cannot be written; the floors are unchanged.
        """
        known = self.known
        with self._lock:
            risen = {key: offset for key, offset in offsets.items() if offset > known.get(key, 0)}
            if not risen:
                return
            floors = {**known, **risen}
            if self._writable:
                self._save(floors)
            self._floors = floors

    def _save(self, floors: Offsets) -> None:
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, queue_id), offset in floors.items():
            by_topic.setdefault(topic, {})[str(queue_id)] = offset
        self._disk.make_directory(os.path.dirname(self._path), durable=True)
        self._disk.replace(self._path, json.dumps(by_topic).encode())

    def _load(self) -> dict[tuple[str, int], int]:
        """Read the file; return no floors if it is missing or damaged."""
        try:
            text = self._disk.read_if_exists(self._path)
            if text is None:
                return {}
            return {
                (topic, int(queue_id)): _checked(offset)
                for topic, queues in object_of(text).items()
                for queue_id, offset in queues.items()
            }
        except (OSError, ValueError, TypeError, AttributeError) as error:
            if self._writable and isinstance(error, OSError):
                raise  # a writer without floors would give queue offsets a second time
            logger.error(
                "damaged file passed over, queues without messages begin at 0 file=%s error=%s",
                self._path,
                error,
            )
            if self._damaged is not None:
                self._damaged(f"{self._path}: damaged, and is passed over: {error}")
            return {}


def _checked(offset: object) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= _OFFSET_MAX:
        raise ValueError(f"{offset!r} is no queue offset")
    return offset
