"""Answers operators who delete or clean up (207, 215, 306, 316, 329).

What the log has lost is taken out of queues at once, by the store itself; so there is nothing left
to do for 306.

Source: RocketMQ ``AdminBrokerProcessor#deleteTopic``, ``#deleteSubscriptionGroup``,
``#cleanUnusedTopic``. Different on purpose: see `reput_consumer.metadata.deletedtopics`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from reput_client.remoting import Command, DeleteGroup, RequestCode, ResponseCode, TopicOf
from reput_consumer import checked_group, checked_topic
from reput_server.errors import Refusal
from reput_tools.offline import is_system_topic

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.pendingresets import PendingResets
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

logger = logging.getLogger(__name__)


@attrs.frozen(eq=False)
class DeleteHandlers:
    """The requests that delete topics and groups."""

    context: BrokerContext
    marks: PendingResets

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.DELETE_TOPIC_IN_BROKER: self.topic,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.group,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_topics,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.expire_log,
        }

    async def topic(self, request: Request) -> Command:
        """Delete a topic, whether or not there is one."""
        asked: TopicOf = request.command.header(TopicOf)
        self.context.check_writable()
        if not asked.topic.strip():
            raise Refusal(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        if is_system_topic(asked.topic):
            text = f"The topic[{asked.topic}] is conflict with system topic."
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)
        try:
            checked_topic(asked.topic)
        except ValueError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
        was_there = await self.context.run_in_turn(self.context.topics.delete, asked.topic)
        self.marks.drop_topic(asked.topic)
        logger.info("topic deleted topic=%s was_there=%s", asked.topic, was_there)
        return request.command.answer(ResponseCode.SUCCESS)

    async def group(self, request: Request) -> Command:
        """Delete a group, whether or not there is one."""
        asked: DeleteGroup = request.command.header(DeleteGroup)
        self.context.check_writable()
        try:
            group = checked_group(asked.group_name)
        except ValueError as error:
            raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
        with_offsets = bool(asked.clean_offset)
        plugin = self.context.plugin
        await self.context.run_in_turn(
            lambda: plugin.delete_group(group, with_offsets=with_offsets)
        )
        if with_offsets:
            self.marks.drop_group(group)
        return request.command.answer(ResponseCode.SUCCESS)

    async def clean_queues(self, request: Request) -> Command:
        """Answer that no queue has files of what the log has lost: the store sees to that."""
        self.context.check_writable()
        return request.command.answer(ResponseCode.SUCCESS)

    async def clean_topics(self, request: Request) -> Command:
        """Forget deleted topics of which the log has nothing any more."""
        self.context.check_writable()
        await self.context.run_in_turn(self.context.plugin.forget_gone_topics)
        return request.command.answer(ResponseCode.SUCCESS)

    async def expire_log(self, request: Request) -> Command:
        """Remove the log's oldest files now, as far as the store's options say."""
        self.context.check_writable()
        plugin: Any = self.context.store.plugin_objects.get("retention")
        if plugin is not None:
            await self.context.run_in_turn(plugin.expire_log)
        return request.command.answer(ResponseCode.SUCCESS)
