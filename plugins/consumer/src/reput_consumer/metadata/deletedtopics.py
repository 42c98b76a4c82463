"""``reput/consumer/deletedTopics.json``: topics that were deleted, and up to where.

    {
        "dataVersion":{
            "counter":1,
            "stateVersion":0,
            "timestamp":1700000000000
        },
        "offsetTable":{
            "orders":{0:12,1:10
            }
        }
    }

The log keeps the messages of a deleted topic until their files are removed, and queues follow from
the log. So what deletes a topic is a note: groups and brokers see no message of a queue below the
queue offset that the note has of it. Later messages go on at that offset.

RocketMQ (``ConsumeQueueStore#deleteTopics``) removes the queues' files instead, and begins at 0
again, so that an offset means two messages; and files that are recovered from the log hold both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from reput_tools.brokerfiles import (
    BareKey,
    BrokerDocument,
    changing,
    offsets_of,
    section_of,
    table_of,
)

__all__ = ["FILE_NAME", "DeletedTopics"]

FILE_NAME: Final = "deletedTopics.json"
_TABLE: Final = "offsetTable"
_QUEUES: Final = range(1 << 31)


@attrs.define(eq=False)
class DeletedTopics:
    """The notes of all deleted topics. Thread-safe: a change replaces the table."""

    document: BrokerDocument
    _floors: dict[str, dict[int, int]] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.document.check = _floors_of

    def load(self) -> None:
        """Read the file."""
        self._floors = _floors_of(self.document.read())

    def require(self) -> None:
        """See `SettingsTable.require`; messages of deleted topics would be seen."""
        if self.document.problem is not None:
            self.load()
            self.document.require()

    def __contains__(self, topic: object) -> bool:
        return topic in self._floors

    def names(self) -> list[str]:
        """Return the topics that were ever deleted, sorted."""
        return sorted(self._floors)

    def floor(self, topic: str, queue_id: int) -> int:
        """Return the first queue offset that may be seen; 0 unless the topic was deleted."""
        queues = self._floors.get(topic)
        return 0 if queues is None else queues.get(queue_id, 0)

    def hides(self, topic: str, queue_id: int, max_queue_offset: int) -> bool:
        """Whether a queue that ends there has come to nothing since its topic was deleted."""
        queues = self._floors.get(topic)
        return queues is not None and max_queue_offset <= queues.get(queue_id, 0)

    def note(self, topic: str, floors: Mapping[int, int]) -> None:
        """Note that a topic was deleted; durable when this returns.

        Args:
            topic: its name.
            floors: by queue id, the queue offset of the next message.

        Raises:
            OSError: the file cannot be written.
        """
        merged = {**self._floors.get(topic, {}), **floors}

        def edit(document: dict[str, Any]) -> bool:
            entry = {BareKey(each): merged[each] for each in sorted(merged)}
            table = section_of(document, _TABLE)
            is_changed = table.get(topic) != entry
            table[topic] = entry
            return is_changed

        with changing():
            self.document.change(edit)
            self._floors = {**self._floors, topic: merged}

    def forget(self, topics: set[str]) -> None:
        """Drop the notes of topics of which the store has no queue any more.

        Raises:
            OSError: the file cannot be written.
        """

        def edit(document: dict[str, Any]) -> bool:
            table = section_of(document, _TABLE)
            gone = topics & table.keys()
            for each in gone:
                del table[each]
            return bool(gone)

        with changing():
            self.document.change(edit)
            self._floors = {key: each for key, each in self._floors.items() if key not in topics}


def _floors_of(document: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """Return the offsets of all queues.

    Raises:
        ValueError: the document has something else there.
    """
    found = table_of(document, _TABLE)
    return {topic: offsets_of(queues, topic, _QUEUES) for topic, queues in found.items()}
