"""Answers operators who look at a consumer from within, through a broker (221, 307, 309).

Source: RocketMQ ``ClientRemotingProcessor``, ``ConsumerRunningInfo``, ``ProcessQueueInfo`` and
``ConsumeMessageDirectlyResult``. Different on purpose: rates by topic are not measured, and left
out; one message is handled at once only where a function handles all, as a loop takes them itself.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError
from reput.record import MessageView
from reput_client.remoting import (
    VERSION,
    Command,
    ConsumeDirectly,
    ConsumerStatus,
    QueueName,
    RequestCode,
    ResponseCode,
    RunningInfo,
    version_name,
    write_body,
)
from reput_client.session.brokersession import subscription
from reput_consumer import MessageQueue, Outcome, retry_topic

if TYPE_CHECKING:
    from reput_client.clientruntime import ClientRuntime
    from reput_client.session.brokersession import Answerer
    from reput_consumer import LocalMembers, QueueStatus

_MIB: Final = 1 << 20
_RETRY_TOPIC: Final = "RETRY_TOPIC"
_RESULTS: Final = {
    Outcome.CONSUMED: "CR_SUCCESS",
    Outcome.LATER: "CR_LATER",
    Outcome.FAILED: "CR_THROW_EXCEPTION",
}


@attrs.frozen(eq=False)
class OperatorAnswers:
    """What one member of a group answers. Used on the loop's thread."""

    members: LocalMembers
    runtime: ClientRuntime
    group: str
    member: str
    since: int
    """When it has joined, ms."""
    shown: Callable[[int], int]
    """Returns what clocks show at a time of the member, ms."""

    def by_code(self) -> Mapping[int, Answerer]:
        """Return what answers, by the request's code."""
        return {
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self.status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume,
        }

    async def status(self, address: str, command: Command) -> Command:
        """Answer how far the member is in each queue of a topic."""
        asked: ConsumerStatus = command.header(ConsumerStatus)
        table = {
            QueueName(*each.queue): each.offset
            for each in await self._queues()
            if each.queue.topic == asked.topic
        }
        body = write_body({"messageQueueTable": table})
        return command.answer(ResponseCode.SUCCESS, body=body)

    async def running(self, address: str, command: Command) -> Command:
        """Answer what the member is set to do, what it holds, and what its threads do."""
        asked: RunningInfo = command.header(RunningInfo)
        settings = self.members.settings_of(self.group, self.member)
        if settings is None or asked.consumer_group != self.group:
            return self._not_here(command, asked.consumer_group)
        now = self.runtime.clock()
        body: dict[str, object] = {
            "mqTable": {
                QueueName(*each.queue): _members(each, now, self.shown)
                for each in await self._queues()
            },
            "properties": {
                "PROP_CLIENT_VERSION": version_name(VERSION),
                "PROP_CONSUMEORDERLY": str(settings.ordered).lower(),
                "PROP_CONSUMER_START_TIMESTAMP": str(self.since),
                "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
                "PROP_NAMESERVER_ADDR": "".join(f"{each};" for each in self.runtime.name_servers),
            },
            "statusTable": {},
            "subscriptionSet": [
                subscription(topic, selector, self.since).members()
                for topic, selector in sorted(settings.selectors.items())
            ],
        }
        if asked.jstack_enable:
            body["jstack"] = _stacks()
        return command.answer(ResponseCode.SUCCESS, body=write_body(body))

    async def consume(self, address: str, command: Command) -> Command:
        """Have the function that handles the member's messages handle one more, at once."""
        asked: ConsumeDirectly = command.header(ConsumeDirectly)
        settings = self.members.settings_of(self.group, self.member)
        if settings is None or asked.consumer_group != self.group:
            return self._not_here(command, asked.consumer_group)
        handle = self.members.handler_of(self.group, self.member)
        if handle is None:
            text = (
                f"The consumer of group <{self.group}> hands its messages to a loop; "
                "only one that calls a function for each can be given a message"
            )
            return command.answer(ResponseCode.SYSTEM_ERROR, remark=text)
        try:
            view = MessageView(command.body)
        except CorruptFileError as error:
            return command.answer(ResponseCode.SYSTEM_ERROR, remark=f"no message: {error.reason}")
        queue = MessageQueue(_topic_of(view, self.group), asked.broker_name or "", view.queue_id)
        began = self.runtime.clock()
        handled = await asyncio.to_thread(handle, view, queue)
        body: dict[str, object] = {
            "autoCommit": True,
            "consumeResult": _RESULTS[handled.outcome],
            "order": settings.ordered,
            "spentTimeMills": self.runtime.clock() - began,
        }
        if handled.remark is not None:
            body["remark"] = handled.remark
        return command.answer(ResponseCode.SUCCESS, body=write_body(body))

    async def _queues(self) -> list[QueueStatus]:
        # It waits for the member's lock, which the loop's thread must not.
        return await asyncio.to_thread(self.members.status_of, self.group, self.member)

    def _not_here(self, command: Command, group: str) -> Command:
        text = f"The Consumer Group <{group}> not exist in this consumer"
        return command.answer(ResponseCode.SYSTEM_ERROR, remark=text)


def _topic_of(view: MessageView, group: str) -> str:
    """Return the topic that a message was put to, also where it came back to its group."""
    topic = view.topic
    return view.properties.get(_RETRY_TOPIC, topic) if topic == retry_topic(group) else topic


def _members(queue: QueueStatus, now: int, shown: Callable[[int], int]) -> dict[str, object]:
    since = queue.handled_since
    return {
        "cachedMsgCount": queue.cached_count,
        "cachedMsgMaxOffset": queue.newest,
        "cachedMsgMinOffset": queue.oldest,
        "cachedMsgSizeInMiB": queue.cached_size // _MIB,
        "commitOffset": queue.offset,
        "droped": False,
        # The tool takes a queue for blocked of which nothing was handed out for a minute.
        "lastConsumeTimestamp": now if since is None else shown(since),
        "lastLockTimestamp": shown(queue.locked_at) if queue.locked_at else 0,
        "lastPullTimestamp": now if queue.is_fetching else 0,
        "locked": queue.locked_at > 0,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


def _stacks() -> str:
    """Return what each thread of the process does just now."""
    frames = sys._current_frames()
    found = [
        f"{each.name}\n{''.join(traceback.format_stack(frames[each.ident]))}"
        for each in threading.enumerate()
        if each.ident in frames
    ]
    return "\n".join(sorted(found))
