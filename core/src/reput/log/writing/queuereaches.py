"""Queue reaches, ``<store>/reput/queues-<plugin>.json``: which queues existed, and how far.

If files of a queue's units are lost, the remaining files do not show it: without this note the
queue would begin again at 0, or too early, while its messages are in the log. An entry counts only
if the log has the message that it names, as the log decides, even after it was restored to an older
state.
"""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.files.names import OWN_DIRECTORY
from reput.files.system.disk import Disk
from reput.locks import new_lock

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

__all__ = ["QueueReach", "QueueReaches"]

_NAME: Final = "queues-{}.json"
_SIZE_MAX: Final = 1 << 30  # bytes of the file that are read: some ten million queues


class QueueReach(NamedTuple):
    """How far a queue reached."""

    max_offset: int
    """Queue offset after its last message."""
    record_offset: int
    """Physical offset of its last message."""


class QueueReaches:
    """The reaches of the queues that one plugin keeps. Thread-safe.

    Args:
        root: the store's directory; empty for reaches that are not kept in a file.
        plugin: name of the plugin that keeps the queues.
        disk: file operations.
    """

    def __init__(self, root: str = "", plugin: str = "", disk: Disk | None = None) -> None:
        self._path = os.path.join(root, OWN_DIRECTORY, _NAME.format(plugin)) if root else ""
        self._disk = disk or Disk()
        self._lock = new_lock()  # reentrant, for signal handlers
        self._reaches: Mapping[tuple[str, int], QueueReach] | None = None if root else {}

    @property
    def known(self) -> Mapping[tuple[str, int], QueueReach]:
        """The reach of each (topic, queue id) noted; replaced as a whole when one changes."""
        reaches = self._reaches
        if reaches is None:
            with self._lock:
                if self._reaches is None:
                    self._reaches = self._load()
                reaches = self._reaches
        return reaches

    def keep(self, reaches: Mapping[tuple[str, int], QueueReach]) -> None:
        """Replace all entries by ``reaches``; on disk when this returns.

        Raises:
            OSError: the file cannot be written; the entries are unchanged.
        """
        with self._lock:
            if reaches == self.known:
                return
            if self._path:
                self._save(reaches)
            self._reaches = dict(reaches)

    def _save(self, reaches: Mapping[tuple[str, int], QueueReach]) -> None:
        by_topic: dict[str, dict[str, QueueReach]] = {}
        for (topic, queue_id), reach in reaches.items():
            by_topic.setdefault(topic, {})[str(queue_id)] = reach
        self._disk.make_directory(os.path.dirname(self._path), durable=True)
        self._disk.replace(self._path, json.dumps(by_topic, separators=(",", ":")).encode())

    def _load(self) -> dict[tuple[str, int], QueueReach]:
        """Read the file; return no reaches if it is missing or damaged."""
        if not self._disk.exists(self._path):
            return {}
        try:
            return {
                (topic, int(queue_id)): _checked(*reach)
                for topic, queues in json.loads(self._disk.read_file(self._path, _SIZE_MAX)).items()
                for queue_id, reach in queues.items()
            }
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            logger.warning("damaged file passed over file=%s error=%s", self._path, error)
            return {}


def _checked(max_offset: int, record_offset: int) -> QueueReach:
    for each in (max_offset, record_offset):
        if type(each) is not int or not 0 <= each < 1 << 63:
            raise ValueError(f"{each!r} is no place")
    return QueueReach(max_offset, record_offset)
