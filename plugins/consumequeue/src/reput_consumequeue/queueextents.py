"""Queue reaches, ``<store>/reput/queues-consumequeue.json``: which queues existed, and how far.

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

from reput.files import OWN_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.files import Disk

logger = logging.getLogger(__name__)

__all__ = ["QueueExtent", "load_extents", "save_extents"]

_NAME: Final = "queues-consumequeue.json"
_SIZE_MAX: Final = 1 << 30  # bytes of the file that are read: some ten million queues


class QueueExtent(NamedTuple):
    """How far a queue reached."""

    max_offset: int
    """Queue offset after its last message."""
    record_offset: int
    """Physical offset of its last message."""


def load_extents(root: str, disk: Disk) -> dict[tuple[str, int], QueueExtent]:
    """Return the reach of each (topic, queue id) noted; none if the file is missing or damaged."""
    path = os.path.join(root, OWN_DIRECTORY, _NAME)
    text = disk.read_if_exists(path, _SIZE_MAX)
    if text is None:
        return {}
    try:
        return {
            (topic, int(queue_id)): _checked(*reach)
            for topic, queues in json.loads(text).items()
            for queue_id, reach in queues.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        logger.warning("damaged file ignored file=%s error=%s", path, error)
        return {}


def save_extents(root: str, disk: Disk, reaches: Mapping[tuple[str, int], QueueExtent]) -> None:
    """Replace all entries by ``reaches``; on disk when this returns.

    Raises:
        OSError: the file cannot be written; the entries are unchanged.
    """
    by_topic: dict[str, dict[str, QueueExtent]] = {}
    for (topic, queue_id), reach in reaches.items():
        by_topic.setdefault(topic, {})[str(queue_id)] = reach
    path = os.path.join(root, OWN_DIRECTORY, _NAME)
    disk.make_directory(os.path.dirname(path), durable=True)
    disk.replace(path, json.dumps(by_topic, separators=(",", ":")).encode())


def _checked(max_offset: int, record_offset: int) -> QueueExtent:
    for each in (max_offset, record_offset):
        if type(each) is not int or not 0 <= each < 1 << 63:
            raise ValueError(f"{each!r} is not a place")
    return QueueExtent(max_offset, record_offset)
