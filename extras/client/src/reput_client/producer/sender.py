"""`Sender`: sends messages, and tries again at other brokers. Runs on the client's loop.

Differs from RocketMQ's Java client on purpose: an asynchronous send is tried again just as one that
is waited for. Java's sends the queue id chosen for the first broker to the second one, too, where
that queue may not exist.

Source: RocketMQ ``DefaultMQProducerImpl#sendDefaultImpl`` and ``#sendKernelImpl``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from reput_client.errors import (
    BrokerError,
    ClientClosedError,
    ClientError,
    RouteNotFoundError,
    SendError,
)
from reput_client.producer.brokerlatency import BrokerLatencies
from reput_client.producer.queuechooser import QueueChooser
from reput_client.producer.sendresult import SendResult, SendStatus
from reput_client.producer.sentoffsets import SentOffsets
from reput_client.remoting import (
    Command,
    HeaderError,
    RequestCode,
    ResponseCode,
    SendAnswer,
    SendShort,
)
from reput_consumer import MessageQueue
from reput_tools.offline import TEMPLATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reput_client.config import ClientOptions
    from reput_client.connection.connectionpool import ConnectionPool
    from reput_client.producer.outgoingmessage import OutgoingMessage
    from reput_client.route.routetable import RouteTable

logger = logging.getLogger(__name__)

Chosen = MessageQueue | Callable[["Sequence[MessageQueue]"], MessageQueue] | None
"""The queue of a message, a function that chooses it, or None for the next one in turn."""

_AGAIN: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        204,  # NO_BUYER_ID
        205,  # NOT_IN_CURRENT_UNIT
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.GO_AWAY,
    }
)
"""Answers after which another broker is tried."""
_STORED: Final = frozenset(map(int, SendStatus))


class Sender:
    """Sends messages of one client."""

    def __init__(
        self,
        options: ClientOptions,
        routes: RouteTable,
        connections: ConnectionPool,
        clock: Callable[[], int],
    ) -> None:
        """Send by ``routes``, over ``connections``; ``clock`` returns ms."""
        self._options = options
        self._routes = routes
        self._connections = connections
        self._latencies = BrokerLatencies(clock)
        self._chooser = QueueChooser(self._latencies if options.pass_over_slow else None)
        self.ends = SentOffsets()
        """How far the client itself has filled queues."""

    async def send(
        self, group: str, outgoing: OutgoingMessage, chosen: Chosen, seconds: float
    ) -> SendResult:
        """Send a message, and return what the broker says.

        Raises:
            SendError: all tries failed, or there was no time for another.
            BrokerError: a broker refused the message.
            RouteNotFoundError: the topic has no route.
            ClientError: no name server answers.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        queues = await self._queues(outgoing.topic)
        tries = 1 + self._options.retries if chosen is None else 1
        failed: str | None = None
        ended: list[str] = []
        cause: Exception | None = None
        for number in range(tries):
            left = seconds - (loop.time() - began)
            if left <= 0:
                break
            queue = self._choose(queues, chosen, failed)
            try:
                result = await self._try(group, outgoing, queue, left)
            except ClientClosedError:
                raise
            except BrokerError as error:
                if error.code not in _AGAIN:
                    raise
                cause = error
            except ClientError as error:
                cause = error
            else:
                is_last = number == tries - 1
                if result.is_ok or not self._options.retry_unsafe or is_last:
                    return result
                ended.append(f"{queue.broker}: {result.status.name}")
                failed = queue.broker
                continue
            ended.append(f"{queue.broker}: {cause}")
            failed = queue.broker
            logger.debug("send tried again topic=%s error=%s", outgoing.topic, cause)
        raise SendError(outgoing.topic, tuple(ended), loop.time() - began) from cause

    async def send_one_way(self, group: str, outgoing: OutgoingMessage, chosen: Chosen) -> None:
        """Send a message that no answer is wanted for.

        Raises:
            ClientError: there is no route, or no connection.
        """
        queues = await self._queues(outgoing.topic)
        queue = self._choose(queues, chosen, None)
        address = await self._routes.master(queue)
        await self._connections.send(address, _command(group, outgoing, queue, self._options))

    async def _queues(self, topic: str) -> list[MessageQueue]:
        route = await self._routes.for_sending(topic, self._options.topic_queue_count)
        queues = route.publish_queues(topic)
        if not queues:
            await self._routes.ask(topic)
            route = await self._routes.for_sending(topic, self._options.topic_queue_count)
            queues = route.publish_queues(topic)
        if not queues:
            reason = "no broker that has it is a master and takes messages for it"
            raise RouteNotFoundError(topic, reason)
        return queues

    def _choose(
        self, queues: list[MessageQueue], chosen: Chosen, failed: str | None
    ) -> MessageQueue:
        if chosen is None:
            return self._chooser.choose(queues, failed)
        return chosen if isinstance(chosen, MessageQueue) else chosen(queues)

    async def _try(
        self, group: str, outgoing: OutgoingMessage, queue: MessageQueue, seconds: float
    ) -> SendResult:
        loop = asyncio.get_running_loop()
        began, has_failed = loop.time(), True
        try:
            address = await self._routes.master(queue)
            command = _command(group, outgoing, queue, self._options)
            answer = await self._connections.request(address, command, seconds)
            if answer.code not in _STORED:
                raise BrokerError(address, answer.code, answer.remark or "")
            has_failed = False
            result = _result(address, answer, outgoing, queue)
            if not outgoing.is_for_later:
                self.ends.note(result)
            return result
        finally:
            taken = round((loop.time() - began) * 1000)
            self._latencies.note(queue.broker, taken, failed=has_failed)


def _command(
    group: str, outgoing: OutgoingMessage, queue: MessageQueue, options: ClientOptions
) -> Command:
    header = SendShort(
        producer_group=group,
        topic=outgoing.topic,
        default_topic=TEMPLATE_TOPIC,
        default_topic_queue_nums=options.topic_queue_count,
        queue_id=queue.queue_id,
        sys_flag=outgoing.sys_flag,
        born_timestamp=outgoing.born_timestamp,
        flag=outgoing.flag,
        properties=outgoing.properties,
        reconsume_times=outgoing.reconsume_times,
        unit_mode=False,
        max_reconsume_times=outgoing.max_reconsume_times,
        batch=outgoing.is_batch,
    )
    if outgoing.is_batch:
        code = RequestCode.SEND_BATCH_MESSAGE
    elif outgoing.is_reply:
        code = RequestCode.SEND_REPLY_MESSAGE_V2
    else:
        code = RequestCode.SEND_MESSAGE_V2
    return Command.request(code, header, body=outgoing.body, more={"n": queue.broker})


def _result(
    address: str, answer: Command, outgoing: OutgoingMessage, queue: MessageQueue
) -> SendResult:
    try:
        header: SendAnswer = answer.header(SendAnswer)
    except HeaderError as error:
        raise BrokerError(address, answer.code, str(error)) from error
    return SendResult(
        SendStatus(answer.code),
        queue._replace(queue_id=header.queue_id),
        header.queue_offset,
        outgoing.msg_id,
        header.msg_id,
        header.transaction_id,
        header.recall_handle,
    )
