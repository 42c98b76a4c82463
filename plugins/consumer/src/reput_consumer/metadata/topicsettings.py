"""``config/topics.json``: how many queues each topic has, and what may be done with it.

A store of reput has a topic as soon as a message of it is put; the file is for brokers, and for
topics that are to have queues before their first message. A broker serves no topic that is not in
it, so topics of which groups have offsets are added.

Source: RocketMQ ``TopicConfigManager`` and ``TopicConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs

from reput.plugin import integer_between
from reput_consumer.metadata.settingstable import SettingsTable
from reput_consumer.names import checked_topic, is_topic

FILE_NAME: Final = "topics.json"
PERM_READ: Final = 4
PERM_WRITE: Final = 2
QUEUES_MAX: Final = 65_536


def _queue_count() -> Any:
    return attrs.field(default=4, validator=integer_between(1, QUEUES_MAX))


@attrs.frozen(kw_only=True)
class TopicSettings:
    """Settings of one topic."""

    topic: str
    read_queue_nums: int = _queue_count()
    write_queue_nums: int = _queue_count()
    perm: int = attrs.field(default=PERM_READ | PERM_WRITE, validator=integer_between(0, 15))
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

    @property
    def has_batch_queues(self) -> bool:
        """Whether a record of the topic may hold several messages."""
        return self.attributes.get("queue.type") == "BatchCQ"

    @property
    def is_prioritized(self) -> bool:
        """Whether the queue of a message is its priority, which pop takes from the highest on."""
        return str(self.attributes.get("message.type", "")).upper() == "PRIORITY"


@attrs.define(eq=False, repr=False)
class Topics(SettingsTable[TopicSettings]):
    """The topics that the file knows. Thread-safe."""

    takes_copies: bool = True
    """Whether copies of failed messages can be put; not in a replica."""
    default_queue_count: int = 1
    """Queues, at least, of a topic that is added because a group reads it."""

    table_name = "topicConfigTable"
    name_field = "topic", "topicName"
    check_name = staticmethod(checked_topic)
    fields: ClassVar = {
        "attributes": ("attributes", dict),
        "order": ("order", bool),
        "perm": ("perm", int),
        "read_queue_nums": ("readQueueNums", int),
        "topic_filter_type": ("topicFilterType", str),
        "topic_sys_flag": ("topicSysFlag", int),
        "write_queue_nums": ("writeQueueNums", int),
    }

    def settings_of(self, name: str, found: Mapping[str, Any]) -> TopicSettings:
        """See `SettingsTable.settings_of`."""
        return TopicSettings(topic=name, **found)

    def ensure(self, settings: TopicSettings) -> TopicSettings:
        """Return the settings of a topic; one that the file does not know is added as given.

        Raises:
            OSError: the file cannot be written.
        """
        found = self.get(settings.topic)
        return found if found is not None else self.put(settings)

    def ensure_for_copies(self, settings: TopicSettings, *, soon: bool = False) -> None:
        """Have a topic for copies of failed messages, unless they cannot be put.

        A topic that has fewer queues grows: copies come to all queues that are given here.

        Args:
            settings: the topic.
            soon: whether one that is added may come to disk later; see `SettingsTable.put_soon`.

        Raises:
            OSError: the file cannot be written.
        """
        if not self.takes_copies:
            return
        found = self.get(settings.topic)
        if found is None:
            found = self.put_soon(settings) if soon else self.put(settings)
        read = max(found.read_queue_nums, settings.read_queue_nums)
        write = max(found.write_queue_nums, settings.write_queue_nums)
        if (read, write) != (found.read_queue_nums, found.write_queue_nums):
            self.put(attrs.evolve(found, read_queue_nums=read, write_queue_nums=write))

    def write_queue_counts(self) -> dict[str, int]:
        """Return the number of queues of each topic that producers put to."""
        member, _ = self.fields["write_queue_nums"]
        counts: dict[str, int] = {}
        for name, entry in self.entries.items():
            count = entry.get(member)
            if type(count) is int and 1 <= count <= QUEUES_MAX:
                counts[name] = count
            elif (settings := self.get(name)) is not None:  # spelled or written in another way
                counts[name] = settings.write_queue_nums
        return counts

    def grow(self, counts: Mapping[str, int]) -> None:
        """Have topics of the file with so many queues to read at least.

        Args:
            counts: queues by topic. More than a broker can have are left out.

        Raises:
            OSError: the file cannot be written.
        """
        grown = [
            attrs.evolve(found, read_queue_nums=count)
            for topic, count in counts.items()
            if (found := self.get(topic)) is not None
            and found.read_queue_nums < count <= QUEUES_MAX
        ]
        if grown:
            self.put_many(grown)

    def cover(self, counts: Mapping[str, int]) -> None:
        """Have topics with so many queues at least, so that a broker serves what groups read.

        Args:
            counts: queues by topic. More than a broker can have are left out, and texts that
                cannot be a topic.

        Raises:
            OSError: the file cannot be written.
        """
        grown = []
        for topic, count in counts.items():
            found = self.get(topic)
            if count > QUEUES_MAX or (found is not None and found.read_queue_nums >= count):
                continue
            if found is None:
                if not is_topic(topic):
                    continue
                number = self.default_queue_count
                found = TopicSettings(topic=topic, read_queue_nums=number, write_queue_nums=number)
            read = max(found.read_queue_nums, count)
            write = max(found.write_queue_nums, count)
            grown.append(attrs.evolve(found, read_queue_nums=read, write_queue_nums=write))
        if grown:
            self.put_many(grown)
