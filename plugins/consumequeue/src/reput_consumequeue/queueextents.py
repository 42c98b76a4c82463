"""Queue reaches, ``<store>/reput/queues-consumequeue.json``: which queues existed, and how far.

If files of a queue's units are lost, the remaining files do not show it: without this note the
queue would begin again at 0, or too early, while its messages are in the log. An entry counts only
if the log has the message that it names, as the log decides, even after it was restored to an older
state.

A closed store also has the facts of each queue with one file. If the log ends where it ended, and
size and times are the same at the next opening, nobody has changed the queue, and neither its
directory nor its file is read. Times alone do not show it: a power cut may take the last times, but
not the bytes. The file is ``{"crc":…,"end":…,"topics":[name, …],"rows":…}``; the rows are
`NOTE_DTYPE` in Base64, so that an opening reads many at once, and the CRC-32 is that of the bytes
from ``"end"`` on.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import numpy as np

from reput.files import OWN_DIRECTORY
from reput_consumequeue.layout import UNIT_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from reput.files import Disk

    Rows = np.ndarray[tuple[int], np.dtype[np.void]]

logger = logging.getLogger(__name__)

__all__ = ["NOTE_DTYPE", "Noted", "QueueExtent", "load_extents", "save_extents"]

_NAME: Final = "queues-consumequeue.json"
_SIZE_MAX: Final = 1 << 30  # bytes of the file that are read: some ten million queues
_HEAD: Final = b'{"crc":%d'
NOTE_DTYPE: Final = np.dtype(
    [
        ("topic", "<u4"),  # place in the list of topics
        ("queue_id", "<i4"),
        ("max_offset", "<i8"),  # queue offset after the last message
        ("record_offset", "<i8"),  # physical offset of the last message
        # Of a queue with one file, when its store was closed:
        ("end_offset", "<i8"),  # physical offset after the last message
        ("min_offset", "<i8"),  # this and the next: see `ConsumeQueue`
        ("min_physical_offset", "<i8"),
        ("position", "<i8"),  # bytes of units before the file, which are its name
        ("size", "<i8"),  # of the file; 0 if the queue has to be read
        ("changed_ns", "<i8"),  # when the file was changed, or got another time, since the epoch
        # When a name in the queue's directory was changed; 0 if the file is not full, as it changes
        # before another file is added.
        ("names_changed_ns", "<i8"),
    ]
)


class QueueExtent(NamedTuple):
    """How far a queue reached."""

    max_offset: int
    """Queue offset after its last message."""
    record_offset: int
    """Physical offset of its last message."""
    facts: tuple[int, ...] = (0,) * 7
    """The other fields of `NOTE_DTYPE`, from ``end_offset`` on."""


@attrs.define(eq=False)
class Noted:
    """The whole note: one row for each queue."""

    keys: Sequence[tuple[str, int]] = ()
    """Topic and queue id of each row; those of a topic lie together."""
    rows: Rows = attrs.field(factory=lambda: np.zeros(0, NOTE_DTYPE))
    """``(n,)`` of `NOTE_DTYPE`."""
    log_end: int = -1
    """Where the log ended when the facts of files were noted."""

    def extents(self, rows: npt.NDArray[np.bool_] | slice = slice(None)) -> dict[Any, QueueExtent]:
        """Return how far the queues of some rows reached, by topic and queue id."""
        found = self.rows[rows]
        numbers = np.arange(len(self.rows))[rows].tolist()
        ends = zip(found["max_offset"].tolist(), found["record_offset"].tolist(), strict=True)
        return {
            self.keys[number]: QueueExtent(*each)
            for number, each in zip(numbers, ends, strict=True)
        }

    def unchanged(self, min_physical_offset: int) -> npt.NDArray[np.bool_]:
        """Return which rows have facts that count in a log which begins there.

        A log that begins earlier than at the closing may have records of units before the first.
        """
        rows = self.rows
        begins_later = rows["min_offset"] * UNIT_SIZE > rows["position"]
        hides_units = begins_later & (rows["min_physical_offset"] > min_physical_offset)
        return np.asarray((rows["size"] > 0) & ~hides_units)


def load_extents(root: str, disk: Disk) -> Noted:
    """Return what is noted; nothing if the file is missing or damaged."""
    path = os.path.join(root, OWN_DIRECTORY, _NAME)
    text = disk.read_if_exists(path, _SIZE_MAX)
    if text is None:
        return Noted()
    try:
        head, _, data = text.partition(b",")
        if head != _HEAD % zlib.crc32(data):
            raise ValueError("its checksum is wrong")
        # The checksum has shown that a writer of reput chose the rest.
        facts = json.loads(b"{" + data)
        rows = np.frombuffer(base64.b64decode(facts["rows"]), NOTE_DTYPE)
        topics = map(facts["topics"].__getitem__, rows["topic"].tolist())
        return Noted(list(zip(topics, rows["queue_id"].tolist(), strict=True)), rows, facts["end"])
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        logger.warning("damaged file ignored file=%s error=%s", path, error)
        return Noted()


def save_extents(
    root: str, disk: Disk, extents: dict[tuple[str, int], QueueExtent], kept: Noted
) -> None:
    """Replace the whole note; on disk when this returns.

    Args:
        root: of the store.
        disk: of the store.
        extents: of queues that ``kept`` does not have.
        kept: rows that stay as they were, and where the log ends.

    Raises:
        OSError: the file cannot be written; the note is unchanged.
    """
    topics: dict[str, int] = {}
    keys = [*kept.keys, *extents]
    codes = [topics.setdefault(topic, len(topics)) for topic, _ in keys]
    rows = np.zeros(len(keys), NOTE_DTYPE)
    rows[: len(kept.keys)] = kept.rows
    rows[len(kept.keys) :] = [
        (0, queue_id, each.max_offset, each.record_offset, *each.facts)
        for (_, queue_id), each in extents.items()
    ]
    rows["topic"] = codes
    rows = rows[np.argsort(rows["topic"], kind="stable")]
    path = os.path.join(root, OWN_DIRECTORY, _NAME)
    facts = {
        "end": kept.log_end,
        "topics": list(topics),
        "rows": base64.b64encode(rows.tobytes()).decode(),
    }
    data = json.dumps(facts, separators=(",", ":")).encode()[1:]
    whole = b"%s,%s" % (_HEAD % zlib.crc32(data), data)
    try:
        disk.replace(path, whole)
    except FileNotFoundError:  # the first note of such a directory
        disk.make_directory(os.path.dirname(path), durable=True)
        disk.replace(path, whole)
