"""The progress of a group in each queue, as a broker reports it (208).

Source: RocketMQ ``AdminBrokerProcessor.getConsumeStats``, ``OffsetWrapper``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput_client.remoting import QueueName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput_consumer import QueueProgress
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.groupregistry import GroupRegistry


def consumption(
    context: BrokerContext, groups: GroupRegistry, group: str, wanted: Iterable[str]
) -> dict[QueueName, dict[str, int]]:
    """Return where a group is in its queues; on a thread that may wait.

    Its topics are those of which it has committed offsets. One that its members, if there are any,
    do not subscribe to is of the past, and one that the broker does not have any more is, too.

    Args:
        context: the broker.
        groups: the connected members.
        group: the group.
        wanted: topics that are wanted; none for all.
    """
    committed = {topic for topic, _ in context.plugin.offsets().get(group, ())}
    topics = committed.intersection(wanted) if wanted else committed
    online = groups.get(group)
    if online is not None and online.subscriptions:
        topics &= online.subscriptions.keys()
    found = {}
    for each in context.plugin.progress(group).queues:
        settings = context.topics.known(each.topic) if each.topic in topics else None
        if settings is not None and each.queue_id < settings.read_queues:
            name = QueueName(each.topic, context.name, each.queue_id)
            found[name] = _members(context, group, each)
    return found


def _members(context: BrokerContext, group: str, queue: QueueProgress) -> dict[str, int]:
    handed_out = context.handed_out.get((group, queue.topic, queue.queue_id), 0)
    return {
        "brokerOffset": queue.max_offset,
        "consumerOffset": queue.offset,
        "lastTimestamp": _last_consumed(context, queue),
        "pullOffset": max(queue.offset, handed_out),
    }


def _last_consumed(context: BrokerContext, queue: QueueProgress) -> int:
    """Return the store time of the message that was consumed last, ms; 0 without one."""
    if queue.offset <= 0:
        return 0
    result = context.store.read(queue.topic, queue.queue_id, queue.offset - 1, 1)
    return result.messages[0].store_timestamp if result.messages else 0
