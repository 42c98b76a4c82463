"""What a send has to pass before it is stored: the topic, its queue, and who may.

Source: RocketMQ ``AbstractSendMessageProcessor.msgCheck``, ``SendMessageProcessor``.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from reput_client.remoting import ResponseCode, TopicSettings
from reput_consumer import GroupSettings, checked_topic
from reput_server.broker.litenames import is_lite
from reput_server.broker.topictable import (
    DEAD_LETTER_PREFIX,
    INHERIT,
    READ,
    RETRY_PREFIX,
    WRITE,
)
from reput_server.errors import Refusal
from reput_tools.offline import FORBIDDEN_TOPICS, TEMPLATE_TOPIC

if TYPE_CHECKING:
    from reput import Message
    from reput_client.remoting import Send
    from reput_server.broker.brokercontext import BrokerContext

_RETRIES_TOLD_FROM: Final = 121
"""The number of release 3.4.9, from which a request's limit of retries counts."""


def checked_destination(context: BrokerContext, send: Send) -> tuple[str, int]:
    """Return topic and queue id of a send; the topic may be created.

    Raises:
        Refusal: the send may not be stored.
        OSError: the topic cannot be made.
    """
    try:
        checked_topic(send.topic)
    except ValueError as error:
        raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
    if send.topic in FORBIDDEN_TOPICS:
        text = f"Sending message to topic[{send.topic}] is forbidden."
        raise Refusal(ResponseCode.NO_PERMISSION, text)
    topic = context.topics.find(send.topic) or _made(context, send)
    if topic.is_ordered and not context.options.permissions & WRITE:
        # Others are only taken from routes, so that producers leave without an error.
        text = f"the broker[{context.address[0]}] sending message is forbidden"
        raise Refusal(ResponseCode.NO_PERMISSION, text)
    if not topic.permissions & WRITE:
        text = f"the broker[{context.address[0]}] sending message to {send.topic} is forbidden"
        raise Refusal(ResponseCode.NO_PERMISSION, text)
    most = max(topic.read_queues, topic.write_queues)
    if send.queue_id >= most:
        text = (
            f"request queueId[{send.queue_id}] is illegal, topic {send.topic} has {most} queues, "
            f"producer: {send.producer_group}"
        )
        raise Refusal(ResponseCode.INVALID_PARAMETER, text)
    queue_id = send.queue_id
    return send.topic, random.randrange(topic.write_queues) if queue_id < 0 else queue_id


def check_light_queues(context: BrokerContext, topic: str) -> None:
    """Refuse a message of a lite topic which nobody could read.

    Raises:
        Refusal: the store has no light queues.
    """
    if context.store.config.max_light_queues == 0 and is_lite(context.topics.known(topic)):
        text = "lite topics need light queues, and max_light_queues of [commitlog] is 0"
        raise Refusal(ResponseCode.LMQ_QUOTA_EXCEEDED, text)


def check_times(context: BrokerContext, messages: Sequence[Message]) -> None:
    """Refuse timed messages that are due later than the server's limit allows.

    Half messages are refused here, too: their producer learns it before it commits them.

    Raises:
        PutError: a delivery time is not a number.
        Refusal: a delivery time is too far ahead.
    """
    plugin: Any = context.store.plugin_objects.get("schedule")
    if plugin is None:
        return
    for message in messages:
        if (at := plugin.asked_time(message)) is not None:
            check_time(context, at)


def check_time(context: BrokerContext, deliver_timestamp: int) -> None:
    """Refuse a delivery time, ms, that is too far ahead.

    Source: RocketMQ ``HookUtils#transformTimerMessage``, and the text of ``SendMessageProcessor``.

    Raises:
        Refusal: it is later than the server's limit allows.
    """
    seconds = context.config.limits.timer_delay_seconds
    ahead = deliver_timestamp - context.plugin.port.context.clock()  # by which it is parked
    if ahead > seconds * 1_000:
        text = (
            f"timer message illegal, the delay time should not be bigger than the max delay "
            f"{seconds * 1_000}ms (timerMaxDelaySec={seconds}); it is {ahead}ms"
        )
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, text)


def _made(context: BrokerContext, send: Send) -> TopicSettings:
    template = context.topics.known(send.default_topic or TEMPLATE_TOPIC)
    if not context.config.creates_topics or template is None or not template.permissions & INHERIT:
        if send.topic.startswith(RETRY_PREFIX):
            settings = TopicSettings(topic=send.topic, read_queues=1, write_queues=1)
            return context.topics.ensure(settings)
        text = f"topic[{send.topic}] not exist, apply first please!"
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, text)
    count = max(1, min(send.default_topic_queue_nums, template.write_queues))
    settings = TopicSettings(
        topic=send.topic,
        read_queues=count,
        write_queues=count,
        permissions=template.permissions & ~INHERIT,
    )
    return context.topics.ensure(settings)


def destination_of_retry(
    context: BrokerContext, send: Send, version: int
) -> tuple[str, int] | None:
    """Return where a message goes that came back to its retry topic too often; None if it may.

    Raises:
        Refusal: the group does not exist.
        OSError: the topic of dead letters cannot be made.
    """
    group = send.topic.removeprefix(RETRY_PREFIX)
    settings = context.group(group)
    if (send.reconsume_times or 0) <= _most_retries(settings, send, version):
        return None
    topic = DEAD_LETTER_PREFIX + group
    context.topics.ensure(
        TopicSettings(topic=topic, read_queues=1, write_queues=1, permissions=READ | WRITE)
    )
    return topic, 0


def _most_retries(settings: GroupSettings, send: Send, version: int) -> int:
    if version >= _RETRIES_TOLD_FROM and send.max_reconsume_times is not None:
        return send.max_reconsume_times
    return settings.retry_max_times
