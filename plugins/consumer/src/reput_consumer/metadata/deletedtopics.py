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
        },
        "positionTable":{
            "orders":1048576
        }
    }

The log keeps the messages of a deleted topic until their files are removed, and queues follow from
the log. So what deletes a topic is a note: groups and brokers see no message of a queue below the
queue offset that the note has of it. Later messages go on at that offset.

The note also has the end of the log at the deletion. Messages before it may come to their queue
later, which then begins after them; and copies of them may come later, to retry topics: copies say
where their original is, and of which group they are. For a deleted group there is a note of its
retry topic.

RocketMQ (``ConsumeQueueStore#deleteTopics``) removes the queues' files instead, and begins at 0
again, so that an offset means two messages; and files that are recovered from the log hold both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from reput_consumer.names import LIGHT_PREFIX
from reput_tools.brokerfiles import (
    BareKey,
    BrokerDocument,
    changing,
    offset_of,
    offsets_of,
    section_of,
    table_of,
)

FILE_NAME: Final = "deletedTopics.json"
_TABLE: Final = "offsetTable"
_POSITIONS: Final = "positionTable"
_QUEUES: Final = range(1 << 31)
_LITE_PREFIX: Final = f"{LIGHT_PREFIX}$"
"""Before the parent of a lite topic, in the name of its light queue."""


@attrs.define(eq=False, repr=False)
class DeletedTopics:
    """The notes of all deleted topics. Thread-safe: a change replaces the table."""

    document: BrokerDocument
    settle: Callable[[str, int, int, int], tuple[int, bool]] = lambda topic, queue_id, floor, to: (
        floor,
        False,
    )
    """Returns the queue offset of the first message of a queue, from a floor on, that is at a
    physical offset or after it; and whether that is final, as no message before it can come."""
    hide_light: Callable[[Mapping[str, int]], None] = lambda floors: None
    """Gets the floors of all deleted light queues when they change."""
    _floors: dict[str, dict[int, int]] = attrs.field(init=False, factory=dict)
    _positions: dict[str, int] = attrs.field(init=False, factory=dict)
    """By topic: the end of the log when the topic was deleted."""
    _settled: set[tuple[str, int]] = attrs.field(init=False, factory=set)
    """Queues whose floors are final."""
    _lite_floors: dict[str, dict[int, int]] = attrs.field(init=False, factory=dict)
    """Floors of lite topics without a note, which follow from the position of their parent."""

    def __attrs_post_init__(self) -> None:
        self.document.check = _check

    def load(self) -> None:
        """Read the file."""
        document = self.document.read()
        self._floors, self._positions = _floors_of(document), _positions_of(document)
        self._settled = set()
        self._lite_floors = {}
        self._hide_light()

    def _hide_light(self) -> None:
        floors = self._floors.items()
        self.hide_light(
            {name: at[0] for name, at in floors if name.startswith(LIGHT_PREFIX) and 0 in at}
        )

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

    @property
    def positions(self) -> Mapping[str, int]:
        """The end of the log at the deletion, by topic; another object once that has changed."""
        return self._positions

    def floor(self, topic: str, queue_id: int) -> int:
        """Return the first queue offset that may be seen; 0 unless the topic was deleted."""
        queues, position = self._floors.get(topic), self._positions.get(topic)
        if queues is None:
            # A lite topic that was in no queue when its parent was deleted has no note.
            position = self._positions.get(_parent_of(topic))
            if position is None:
                return 0
            queues = self._lite_floors.setdefault(topic, {})
        floor = queues.get(queue_id, 0)
        if position is None or (topic, queue_id) in self._settled:
            return floor
        # Messages that were in no queue yet at the deletion are in front of the others.
        found, is_final = self.settle(topic, queue_id, floor, position)
        if found > floor:
            queues[queue_id] = found  # in memory: it follows from the position again
        if is_final:
            self._settled.add((topic, queue_id))
        return found

    def hides(self, topic: str, queue_id: int, max_queue_offset: int) -> bool:
        """Whether a queue that ends there has come to nothing since its topic was deleted."""
        is_deleted = topic in self._floors or _parent_of(topic) in self._positions
        return is_deleted and max_queue_offset <= self.floor(topic, queue_id)

    def note(self, topic: str, floors: Mapping[int, int], position: int | None = None) -> None:
        """Note that a topic was deleted; durable when this returns.

        Args:
            topic: its name.
            floors: by queue id, the queue offset of the next message.
            position: the end of the log, if messages before it are to be hidden that come to their
                queue later, and their copies.

        Raises:
            OSError: the file cannot be written.
        """
        self.note_all({topic: floors}, position)

    def note_all(
        self, floors: Mapping[str, Mapping[int, int]], position: int | None = None
    ) -> None:
        """Note that topics were deleted, by one change of the file: see `note`."""
        merged = {topic: {**self._floors.get(topic, {}), **floors[topic]} for topic in floors}

        def edit(document: dict[str, Any]) -> bool:
            is_changed = self._fill(document) | _put(document, merged)
            for topic in merged if position is not None else ():
                positions = section_of(document, _POSITIONS)
                is_changed |= positions.get(topic) != position
                positions[topic] = position
            return is_changed

        with changing():
            self.document.change(edit)
            self._floors = {**self._floors, **merged}
            if position is not None:
                self._positions = {**self._positions, **dict.fromkeys(merged, position)}
                self._settled = {
                    each
                    for each in self._settled
                    if each[0] not in merged and _parent_of(each[0]) not in merged
                }
            self._hide_light()

    def forget(self, topics: set[str]) -> None:
        """Drop the notes of topics of which the store has no queue any more.

        Raises:
            OSError: the file cannot be written.
        """

        def edit(document: dict[str, Any]) -> bool:
            is_changed = self._fill(document)
            table = section_of(document, _TABLE)
            gone = topics & table.keys()
            for each in gone:
                del table[each]
                section_of(document, _POSITIONS).pop(each, None)
            return is_changed or bool(gone)

        with changing():
            self.document.change(edit)
            self._floors = {key: each for key, each in self._floors.items() if key not in topics}
            self._positions = {
                key: each for key, each in self._positions.items() if key not in topics
            }
            self._hide_light()

    def _fill(self, document: dict[str, Any]) -> bool:
        """Complete a document that may be older than what is known here, as `SettingsTable` does.

        Without its note, a deleted topic would be seen again when the store is opened.
        """
        if not self.document.is_behind:
            return False
        is_changed = _put(document, self._floors)
        if self._positions:
            section_of(document, _POSITIONS).update(self._positions)
        return is_changed or bool(self._positions)


def _put(document: dict[str, Any], floors: Mapping[str, Mapping[int, int]]) -> bool:
    """Set floors in the file's document; return whether that changed anything."""
    table, is_changed = section_of(document, _TABLE), False
    for topic, queues in floors.items():
        entry = {BareKey(each): queues[each] for each in sorted(queues)}
        is_changed |= table.get(topic) != entry
        table[topic] = entry
    return is_changed


def _parent_of(topic: str) -> str:
    """Return the parent of a lite topic; an empty text for another topic."""
    if not topic.startswith(_LITE_PREFIX):
        return ""
    return topic.removeprefix(_LITE_PREFIX).partition("$")[0]


def _check(document: Mapping[str, Any]) -> None:
    _floors_of(document)
    _positions_of(document)


def _positions_of(document: Mapping[str, Any]) -> dict[str, int]:
    found = table_of(document, _POSITIONS)
    return {topic: offset_of(value, topic) for topic, value in found.items()}


def _floors_of(document: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """Return the offsets of all queues.

    Raises:
        ValueError: the document has something else there.
    """
    found = table_of(document, _TABLE)
    return {topic: offsets_of(queues, topic, _QUEUES) for topic, queues in found.items()}
