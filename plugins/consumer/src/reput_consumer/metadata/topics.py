"""``config/topics.json``: how many queues each topic has, and what may be done with it.

A store of reput has a topic as soon as a message of it is put; the file is for brokers, and for
topics that are to have queues before their first message.

Source: RocketMQ ``TopicConfigManager`` and ``TopicConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
from attrs.validators import ge, instance_of, le

from reput.files import brokerjson
from reput_consumer.metadata.document import BrokerDocument, section_of

__all__ = ["FILE_NAME", "PERM_READ", "PERM_WRITE", "TopicSettings", "Topics"]

FILE_NAME: Final = "topics.json"
PERM_READ: Final = 4
PERM_WRITE: Final = 2
_TABLE: Final = "topicConfigTable"
_QUEUES_MAX: Final = 65_536


def _queue_count() -> Any:
    return attrs.field(default=4, validator=[instance_of(int), ge(1), le(_QUEUES_MAX)])


@attrs.frozen(kw_only=True)
class TopicSettings:
    """Settings of one topic."""

    topic: str
    read_queue_nums: int = _queue_count()
    write_queue_nums: int = _queue_count()
    perm: int = attrs.field(
        default=PERM_READ | PERM_WRITE, validator=[instance_of(int), ge(0), le(15)]
    )
    """`PERM_READ`, `PERM_WRITE`, 1 (inherited), 8 (priority)."""
    order: bool = False
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    attributes: Mapping[str, str] = attrs.field(factory=dict)
    """Of RocketMQ 5, such as ``cleanup.policy``."""

    @property
    def is_readable(self) -> bool:
        """Whether consumers may read the topic."""
        return bool(self.perm & PERM_READ)

    @property
    def is_writable(self) -> bool:
        """Whether producers may put messages of the topic."""
        return bool(self.perm & PERM_WRITE)


_NAMES: Final = {
    "attributes": "attributes",
    "order": "order",
    "perm": "perm",
    "read_queue_nums": "readQueueNums",
    "topic_filter_type": "topicFilterType",
    "topic_sys_flag": "topicSysFlag",
    "write_queue_nums": "writeQueueNums",
}
_KINDS: Final = {"attributes": dict, "order": bool, "topic_filter_type": str}


@attrs.define(eq=False)
class Topics:
    """The topics that the file knows. Thread-safe."""

    document: BrokerDocument
    _table: dict[str, dict[str, Any]] = attrs.field(init=False, factory=dict)

    def load(self) -> None:
        """Read the file."""
        found = section_of(self.document.read(), _TABLE)
        self._table = {name: entry for name, entry in found.items() if isinstance(entry, dict)}

    def names(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return sorted(self._table)

    def get(self, topic: str) -> TopicSettings | None:
        """Return the settings of a topic; None for one that the file does not know."""
        entry = self._table.get(topic)
        if entry is None:
            return None
        found = {
            name: entry[member]
            for name, member in _NAMES.items()
            if type(entry.get(member)) is _KINDS.get(name, int)
        }
        try:
            return TopicSettings(topic=topic, **found)
        except ValueError:
            return TopicSettings(topic=topic)  # numbers that no broker writes

    def ensure(self, settings: TopicSettings) -> TopicSettings:
        """Return the settings of a topic; one that the file does not know is added as given.

        Raises:
            OSError: the file cannot be written.
        """
        found = self.get(settings.topic)
        return found if found is not None else self.put(settings)

    def put(self, settings: TopicSettings) -> TopicSettings:
        """Add a topic, or change its settings; members that only brokers know are kept.

        Raises:
            OSError: the file cannot be written.
        """
        entry: dict[str, Any] = {}

        def edit(document: dict[str, Any]) -> bool:
            table = section_of(document, _TABLE)
            known = table.get(settings.topic)
            entry.update(known if isinstance(known, dict) else {})
            entry["topicName"] = settings.topic
            entry.update({member: getattr(settings, name) for name, member in _NAMES.items()})
            table[settings.topic] = dict(sorted(entry.items()))
            return known != entry

        with brokerjson.changing():
            self.document.change(edit)
            self._table = {**self._table, settings.topic: entry}
        return settings
