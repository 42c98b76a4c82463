"""Requests of operators about topics (17, 18, 21, 202, 300, 305, 351).

Source: RocketMQ ``AdminBrokerProcessor``, ``TopicConfigManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput_client.remoting import (
    FILTER_TYPES,
    BodyObject,
    Command,
    CreateTopic,
    QueueName,
    RequestCode,
    ResponseCode,
    TopicOf,
    TopicSettings,
    topic_settings_of,
    write_body,
)
from reput_consumer import checked_topic
from reput_server.broker.builtintopics import system_names
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.groupregistry import GroupRegistry
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_KIND: Final = "queue.type"
_PLAIN: Final = "SimpleCQ"
_ATTRIBUTES: Final[dict[str, frozenset[str] | None]] = {
    "cleanup.policy": frozenset({"COMPACTION", "DELETE"}),
    "lite.topic.expiration": None,
    "message.type": frozenset(
        ("DELAY", "FIFO", "LITE", "MIXED", "NORMAL", "PRIORITY", "TRANSACTION", "UNSPECIFIED")
    ),
    "queue.type": frozenset({"BatchCQ", "SimpleCQ"}),
    "reserve.time": None,
}
"""Attributes of topics, and their values; None for any."""
_EXPIRATION_MAX: Final = 30 * 24 * 60


@attrs.frozen(eq=False)
class TopicHandlers:
    """The requests of operators about topics."""

    context: BrokerContext
    groups: GroupRegistry

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.put,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.put_many,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.all,
            RequestCode.GET_TOPIC_CONFIG: self.one,
            RequestCode.GET_TOPIC_STATS_INFO: self.stats,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self.readers,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.system,
        }

    @property
    def _system_names(self) -> frozenset[str]:
        return system_names(self.context.config.cluster, self.context.name)

    def _check_name(self, topic: str) -> None:
        """Raise `ValueError` for a name that no user's topic can have."""
        checked_topic(topic)
        if topic in self._system_names:
            raise ValueError(f"The topic[{topic}] is conflict with system topic.")

    async def put(self, request: Request) -> Command:
        """Make a topic, or change it."""
        asked: CreateTopic = request.command.header(CreateTopic)
        self.context.check_writable()
        try:
            self._check_name(asked.topic)
            _check_filter_type(asked.topic_filter_type)
            settings = TopicSettings(
                topic=asked.topic,
                read_queues=asked.read_queue_nums,
                write_queues=asked.write_queue_nums,
                permissions=asked.perm,
                filter_type=asked.topic_filter_type,
                sys_flag=asked.topic_sys_flag or 0,
                is_ordered=asked.order,
                attributes=self._attributes(
                    asked.topic, filter(None, (asked.attributes or "").split(","))
                ),
            )
            await self.context.run_in_turn(self.context.topics.put, settings)
        except ValueError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
        return request.command.answer(ResponseCode.SUCCESS)

    async def put_many(self, request: Request) -> Command:
        """Make topics, or change them; none of them if one cannot be."""
        self.context.check_writable()
        rows = BodyObject.of(request.command.body, "topics").objects("topicConfigList")
        read = [topic_settings_of(each) for each in rows]
        try:
            found = [self._settings_of(each) for each in read]
            await self.context.run_in_turn(self.context.topics.put_many, found)
        except ValueError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
        return request.command.answer(ResponseCode.SUCCESS)

    def _settings_of(self, found: TopicSettings) -> TopicSettings:
        self._check_name(found.topic)
        words = (f"{name}={value}".removesuffix("=") for name, value in found.attributes.items())
        signed = (each if each.startswith(("+", "-")) else f"+{each}" for each in words)
        return attrs.evolve(found, attributes=self._attributes(found.topic, signed))

    def _attributes(self, topic: str, words: Iterable[str]) -> dict[str, str]:
        """Return a topic's attributes, changed by words such as ``+NAME=VALUE`` and ``-NAME``."""
        known = self.context.topics.known(topic)
        attributes = {} if known is None else dict(known.attributes)
        for word in words:
            sign, (name, _, value) = word[0], word[1:].partition("=")
            if sign == "+" and name and value:
                attributes[name] = value
            elif sign == "-" and name:
                attributes.pop(name, None)
            else:
                text = f"attribute {word[:80]!r}; +NAME=VALUE or -NAME expected"
                raise Refusal(ResponseCode.SYSTEM_ERROR, text)
            _check_attribute(name, value if sign == "+" else None)
        if known is not None:
            old, new = (each.get(_KIND, _PLAIN) for each in (known.attributes, attributes))
            if old != new:
                text = f"{_KIND}: a topic keeps its kind of queues, which is {old}"
                raise Refusal(ResponseCode.SYSTEM_ERROR, text)
        return attributes

    async def all(self, request: Request) -> Command:
        """Answer all topics."""
        await self.context.run(self.context.topics.look)
        found = sorted(self.context.topics.all().items())
        table = {name: each.members() for name, each in found}
        version = self.context.data_version_of("topics", write_body(table))
        body = write_body({"dataVersion": version, "topicConfigTable": table})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def one(self, request: Request) -> Command:
        """Answer one topic."""
        asked: TopicOf = request.command.header(TopicOf)
        found = await self.context.run(self.context.topics.find, asked.topic)
        if found is None:
            text = f"No topic in this broker. topic: {asked.topic}"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, text)
        body = write_body(found.members())
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def stats(self, request: Request) -> Command:
        """Answer the offsets of a topic's queues, and when each got its last message."""
        asked: TopicOf = request.command.header(TopicOf)
        topic = await self._topic(asked.topic)
        table = await self.context.run(self._stats, topic)
        rate = self.context.statistics.put_rate_of(topic.topic)
        body = write_body({"offsetTable": table, "topicPutTps": rate})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def _stats(self, topic: TopicSettings) -> dict[QueueName, dict[str, int]]:
        known = {
            each.queue_id: each for each in self.context.store.queues() if each.topic == topic.topic
        }
        table = {}
        deleted = self.context.plugin.deleted
        for queue_id in range(max(topic.read_queues, topic.write_queues)):
            found = known.get(queue_id)
            table[QueueName(topic.topic, self.context.name, queue_id)] = {
                "lastUpdateTimestamp": 0 if found is None else found.last_update_timestamp or 0,
                "maxOffset": 0 if found is None else found.max_queue_offset,
                "minOffset": 0
                if found is None
                else max(found.min_queue_offset, deleted.floor(topic.topic, queue_id)),
            }
        return table

    async def readers(self, request: Request) -> Command:
        """Answer the groups that read a topic: connected ones, and groups with offsets."""
        asked: TopicOf = request.command.header(TopicOf)
        online = [
            name
            for name, group in self.groups.consumers.items()
            if group.subscription(asked.topic) is not None
        ]
        known = await self.context.run(self._with_offsets, asked.topic)
        body = write_body({"groupList": sorted({*online, *known})})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    def _with_offsets(self, topic: str) -> list[str]:
        port = self.context.port
        queues = port.queues(topic)
        return [
            group
            for group in self.context.plugin.groups()
            if any(port.committed(group, queue) is not None for queue in queues)
        ]

    async def system(self, request: Request) -> Command:
        """Answer names that count as topics and are none of the users'."""
        body = write_body({"topicList": sorted(self._system_names)})
        return request.command.answer(ResponseCode.SUCCESS, body=body)

    async def _topic(self, name: str) -> TopicSettings:
        found = await self.context.run(self.context.topics.find, name)
        if found is None:
            text = f"topic[{name}] not exist"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, text)
        return found


def _check_filter_type(name: str) -> None:
    """Refuse a kind of tags that topics do not have; readers of the broker's file would fail."""
    if name not in FILTER_TYPES:
        text = f"topicFilterType {name[:80]!r}; one of {', '.join(FILTER_TYPES)} expected"
        raise Refusal(ResponseCode.SYSTEM_ERROR, text)


def _check_attribute(name: str, value: str | None) -> None:
    """Refuse an attribute that topics do not have, or not with that value."""
    if name not in _ATTRIBUTES:
        text = f"unsupported key: {name[:80]}; known are {', '.join(_ATTRIBUTES)}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, text)
    if name == "lite.topic.expiration" and value not in (None, "-1"):
        is_number = value.isascii() and value.isdigit() and len(value) < 6
        if not is_number or int(value) > _EXPIRATION_MAX:
            text = f"{name}: minutes from 0 to {_EXPIRATION_MAX} expected, or -1"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text)
    values = _ATTRIBUTES[name]
    if value is not None and values is not None and value not in values:
        text = f"value is not in set: {', '.join(sorted(values))}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{name}: {text}")
