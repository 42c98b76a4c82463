"""Where each queue begins and ends for a read: as the caller says, or where a group goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import attrs
import numpy as np

from reput.errors import ConfigError
from reput.record import queue_keys, queue_of_key
from reput_arrow.logs.arrowdisk import disk_of
from reput_arrow.logs.logplace import LEDGER
from reput_tools.offline import read_consumer_offsets

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch
    from reput_arrow.logs.logplace import LogPlace

QueueOffsets: TypeAlias = Mapping[str, Mapping[int, int]]
"""Queue offsets by topic and queue id."""
_EVERYTHING = (0, np.iinfo(np.int64).max)


@attrs.frozen
class QueueBounds:
    """Queue offsets that are wanted, by queue; plain values.

    Only the topics that are named are wanted; a queue of theirs that is not listed is wanted whole.
    """

    starts: QueueOffsets = attrs.field(factory=dict)
    """First one wanted."""
    ends: QueueOffsets = attrs.field(factory=dict)
    """After the last one wanted."""

    @property
    def topics(self) -> frozenset[str]:
        """The named topics."""
        return frozenset({*self.starts, *self.ends})

    def rows(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """Return which rows of a batch are wanted, ``(n,)``."""
        keys = queue_keys(batch.topic_code, batch.queue_id)
        known, numbers = np.unique(keys, return_inverse=True)
        queues = [queue_of_key(key) for key in known.tolist()]
        bounds = [self._range(batch.topics[code], queue_id) for code, queue_id in queues]
        low, high = np.array(bounds or [_EVERYTHING], np.int64).T
        found: npt.NDArray[np.bool_] = (batch.queue_offset >= low[numbers]) & (
            batch.queue_offset < high[numbers]
        )
        return found

    def _range(self, topic: str, queue_id: int) -> tuple[int, int]:
        if topic not in self.starts and topic not in self.ends:
            return 0, 0
        start = self.starts.get(topic, {}).get(queue_id, _EVERYTHING[0])
        return start, self.ends.get(topic, {}).get(queue_id, _EVERYTHING[1])

    @classmethod
    def of_group(cls, group: str, place: LogPlace) -> QueueBounds:
        """Return the offsets from where a consumer group goes on; none where it has no offset.

        Raises:
            ConfigError: the store has no offsets of consumers, or offsets of other groups only.
        """
        disk, root = disk_of(root_of(place))
        committed = read_consumer_offsets(root, disk, lambda text: None)
        starts: dict[str, dict[int, int]] = {}
        for each in committed or ():
            if each.group == group:
                starts.setdefault(each.topic, {})[each.queue_id] = each.queue_offset
        if not starts:
            known = ", ".join(sorted({each.group for each in committed or ()})[:20])
            raise ConfigError(
                "read",
                "group",
                f"{root} has no offset of the group {group!r} in config/consumerOffset.json"
                + (f"; it has those of {known}" if known else ", nor of any other group"),
            )
        return cls(starts)


def root_of(place: LogPlace) -> str:
    """Return the directory of the store that a log belongs to, as it was given: path or URI."""
    head, mark, settings = place.directory.partition("?")
    if place.kind == LEDGER:  # in its data/
        head = os.path.dirname(head)
    return f"{os.path.dirname(head)}{mark}{settings}"
