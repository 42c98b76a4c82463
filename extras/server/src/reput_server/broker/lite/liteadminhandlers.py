"""Answers operators about lite topics (200074 to 200079).

Source: RocketMQ 5.5 ``LiteManagerProcessor``, ``LiteConsumerLagCalculator``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_client.remoting import (
    Command,
    LiteClientOf,
    LiteGroupOf,
    LiteTopicOf,
    LiteWake,
    RequestCode,
    ResponseCode,
    TopicOf,
    write_body,
)
from reput_server.broker.litenames import (
    bound_topic,
    expiration_minutes,
    is_lite,
    light_queue_of,
    lite_topic_of,
    parent_prefix,
)
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput import QueueInfo
    from reput_client.remoting import TopicSettings
    from reput_consumer import GroupSettings
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.lite.litesubscriptions import LiteSubscriptions
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_SHOWN_MAX: Final = 10_000
_ALL_LIGHT: Final = "%LMQ%"
_NONE: Final = -1


@attrs.frozen(eq=False)
class LiteAdminHandlers:
    """The requests of operators about lite topics."""

    context: BrokerContext
    subscriptions: LiteSubscriptions

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_BROKER_LITE_INFO: self.broker,
            RequestCode.GET_PARENT_TOPIC_INFO: self.parent,
            RequestCode.GET_LITE_TOPIC_INFO: self.lite_topic,
            RequestCode.GET_LITE_CLIENT_INFO: self.client,
            RequestCode.GET_LITE_GROUP_INFO: self.group,
            RequestCode.TRIGGER_LITE_DISPATCH: self.wake,
        }

    async def broker(self, request: Request) -> Command:
        """Answer the numbers of lite topics and subscriptions."""
        light = await self.context.run(self._light_queues, _ALL_LIGHT)
        context, clients = self.context, self.subscriptions.clients()
        topics = {name: each for name, each in context.topics.all().items() if is_lite(each)}
        offsets = await context.run(context.plugin.offsets)
        body = {
            "cqTableSize": len(light),
            "currentLmqNum": len(light),
            "eventMapSize": len(clients),
            "groupMeta": self._groups(),
            "liteSubscriptionCount": self.subscriptions.count,
            "maxLmqNum": context.store.config.max_light_queues,
            "offsetTableSize": sum(len(each) for each in offsets.values()),
            "orderInfoCount": len(context.plugin.popper.out()),
            "storeType": "default",
            "topicMeta": {name: expiration_minutes(each) for name, each in topics.items()},
        }
        return request.command.answer(ResponseCode.SUCCESS, body=write_body(body))

    async def parent(self, request: Request) -> Command:
        """Answer how many lite topics a topic has, and which groups read them."""
        asked: TopicOf = request.command.header(TopicOf)
        topic = self._parent(asked.topic)
        light = await self.context.run(self._light_queues, _ALL_LIGHT)
        prefix = parent_prefix(topic.topic)
        body = {
            "groups": self._groups().get(topic.topic),
            "liteTopicCount": sum(each.topic.startswith(prefix) for each in light),
            "lmqNum": len(light),
            "topic": topic.topic,
            "ttl": expiration_minutes(topic),
        }
        return request.command.answer(ResponseCode.SUCCESS, body=write_body(body))

    async def lite_topic(self, request: Request) -> Command:
        """Answer the offsets of a lite topic, and who reads it."""
        asked: LiteTopicOf = request.command.header(LiteTopicOf)
        name = _light_queue(self._parent(asked.parent_topic).topic, asked.lite_topic)
        found = await self.context.run(self._light_queues, name)
        readers = self.subscriptions.readers(name)
        queue = next((each for each in found if each.topic == name), None)
        bounds = self.context.port.bounds, self.context.queue(name, 0)
        first, following = (0, 0) if queue is None else await self.context.run(*bounds)
        body = {
            "liteTopic": asked.lite_topic,
            "parentTopic": asked.parent_topic,
            "shardingToBroker": True,
            "subscriber": [{"clientId": each.client_id, "group": each.group} for each in readers],
            "topicOffset": {
                "lastUpdateTimestamp": 0 if queue is None else queue.last_update_timestamp or 0,
                "maxOffset": following,
                "minOffset": first,
            },
        }
        return request.command.answer(ResponseCode.SUCCESS, body=write_body(body))

    async def client(self, request: Request) -> Command:
        """Answer what a client has subscribed to."""
        asked: LiteClientOf = request.command.header(LiteClientOf)
        topic = self._parent(asked.parent_topic).topic
        if bound_topic(self._known_group(asked.group)) != topic:
            text = f"Subscription [{asked.group}]-[{topic}] not match."
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)
        client, queues = self.subscriptions.find(asked.client_id) or (None, [])
        most = min(max(asked.max_count, 0), _SHOWN_MAX)
        body = {
            "clientId": asked.client_id,
            "group": asked.group,
            "lastAccessTime": _NONE if client is None else client.popped_at,
            "lastConsumeTime": 0,
            "liteTopicCount": _NONE if client is None else len(queues),
            "liteTopicSet": None if client is None else queues[:most],
            "parentTopic": topic,
        }
        return request.command.answer(ResponseCode.SUCCESS, body=write_body(body))

    async def group(self, request: Request) -> Command:
        """Answer how far behind a group is."""
        asked: LiteGroupOf = request.command.header(LiteGroupOf)
        topic = self._bound(asked.group)
        body: dict[str, Any] = {
            "earliestUnconsumedTimestamp": _NONE,
            "group": asked.group,
            "liteTopic": asked.lite_topic or None,
            "parentTopic": topic,
            "totalLagCount": 0,
        }
        if asked.lite_topic:
            name = _light_queue(topic, asked.lite_topic)
            body |= await self.context.run(self._lag, asked.group, name)
        else:
            body |= await self.context.run(self._lags, asked.group, topic, asked.top_k)
        return request.command.answer(ResponseCode.SUCCESS, body=write_body(body))

    async def wake(self, request: Request) -> Command:
        """Have light queues looked at again."""
        asked: LiteWake = request.command.header(LiteWake)
        self._bound(asked.group)
        for each in self.subscriptions.clients():
            if each.group == asked.group and asked.client_id in ("", each.client_id):
                self.subscriptions.look_again(each.client_id)
        return request.command.answer(ResponseCode.SUCCESS)

    # ------------------------------------------------------------------ what they read

    def _lag(self, group: str, name: str) -> dict[str, Any]:
        """Return how far behind a group is in one light queue."""
        context = self.context
        queue = context.queue(name, 0)
        _, following = context.port.bounds(queue)
        if following <= 0:
            return {"totalLagCount": _NONE}
        committed = context.port.committed(group, queue)
        if committed is None:
            return {}
        return {
            "earliestUnconsumedTimestamp": self._stored(name, committed),
            "liteTopicOffsetWrapper": {
                "brokerOffset": following,
                "consumerOffset": committed,
                "lastTimestamp": max(self._stored(name, committed - 1), 0),
                "pullOffset": 0,
            },
            "totalLagCount": following - committed,
        }

    def _lags(self, group: str, topic: str, count: int) -> dict[str, Any]:
        """Return how far behind a group is in all light queues of a topic that it has begun."""
        behind = []
        for each in self._light_queues(parent_prefix(topic)):
            committed = self.context.port.committed(group, self.context.queue(each.topic, 0))
            lag = 0 if committed is None else each.max_queue_offset - committed
            if committed is not None and lag > 0:
                behind.append((lag, self._stored(each.topic, committed), each.topic))
        rows = [
            {
                "earliestUnconsumedTimestamp": since,
                "lagCount": lag,
                "liteTopic": lite_topic_of(name),
            }
            for lag, since, name in behind
        ]
        most = min(max(count, 0), _SHOWN_MAX)
        by_lag = sorted(rows, key=lambda row: -int(str(row["lagCount"])))
        by_time = sorted(rows, key=lambda row: int(str(row["earliestUnconsumedTimestamp"])))
        return {
            "earliestUnconsumedTimestamp": min((since for _, since, _ in behind), default=_NONE),
            "lagCountTopK": by_lag[:most],
            "lagTimestampTopK": by_time[:most],
            "totalLagCount": sum(lag for lag, _, _ in behind),
        }

    def _stored(self, name: str, queue_offset: int) -> int:
        """Return when a message of a light queue was stored, ms; -1 without one."""
        if queue_offset < 0:
            return _NONE
        found = self.context.store.read(name, 0, queue_offset, 1).messages
        return found[0].store_timestamp if found else _NONE

    def _light_queues(self, prefix: str) -> list[QueueInfo]:
        """Return light queues that have messages; those of deleted topics have none."""
        hides = self.context.plugin.deleted.hides
        return [
            each
            for each in self.context.store.queues()
            if each.topic.startswith(prefix)
            and not hides(each.topic, each.queue_id, each.max_queue_offset)
        ]

    # ------------------------------------------------------------------ what must be there

    def _parent(self, topic: str) -> TopicSettings:
        found = self.context.topics.known(topic)
        if found is None:
            text = f"Topic [{topic[:80]}] not exist."
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, text)
        if not is_lite(found):
            text = f"Topic [{topic[:80]}] type not match."
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)
        return found

    def _known_group(self, group: str) -> GroupSettings:
        found = self.context.plugin.subscription_groups.get(group)
        if found is None:
            text = f"Group [{group[:80]}] not exist."
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        return found

    def _bound(self, group: str) -> str:
        topic = bound_topic(self._known_group(group))
        if not topic:
            text = f"Group [{group[:80]}] is not a LITE group."
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)
        return topic

    def _groups(self) -> dict[str, list[str]]:
        """Return the groups by the topic that they are bound to."""
        groups = self.context.plugin.subscription_groups
        found: dict[str, list[str]] = {}
        for name in sorted(groups.names()):
            topic = bound_topic(groups.get(name))
            if topic:
                found.setdefault(topic, []).append(name)
        return found


def _light_queue(topic: str, lite_topic: str) -> str:
    try:
        return light_queue_of(topic, lite_topic)
    except ValueError as error:
        raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
