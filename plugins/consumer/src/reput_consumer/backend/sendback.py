"""`SendBack`: failed messages go to the retry topic, and from there to the dead letters.

Source: RocketMQ ``AbstractSendMessageProcessor#consumerSendMsgBack``.
"""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Final

import attrs

from reput.record import Message
from reput_consumer.backend.deletedfilter import ORIGIN_GROUP, ORIGIN_MESSAGE_ID, RETRY_TOPIC
from reput_consumer.metadata.topicsettings import TopicSettings
from reput_consumer.names import dead_letter_topic, pop_retry_topic, retry_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput.plugin import StoreContext
    from reput.record import MessageView
    from reput_consumer.metadata.subscriptiongroups import GroupSettings, SubscriptionGroups
    from reput_consumer.metadata.topicsettings import Topics

logger = logging.getLogger(__name__)

__all__ = [
    "ORIGIN_GROUP",
    "ORIGIN_MESSAGE_ID",
    "RETRY_TOPIC",
    "SendBack",
]

DELAY: Final = "DELAY"
_WAIT: Final = "WAIT"
_HALF: Final = "TRAN_MSG"
_FIRST_LEVEL: Final = 3
"""The level of a first retry, 10 s by default."""


@attrs.define(eq=False)
class SendBack:
    """Stores copies of failed messages. Thread-safe."""

    context: StoreContext
    groups: SubscriptionGroups
    topics: Topics
    are_retries_late: bool = True
    """False when a copy was found not to be delayed, as the store has no plugin ``schedule``."""

    def store(
        self, group: str, message: MessageView, level: int, max_reconsume_times: int | None
    ) -> str:
        """See `ConsumerBackend.send_back`.

        Raises:
            PutError: the copy cannot be stored.
            OSError: the topic cannot be made.
        """
        settings = self.groups.ensure(group)
        if settings.retry_queue_nums <= 0:
            return "no retry, as retryQueueNums of the group is 0"
        most = settings.retry_max_times if max_reconsume_times is None else max_reconsume_times
        if level < 0 or message.reconsume_times >= most:
            topic, queue_count, level = dead_letter_topic(group), 1, 0
        else:
            topic, queue_count = retry_topic(group), settings.retry_queue_count
            level = level or _FIRST_LEVEL + message.reconsume_times
        self.topics.ensure_for_copies(
            TopicSettings(topic=topic, read_queue_nums=queue_count, write_queue_nums=queue_count)
        )
        copy = _copy(message, topic, random.randrange(queue_count), level)
        receipt = self.context.store.put_many([copy])[0]
        if not level:
            return f"dead letter in {topic}"
        if receipt.topic != topic:
            return f"retry at delay level {level}"
        if self.are_retries_late:
            self.are_retries_late = False
            logger.warning(
                "retries come at once and not after their delay group=%s: the store does not use "
                'the plugin schedule; add it with store.add_plugin("schedule")',
                group,
            )
        return "retry at once"

    def ensure_pop_retry(self, settings: GroupSettings, topic: str) -> None:
        """Have the retry topic of a group that pops, unless the group or the queue has no retries.

        It comes to disk before the first copy is put.

        Raises:
            OSError: the topic cannot be made.
        """
        if topic and settings.retry_queue_nums > 0:
            self.topics.ensure_for_copies(
                TopicSettings(topic=topic, read_queue_nums=1, write_queue_nums=1), soon=True
            )

    def pop_back(self, group: str, message: MessageView, topic: str, failures: int) -> None:
        """Store a copy in the retry topic of a group that pops, to come again at once.

        Args:
            group: the group.
            message: expired, or was refused and has waited for its delay.
            topic: the topic that the group reads.
            failures: how often it has failed beyond what the record says, this time not counted.

        Raises:
            PutError: the copy cannot be stored.
            OSError: the topic cannot be made.
        """
        settings = self.groups.ensure(group)
        if settings.retry_queue_nums <= 0:
            return
        retry = pop_retry_topic(group, topic)
        self.ensure_pop_retry(settings, retry)
        self.topics.save()
        copy = _copy(message, retry, 0, 0, group)
        times = copy.reconsume_times + failures
        self.context.store.put_many([attrs.evolve(copy, reconsume_times=times)])

    def resend(self, group: str, messages: Sequence[MessageView]) -> None:
        """Store copies in the retry topic at once, as of messages that have never failed.

        Raises:
            PutError: the copies cannot be stored; none was.
            OSError: the topic cannot be made.
        """
        copies = []
        for message in messages:
            topic = self._retry_of(group, message)
            self.topics.ensure_for_copies(
                TopicSettings(topic=topic, read_queue_nums=1, write_queue_nums=1)
            )
            popped = group if topic != retry_topic(group) else None
            # It is new, also for a topic that was deleted since the original was put.
            copy = _copy(message, topic, 0, 0, popped, is_new=True)
            copies.append(attrs.evolve(copy, reconsume_times=0))
        self.context.store.put_many(copies)

    def _retry_of(self, group: str, message: MessageView) -> str:
        """Return the retry topic that the group reads: that of pop, if it popped the topic."""
        origin = message.properties.get(RETRY_TOPIC, message.topic)
        try:
            popped = pop_retry_topic(group, origin)
        except ValueError:  # too long together, so the group cannot pop
            return retry_topic(group)
        return retry_topic(group) if self.topics.get(popped) is None else popped


def _copy(
    message: MessageView,
    topic: str,
    queue_id: int,
    level: int,
    group: str | None = None,
    *,
    is_new: bool = False,
) -> Message:
    copy = message.to_message()
    properties = dict(message.properties)
    properties.setdefault(RETRY_TOPIC, message.topic)
    if is_new:
        properties.pop(ORIGIN_MESSAGE_ID, None)
    else:
        properties.setdefault(ORIGIN_MESSAGE_ID, message.msg_id)
    properties[DELAY] = str(level)
    properties[_WAIT] = "false"
    if group is not None:
        properties[ORIGIN_GROUP] = group
    properties.pop(_HALF, None)  # a copy is not a half message, whatever its original was
    return attrs.evolve(
        copy,
        topic=topic,
        queue_id=queue_id,
        properties=properties,
        reconsume_times=message.reconsume_times + 1,
    )
