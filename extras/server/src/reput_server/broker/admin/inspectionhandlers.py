"""Answers operators who look into queues and into what groups read (43, 303, 308, 321, 343, 345).

Source: RocketMQ ``AdminBrokerProcessor``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import (
    Command,
    ConsumeTimesOf,
    CorrectionOf,
    GroupNamed,
    QueueEntries,
    RequestCode,
    ResponseCode,
    write_body,
)
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_consumer import MessageQueue
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.groupregistry import GroupRegistry
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_ENTRIES_MAX: Final = 1_024
_BYTES_MAX: Final = 8 << 20
_LONG_MAX: Final = (1 << 63) - 1
_NEVER: Final = -1


@attrs.frozen(eq=False)
class InspectionHandlers:
    """The requests that only look."""

    context: BrokerContext
    groups: GroupRegistry

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.offsets,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.times,
            RequestCode.QUERY_CORRECTION_OFFSET: self.corrections,
            RequestCode.QUERY_CONSUME_QUEUE: self.entries,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.topics_of,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self.subscription,
        }

    async def offsets(self, request: Request) -> Command:
        """Answer the offsets of all groups, as the broker's file has them."""
        table: dict[str, dict[int, int]] = {}
        known = self.context.plugin.port.offsets
        for group in known.groups():
            for (topic, queue_id), offset in sorted(known.of_group(group).items()):
                table.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        body = write_body({"dataVersion": self.context.data_version(), "offsetTable": table})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    # ------------------------------------------------------------------ times

    async def times(self, request: Request) -> Command:
        """Answer from when the messages are that a topic has, and that a group has read."""
        asked: ConsumeTimesOf = request.command.header(ConsumeTimesOf)
        topic = await self.context.run(self.context.topics.find, asked.topic)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist")
        queues = [self.context.queue(asked.topic, each) for each in range(topic.write_queues)]
        found = [await self.context.run(self._times, asked.group, queue) for queue in queues]
        body = write_body({"consumeTimeSpanSet": found})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def _times(self, group: str, queue: MessageQueue) -> dict[str, object]:
        port = self.context.plugin.port
        low, high = port.bounds(queue)
        first = self._stored_at(queue, low)
        offset = port.committed(group, queue)
        following = low if offset is None else max(offset, low)
        times = {
            "consumeTimeStamp": first
            if following <= low
            else self._stored_at(queue, following - 1),
            "maxTimeStamp": self._stored_at(queue, high - 1),
            "minTimeStamp": first,
        }
        is_behind = following < high
        return {
            **times,
            **{f"{name}Str": _time_text(each) for name, each in times.items()},
            "delayTime": self.context.clock() - self._stored_at(queue, following)
            if is_behind
            else 0,
            "messageQueue": _members(queue),
        }

    def _stored_at(self, queue: MessageQueue, offset: int) -> int:
        """Return when the message at an offset was stored, ms; -1 without one."""
        if offset < 0:
            return _NEVER
        found = self.context.plugin.port.read(queue.topic, queue.queue_id, offset, 1).messages
        return found[0].store_timestamp if found else _NEVER

    # ------------------------------------------------------------------ offsets

    async def corrections(self, request: Request) -> Command:
        """Answer the smallest offset that any group has of each queue of a topic.

        Unlike RocketMQ's, which drops the offsets of the groups that are to be left out.
        """
        asked: CorrectionOf = request.command.header(CorrectionOf)
        found = await self.context.run(self._corrections, asked)
        body = write_body({"correctionOffsets": found})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def _corrections(self, asked: CorrectionOf) -> dict[int, int]:
        port = self.context.plugin.port
        left_out = set(filter(None, (asked.filter_groups or "").split(",")))
        smallest: dict[int, int] = {}
        for group in port.offsets.groups_of(asked.topic):
            if group in left_out:
                continue
            for queue_id, offset in self._offsets_of(group, asked.topic).items():
                low, _ = port.bounds(self.context.queue(asked.topic, queue_id))
                if offset >= low:
                    smallest[queue_id] = min(offset, smallest.get(queue_id, _LONG_MAX))
        compared = self._offsets_of(asked.compare_group, asked.topic)
        for queue_id, offset in compared.items():
            # The group is behind all others: nothing needs to be corrected.
            if smallest.get(queue_id, _LONG_MAX) > offset:
                smallest[queue_id] = _LONG_MAX
        return dict(sorted(smallest.items()))

    def _offsets_of(self, group: str, topic: str) -> dict[int, int]:
        found = self.context.plugin.port.offsets.of_group(group)
        return {queue_id: offset for (name, queue_id), offset in found.items() if name == topic}

    # ------------------------------------------------------------------ entries of queues

    async def entries(self, request: Request) -> Command:
        """Answer which messages a queue leads to, and where they are in the log."""
        asked: QueueEntries = request.command.header(QueueEntries)
        body = await self.context.run(self._entries, asked)
        if asked.consumer_group is not None:
            group = self.groups.get(asked.consumer_group)
            found = None if group is None else group.subscription(asked.topic)
            if found is None:
                text = f"{asked.consumer_group}@{asked.topic} is not online!"
                body["filterData"] = text
            else:
                body["subscriptionData"] = found.members()
                body["filterData"] = "null"
        return request.command.answer(ResponseCode.SUCCESS, body=write_body(body))

    def _entries(self, asked: QueueEntries) -> dict[str, object]:
        queues = self.context.store.queues()
        if not any((each.topic, each.queue_id) == (asked.topic, asked.queue_id) for each in queues):
            text = f"{asked.queue_id}@{asked.topic} is not exist!"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        count = max(1, min(asked.count, _ENTRIES_MAX))
        key = asked.topic, asked.queue_id
        result = self.context.plugin.port.read(*key, max(asked.index, 0), count, _BYTES_MAX)
        return {
            "maxQueueIndex": result.max_queue_offset,
            "minQueueIndex": result.min_queue_offset,
            "queueData": [
                {
                    "eval": False,
                    "physicOffset": each.physical_offset,
                    "physicSize": each.size,
                    "tagsCode": each.tags_code,
                }
                for each in result.messages
            ],
        }

    # ------------------------------------------------------------------ what groups read

    async def topics_of(self, request: Request) -> Command:
        """Answer the topics of which a group has offsets."""
        asked: GroupNamed = request.command.header(GroupNamed)
        names = self.context.plugin.port.offsets.topics_of(asked.group)
        address = next(iter(self.context.data.addresses.values()))
        body = write_body({"brokerAddr": address, "topicList": names})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def subscription(self, request: Request) -> Command:
        """Answer what a group's clients want of a topic."""
        asked: GroupNamed = request.command.header(GroupNamed)
        group = self.groups.get(asked.group)
        found = None if group is None else group.subscription(asked.topic or "")
        body: dict[str, object] = {"group": asked.group, "topic": asked.topic or ""}
        if found is not None:
            body["subscriptionData"] = found.members()
        return request.command.answer(ResponseCode.SUCCESS, body=write_body(body))


def _members(queue: MessageQueue) -> dict[str, object]:
    return {"brokerName": queue.broker, "queueId": queue.queue_id, "topic": queue.topic}


def _time_text(timestamp: int) -> str:
    """Return a time, ms, as RocketMQ writes it: of the zone of this machine."""
    found = dt.datetime.fromtimestamp(timestamp // 1_000, dt.UTC).astimezone()
    return f"{found:%Y-%m-%d#%H:%M:%S}:{timestamp % 1_000:03d}"
