"""`Consumers`: the consumers of one client, and the thread that they share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs

from reput.record import Message
from reput_client.consumer.operatoranswers import OperatorAnswers
from reput_client.consumer.remotebackend import RemoteBackend
from reput_client.producer.outgoingmessage import (
    DELAY,
    MAX_RECONSUME_TIMES,
    RECONSUME_TIME,
    TRANSACTIONAL,
    OutgoingMessage,
)
from reput_client.session.sessionworker import SessionWorker
from reput_consumer import LocalMembers, LocalOffsets, MessageQueue, retry_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.record import MessageView
    from reput_client.clientruntime import ClientRuntime
    from reput_client.producer.sender import Sender
    from reput_client.session.brokersession import Answerer
    from reput_consumer import MemberSettings

_INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"
_ORIGIN: Final = "ORIGIN_MESSAGE_ID"
_RETRY_TOPIC: Final = "RETRY_TOPIC"
_FIRST_LEVEL: Final = 3
_MAX_TIMES: Final = 16
_COMPRESSION_BITS: Final = 0x701


class Consumers:
    """Opens consumers at brokers, and drives them. Thread-safe."""

    def __init__(self, runtime: ClientRuntime, sender: Sender) -> None:
        """Begin without a consumer."""
        self._runtime = runtime
        self._sender = sender
        self.port = RemoteBackend(
            runtime, self._do, self._reset, self._resend, sender.ends, self._answerers
        )
        self.members = LocalMembers(
            self.port,
            lambda: self._worker.wake(),
            lambda is_broadcasting: runtime.ids.next(is_broadcasting=is_broadcasting),
            self._local_offsets,
        )
        self._worker = SessionWorker(
            self.members.work,
            self.port.clock,
            self.port.tell_all,
            runtime.options.rebalance_interval,
        )
        runtime.routes_changed = self.port.tell_of_routes

    def _do(self, key: object, job: Callable[[], None]) -> None:
        self._worker.do(key, job)

    def _local_offsets(self, settings: MemberSettings) -> LocalOffsets:
        home = self._runtime.options.local_offsets or os.path.expanduser("~")
        return LocalOffsets(home, settings.member, settings.group)

    def _reset(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Have the members of a group go on elsewhere, as an operator wants it."""
        for each in self.members.of_group(group):
            each.move(offsets)

    def _answerers(self, group: str, member: str) -> Mapping[int, Answerer]:
        """Return what answers operators who look at a member from within."""
        since, shown = self._runtime.clock(), self.port.steady.at_source
        return OperatorAnswers(self.members, self._runtime, group, member, since, shown).by_code()

    def _resend(self, group: str, message: MessageView) -> None:
        """Put a message into a group's retry topic, where no broker could send it back.

        Source: RocketMQ ``DefaultMQPushConsumerImpl#sendMessageBackAsNormalMessage``.
        """
        properties = dict(message.properties)
        properties.pop(TRANSACTIONAL, None)  # a copy is not a half message
        properties.setdefault(_ORIGIN, message.msg_id)
        properties.setdefault(_RETRY_TOPIC, message.topic)
        properties[RECONSUME_TIME] = str(message.reconsume_times + 1)
        properties.setdefault(MAX_RECONSUME_TIMES, str(_MAX_TIMES))
        properties[DELAY] = str(_FIRST_LEVEL + message.reconsume_times)
        copy = Message(
            retry_topic(group),
            message.body,
            properties=properties,
            flag=message.flag,
            sys_flag=message.sys_flag & _COMPRESSION_BITS,
        )
        runtime = self._runtime
        outgoing = OutgoingMessage.of(
            copy,
            attrs.evolve(runtime.options, compress_level=0),
            runtime.keys.next,
            runtime.clock(),
        )
        runtime.call(
            self._sender.send(_INNER_GROUP, outgoing, None, runtime.options.request_timeout)
        )

    def close(self) -> None:
        """Close all consumers, and end the thread."""
        self.members.close()
        self._worker.close()
