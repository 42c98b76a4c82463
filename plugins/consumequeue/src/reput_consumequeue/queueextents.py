"""Ends of queues, noted in the store's state file: which queues existed, and how far.

If files of a queue's units are lost, the remaining files do not show it: without this note the
queue would begin again at 0, or too early, while its messages are in the log. An entry counts only
if the log has the message that it names, as the log decides, even after it was restored to an older
state.

A closed store also has the facts of each queue with one file. If the log ends where it ended, and
size and times are the same at the next opening, nobody has changed the queue, and neither its
directory nor its file is read. Times alone do not show it: a power cut may take the last times, but
not the bytes.

The value ``queues`` of the plugin (`reput.plugin.StoreContext.notes`) is a run of parts, of which a
later one counts for its queues. Integers are little-endian:

    0            4           8      8+n    8+n+80*rows
    +------------+-----------+------+------+
    | names size | row count | JSON | rows |
    +------------+-----------+------+------+

The JSON is ``{"end":…,"topics":[name, …]}``; the rows are `NOTE_DTYPE`, those of a topic together.
"""

from __future__ import annotations

import json
import logging
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import numpy as np

from reput_consumequeue.layout import UNIT_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from reput.plugin import StateNotes

    Rows = np.ndarray[tuple[int], np.dtype[np.void]]

logger = logging.getLogger(__name__)

_NAME: Final = "queues"
_SIZES: Final = struct.Struct("<II")
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


@attrs.define(eq=False, repr=False)
class Noted:
    """The whole note: one row for each queue."""

    keys: Sequence[tuple[str, int]] = ()
    """Topic and queue id of each row; those of a topic lie together."""
    rows: Rows = attrs.field(factory=lambda: np.zeros(0, NOTE_DTYPE))
    """``(n,)`` of `NOTE_DTYPE`."""
    log_end: int = -1
    """Where the log ended when the facts of files were noted."""
    is_damaged: bool = False
    """Whether there is a note that cannot be read."""

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


def load_extents(notes: StateNotes) -> Noted:
    """Return what is noted; nothing if that cannot be read."""
    data = notes.read(_NAME)
    try:
        parts = list(_parts(data))
    except (ValueError, TypeError, LookupError, struct.error, RecursionError) as error:
        logger.warning("ends of queues ignored error=%s", error)  # no writer of reput made them
        return Noted(is_damaged=True)
    if len(parts) < 2:
        return parts[0] if parts else Noted()
    every = np.concatenate([part.rows for part in parts])
    places = {key: row for row, key in enumerate(key for part in parts for key in part.keys)}
    keys = sorted(places, key=lambda key: key[0])
    rows = every[[places[key] for key in keys]]
    _number_topics(keys, rows)
    return Noted(keys, rows, parts[-1].log_end)


def _parts(data: bytes) -> Iterator[Noted]:
    position = 0
    while position < len(data):
        size, count = _SIZES.unpack_from(data, position)
        position += _SIZES.size
        facts = json.loads(data[position : position + size])
        position += size
        rows = np.frombuffer(data, NOTE_DTYPE, count, position)
        position += rows.nbytes
        names = facts["topics"]
        if {*map(type, names)} - {str}:
            raise TypeError("names of topics must be texts")
        topics = map(names.__getitem__, rows["topic"].tolist())
        keys = list(zip(topics, rows["queue_id"].tolist(), strict=True))
        yield Noted(keys, rows, facts["end"])


def save_extents(
    notes: StateNotes, extents: dict[tuple[str, int], QueueExtent], kept: Noted, *, adds: bool
) -> None:
    """Note how far queues reach; on disk when this returns.

    Args:
        notes: of the plugin.
        extents: of queues that ``kept`` does not have.
        kept: rows that stay as they were, and where the log ends.
        adds: whether what was noted before of other queues stays, too.

    Raises:
        OSError: the state file cannot be written; the note is unchanged.
    """
    keys = [*kept.keys, *extents]
    rows = np.zeros(len(keys), NOTE_DTYPE)
    rows[: len(kept.keys)] = kept.rows
    rows[len(kept.keys) :] = [
        (0, queue_id, each.max_offset, each.record_offset, *each.facts)
        for (_, queue_id), each in extents.items()
    ]
    topics = _number_topics(keys, rows)
    rows = rows[np.argsort(rows["topic"], kind="stable")]
    facts = {"end": kept.log_end, "topics": list(topics)}
    names = json.dumps(facts, separators=(",", ":")).encode()
    data = b"".join((_SIZES.pack(len(names), len(rows)), names, rows.tobytes()))
    notes.save(_NAME, data, adds=adds)


def _number_topics(keys: Sequence[tuple[str, int]], rows: Rows) -> dict[str, int]:
    topics: dict[str, int] = {}
    rows["topic"] = [topics.setdefault(topic, len(topics)) for topic, _ in keys]
    return topics
