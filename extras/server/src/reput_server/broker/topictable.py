"""`TopicTable`: the topics of a broker, from its file and from the store.

Source: RocketMQ ``TopicConfigManager``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

import reput_consumer
from reput_client.remoting import TopicSettings
from reput_server.broker.litenames import LITE_PREFIX
from reput_tools.offline import TEMPLATE_TOPIC

if TYPE_CHECKING:
    from reput import Store
    from reput_consumer import ConsumerPlugin
    from reput_server.broker.liveoptions import LiveOptions

READ: Final = 4
WRITE: Final = 2
INHERIT: Final = 1
RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
_QUEUES: Final = "consumequeue"
_DISPATCH_SECONDS: Final = 20.0
_LOOK_AGAIN_MS: Final = 1_000


@attrs.define(eq=False, repr=False)
class TopicTable:
    """Topics by name. Read on threads that may wait."""

    store: Store
    plugin: ConsumerPlugin
    clock: Callable[[], int]
    options: LiveOptions
    is_writable: bool = True
    built_in: Mapping[str, TopicSettings] = attrs.field(factory=dict)
    """Topics that are there from the beginning."""
    _changed: Callable[[], object] = attrs.field(init=False, default=lambda: None)
    _made: dict[str, tuple[object, TopicSettings]] = attrs.field(init=False, factory=dict)
    """By topic: settings in the broker's file, which are another object once they have changed, and
    what was made of them."""
    _observed: dict[str, int] = attrs.field(init=False, factory=dict)
    """How many queues the store has of each topic."""
    _observed_at: tuple[int, int] = attrs.field(init=False, default=(-1, 0))
    """The log's end when the store was last looked at, and when that was, ms."""
    _looking: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    """Held while the store is looked at, so that no look of before brings back what is deleted."""

    def watch(self, changed: Callable[[], object]) -> None:
        """Have ``changed`` called, on any thread, when there are other topics or settings."""
        self._changed = changed
        self.plugin.topics.watch(changed)

    @property
    def creates_topics(self) -> bool:
        """Whether a send creates a topic that does not exist."""
        return self.is_writable and self.options.config.creates_topics

    def all(self) -> Mapping[str, TopicSettings]:
        """Return all topics by name, as far as was looked."""
        names = {*self._observed, *self.plugin.topics.names(), *self.built_in}
        return {name: each for name in sorted(names) if (each := self.known(name)) is not None}

    def known(self, topic: str) -> TopicSettings | None:
        """Return a topic of the broker's file, or one seen in the store before; reads no disk."""
        settings = self.plugin.topics.get(topic)
        made = self._made.get(topic)
        if made is not None and made[0] is settings:
            return made[1]
        if settings is not None:
            made = self._made[topic] = settings, _settings_of(topic, settings)
            return made[1]
        self._made.pop(topic, None)
        if topic in self.built_in and (topic != TEMPLATE_TOPIC or self.creates_topics):
            return self.built_in[topic]
        count = self._observed.get(topic)
        if count is not None:
            return TopicSettings(topic=topic, read_queues=count, write_queues=count)
        return None

    def has_batch_queues(self, topic: str) -> bool:
        """Whether a topic of the broker's file has batch queues; reads no disk."""
        settings = self.plugin.topics.get(topic)
        return settings is not None and settings.has_batch_queues

    def find(self, topic: str, *, looks_again: bool = False) -> TopicSettings | None:
        """Return a topic; None if neither the broker's file nor the store has it.

        Args:
            topic: its name.
            looks_again: whether to see which queues the store has by now, if the topic is known.
        """
        found = self.known(topic)
        if found is None or looks_again:
            self.look()
            found = self.known(topic)
        return found

    def look(self) -> None:
        """See which topics the store has by now, unless that was done since the last put."""
        with self._looking:
            self._look()

    def _look(self) -> None:
        end, now = self.store.log.max_physical_offset, self.clock()
        # The last messages may not have been in their queues yet.
        if self._observed_at[0] == end and 0 <= now - self._observed_at[1] < _LOOK_AGAIN_MS:
            return
        self._observed_at = end, now
        found: dict[str, int] = {}
        hides = self.plugin.deleted.hides
        for queue in self.store.queues():
            if queue.topic.startswith(LITE_PREFIX):
                continue  # their parent is the topic
            if hides(queue.topic, queue.queue_id, queue.max_queue_offset):
                continue
            found[queue.topic] = max(found.get(queue.topic, 0), queue.queue_id + 1)
        if found != self._observed:
            self._observed = found
            self._changed()

    def put(self, settings: TopicSettings) -> TopicSettings:
        """Add a topic, or change it.

        Raises:
            OSError: the broker's file cannot be written.
            ValueError: a number that no topic has.
        """
        self.put_many([settings])
        return settings

    def put_many(self, many: Iterable[TopicSettings]) -> None:
        """Add topics, or change them; all or none.

        Raises:
            OSError: the broker's file cannot be written.
            ValueError: a number that no topic has, or batch queues for a topic with plain ones.
        """
        many = list(many)
        self._check_kinds(many)
        self.plugin.topics.put_many(
            [
                reput_consumer.TopicSettings(
                    topic=settings.topic,
                    read_queue_nums=settings.read_queues,
                    write_queue_nums=settings.write_queues,
                    perm=settings.permissions,
                    order=settings.is_ordered,
                    topic_filter_type=settings.filter_type,
                    topic_sys_flag=settings.sys_flag,
                    attributes=settings.attributes,
                )
                for settings in many
            ]
        )

    def _check_kinds(self, many: Iterable[TopicSettings]) -> None:
        """Refuse batch queues for a topic that has plain ones, also if it was deleted since."""
        new = {each.topic for each in many if each.attributes.get("queue.type") == "BatchCQ"}
        new = {topic for topic in new if not self.has_batch_queues(topic)}
        if new:
            self.store.wait_dispatched(_DISPATCH_SECONDS, plugins=[_QUEUES])
            for queue in self.store.queues():
                if queue.topic in new:
                    raise ValueError(f"queue.type: topic {queue.topic} has plain queues already")

    def delete(self, topic: str) -> bool:
        """Delete a topic; return whether there was one.

        Raises:
            ReputError: the log cannot be flushed.
            OSError: a file cannot be written.
        """
        # Messages that are in no queue yet would count as put later.
        self.store.wait_dispatched(_DISPATCH_SECONDS, plugins=[_QUEUES])
        with self._looking:
            was_there = self.plugin.delete_topic(topic)
            self._observed = {key: each for key, each in self._observed.items() if key != topic}
            self._observed_at = -1, 0
        return was_there

    def ensure(self, settings: TopicSettings) -> TopicSettings:
        """Return a topic; if it does not exist, it is added as given.

        Raises:
            OSError: the broker's file cannot be written.
        """
        found = self.known(settings.topic)
        return self.put(settings) if found is None else found


def _settings_of(topic: str, settings: reput_consumer.TopicSettings) -> TopicSettings:
    return TopicSettings(
        topic=topic,
        read_queues=settings.read_queue_nums,
        write_queues=settings.write_queue_nums,
        permissions=settings.perm,
        filter_type=settings.topic_filter_type,
        sys_flag=settings.topic_sys_flag,
        is_ordered=settings.order,
        attributes=settings.attributes,
    )
