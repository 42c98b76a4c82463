"""Next queue offsets of a store: counted from its log, past lost messages, above the floors.

The floors are queue offsets below which none is given again, a value of ``reput/state``: JSON lines
``{"<topic>": {"<queue id>": next queue offset}}``, of which the highest number of a queue counts.
If all messages of a queue were removed, the log does not tell the queue's next offset, and derived
files that do may be deleted, damaged, or rebuilt from the log. So next queue offsets are written
here before files of the log are removed; and before a plugin cuts or replaces its files, it writes
here what they say of queues without messages. Floors never fall. They apply whenever next queue
offsets are determined, and whenever queue files are made from the log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.files.jsonfiles import object_of
from reput.log.losses import FILLED
from reput.record.batch import queue_keys, queue_of_key
from reput.record.encoding.lightqueues import inner_counts, stated_number
from reput.record.layout import (
    FILLER_TOPIC,
    LIGHT_QUEUE_PREFIX,
    PROPERTY_LIGHT_QUEUE_OFFSETS,
    PROPERTY_LIGHT_QUEUES,
    TRANSACTION_COMMIT,
)
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from typing import Self

    from reput.log.reader.logreader import LogReader
    from reput.log.statefile import StateFile
    from reput.record.batch import DispatchBatch

logger = logging.getLogger(__name__)

FLOORS: Final = ".floors"
"""Name of the value."""
_INT64_MAX: Final = (1 << 63) - 1
_OFFSET_MAX: Final = 1 << 57  # positions of units in files, in bytes, are 64-bit numbers

Offsets = Mapping[tuple[str, int], int]


class QueueFloors:
    """The floors of one store's queues. Thread-safe.

    Args:
        state: the store's state file; None for floors that are not kept in a file.
        writable: whether `keep` writes the file; if false, it changes this object only.
    """

    def __init__(self, state: StateFile | None = None, *, writable: bool = False) -> None:
        self._state = state
        self._writable = writable
        self._lock = new_lock()  # reentrant, for signal handlers
        self._floors: dict[tuple[str, int], int] | None = None if state else {}

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
        with self._lock:
            known = self.known
            risen = {key: offset for key, offset in offsets.items() if offset > known.get(key, 0)}
            if not risen:
                return
            floors = {**known, **risen}
            if self._writable:
                self._save(risen, floors)
            self._floors = floors

    def _save(self, risen: Offsets, floors: Offsets) -> None:
        assert self._state is not None
        added, whole = _line(risen), _line(floors)
        # Earlier lines of queues that have risen since no longer count.
        adds = len(self._state.value(FLOORS)) + len(added) <= 2 * len(whole)
        self._state.note({FLOORS: added if adds else whole}, adds=adds)

    def _load(self) -> dict[tuple[str, int], int]:
        """Read the floors, as the state file was read last."""
        found: dict[tuple[str, int], int] = {}
        if self._state is None:
            return found
        for line in self._state.value(FLOORS).splitlines():
            try:
                for topic, queues in object_of(line).items():
                    for queue_id, offset in queues.items():
                        key = topic, int(queue_id)
                        found[key] = max(_checked(offset), found.get(key, 0))
            except (ValueError, TypeError, AttributeError) as error:
                # No writer of reput makes it.
                logger.error("floors of queue offsets ignored line=%.200r error=%s", line, error)
        return found


def _line(floors: Offsets) -> bytes:
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, queue_id), offset in floors.items():
        by_topic.setdefault(topic, {})[str(queue_id)] = offset
    return json.dumps(by_topic).encode() + b"\n"


def _checked(offset: object) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= _OFFSET_MAX:
        raise ValueError(f"{offset!r} is not a queue offset")
    return offset


# --------------------------------------------------------------------------- from the log


def count_queue_offsets(log: LogReader, end: int | None = None) -> dict[tuple[str, int], int]:
    """Read the log, up to ``end`` if given; return the next queue offset by (topic, queue id)."""
    found: dict[tuple[str, int], int] = {}
    for batch in log.scan(end=end):
        if len(batch):
            _count(batch, found)
    return found


def skip_lost_offsets(
    offsets: Mapping[tuple[str, int], int], log: LogReader
) -> dict[tuple[str, int], int]:
    """Return ``offsets`` advanced past messages lost at the end of a queue.

    A consumer may have read the lost messages, and would never read new messages at their queue
    offsets. A damaged header may state anything, so a loss counts only if it was the very next
    message of its queue.
    """
    following = dict(offsets)
    losses = log.losses(log.min_physical_offset, log.max_physical_offset)
    for loss in sorted(losses, key=lambda each: each.start_offset):
        if loss.action != FILLED or loss.topic is None or loss.queue_id is None:
            continue
        filler = log.read_message(loss.start_offset)
        key = loss.topic, loss.queue_id
        if filler is None or not filler.topic or not FILLER_TOPIC.startswith(filler.topic):
            continue  # a blank, or the log was cut below it since
        if loss.queue_offset == following.get(key, 0):
            following[key] = loss.queue_offset + 1
    return following


def _count(batch: DispatchBatch, found: dict[tuple[str, int], int]) -> None:
    is_queued = (batch.transaction == 0) | (batch.transaction == TRANSACTION_COMMIT)
    # No checksum covers the queue id; a negative one belongs to no queue.
    counted = np.flatnonzero(is_queued & (batch.queue_id >= 0))
    if len(counted) == 0:
        return
    queue = queue_keys(batch.topic_code[counted], batch.queue_id[counted])
    following = batch.queue_offset[counted] + inner_counts(batch)[counted]
    distinct, group = np.unique(queue, return_inverse=True)
    highest = np.zeros(len(distinct), np.int64)
    np.maximum.at(highest, group, following)
    for value, offset in zip(distinct.tolist(), highest.tolist(), strict=True):
        code, queue_id = queue_of_key(value)
        key = batch.topics[code], queue_id
        found[key] = max(found.get(key, 0), offset)
    listed = batch.text(PROPERTY_LIGHT_QUEUE_OFFSETS)
    for row in np.flatnonzero(listed.present).tolist():  # light queues, which few stores have
        names = (batch.text(PROPERTY_LIGHT_QUEUES)[row] or "").split(",")
        for name, text in zip(names, (listed[row] or "").split(","), strict=False):
            is_light = name.startswith(LIGHT_QUEUE_PREFIX)
            stated = stated_number(text, _INT64_MAX) if is_light else None
            if stated is not None:
                found[name, 0] = max(found.get((name, 0), 0), stated + 1)
