"""Queue reaches, ``<store>/reput/queues-consumequeue.json``: which queues existed, and how far.

If files of a queue's units are lost, the remaining files do not show it: without this note the
queue would begin again at 0, or too early, while its messages are in the log. An entry counts only
if the log has the message that it names, as the log decides, even after it was restored to an older
state.

A closed store also has the facts of each queue with one file (`ClosedFile`). If the log ends where
it ended, and size and times are the same at the next opening, nobody has changed the queue, and
neither its directory nor its file is read. Times alone do not show it: a power cut may take the
last times, but not the bytes. The file is
``{"crc":…,"end":…,"queues":{topic:{queue id:[max offset, record offset, facts…]}}}``; the CRC-32 is
that of the bytes from ``"end"`` on.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from reput.files import OWN_DIRECTORY
from reput_consumequeue.layout import UNIT_SIZE

if TYPE_CHECKING:
    from reput.files import Disk

logger = logging.getLogger(__name__)

__all__ = ["ClosedFile", "Noted", "QueueExtent", "load_extents", "save_extents"]

_NAME: Final = "queues-consumequeue.json"
_SIZE_MAX: Final = 1 << 30  # bytes of the file that are read: some ten million queues
_HEAD: Final = b'{"crc":%d'


class ClosedFile(NamedTuple):
    """What a queue with one file was when its store was closed."""

    end_offset: int
    """Physical offset after its last message."""
    min_offset: int
    min_physical_offset: int
    """See `ConsumeQueue`."""
    position: int
    """Bytes of units before the file, which are its name."""
    size: int
    changed_ns: int
    """When the file was changed, or got another time, ns since the epoch."""
    names_changed_ns: int
    """When a name in the queue's directory was changed."""

    @property
    def facts(self) -> tuple[int, int, int]:
        """What `Disk.look_below` finds as long as nobody changes the queue."""
        return self[-3:]

    def hides_units(self, min_physical_offset: int) -> bool:
        """Return whether a log that begins there may have records of units before the first."""
        begins_later = self.min_offset * UNIT_SIZE > self.position
        return begins_later and self.min_physical_offset > min_physical_offset


class QueueExtent(NamedTuple):
    """How far a queue reached."""

    max_offset: int
    """Queue offset after its last message."""
    record_offset: int
    """Physical offset of its last message."""
    file: ClosedFile | None = None
    """None unless the store was closed after the last change."""


class Noted(NamedTuple):
    """The whole note."""

    extents: dict[tuple[str, int], QueueExtent]
    """By topic and queue id."""
    log_end: int = -1
    """Where the log ended when the facts of files were noted."""


def load_extents(root: str, disk: Disk) -> Noted:
    """Return what is noted; nothing if the file is missing or damaged."""
    path = os.path.join(root, OWN_DIRECTORY, _NAME)
    text = disk.read_if_exists(path, _SIZE_MAX)
    if text is None:
        return Noted({})
    try:
        head, _, data = text.partition(b",")
        if head != _HEAD % zlib.crc32(data):
            raise ValueError("its checksum is wrong")
        facts = json.loads(b"{" + data)
        extents = {
            (topic, int(queue_id)): _extent(*reach)
            for topic, queues in facts["queues"].items()
            for queue_id, reach in queues.items()
        }
        return Noted(extents, facts["end"])
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        logger.warning("damaged file ignored file=%s error=%s", path, error)
        return Noted({})


def save_extents(root: str, disk: Disk, noted: Noted) -> None:
    """Replace the whole note; on disk when this returns.

    Raises:
        OSError: the file cannot be written; the note is unchanged.
    """
    by_topic: dict[str, dict[str, tuple[int, ...]]] = {}
    for (topic, queue_id), (end, record, file) in noted.extents.items():
        by_topic.setdefault(topic, {})[str(queue_id)] = (end, record, *(file or ()))
    path = os.path.join(root, OWN_DIRECTORY, _NAME)
    disk.make_directory(os.path.dirname(path), durable=True)
    facts = {"end": noted.log_end, "queues": by_topic}
    data = json.dumps(facts, separators=(",", ":")).encode()[1:]
    disk.replace(path, b"%s,%s" % (_HEAD % zlib.crc32(data), data))


def _extent(max_offset: int, record_offset: int, *file: int) -> QueueExtent:
    # The checksum has shown that a writer of reput chose the numbers.
    return QueueExtent(max_offset, record_offset, ClosedFile(*file) if file else None)
