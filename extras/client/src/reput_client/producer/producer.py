"""`Producer`: sends messages to brokers.

with Client("127.0.0.1:9876") as client, client.producer("shop") as producer:
    producer.send(Message("orders", b"…", tags="paid"))
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime as dt
import math
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from reput_client.errors import ClientClosedError, NoReplyError
from reput_client.producer.outgoingmessage import Delay, OutgoingMessage
from reput_client.producer.queuechooser import queue_of_key
from reput_client.producer.requestreply import Reply, reply_message

if TYPE_CHECKING:
    from reput.record import Message
    from reput_client.clientruntime import ClientRuntime
    from reput_client.producer.requestreply import RequestReplies
    from reput_client.producer.sender import Chosen, Sender
    from reput_client.producer.sendresult import SendResult
    from reput_consumer import MessageQueue

_UNDER_WAY_MAX: Final = 1_000
"""More would run out of their time while they wait for a slow broker."""
_ONE_CHOSEN: Final = "queue and ordered_by: one of them expected, or none"


class Producer:
    """A producer of a group; a context manager. Thread-safe.

    A message whose send fails is tried again at other brokers, as often as the client's option
    ``retries`` says, and so may be stored twice. A message for a certain queue is tried once.
    """

    def __init__(
        self, runtime: ClientRuntime, group: str, sender: Sender, replies: RequestReplies
    ) -> None:
        """Make a producer; see `reput_client.Client.producer`."""
        self.group = group
        """The group's name."""
        self._runtime = runtime
        self._sender = sender
        self._replies = replies
        self._is_closed = False
        self._lock = threading.Lock()
        self._permits = threading.BoundedSemaphore(_UNDER_WAY_MAX)
        runtime.call(self._join())

    async def _join(self) -> None:
        self._runtime.session.add_producer(self.group)

    def __repr__(self) -> str:
        return f"<Producer of group {self.group!r}>"

    # ------------------------------------------------------------------ one message

    def send(
        self,
        message: Message,
        *,
        queue: Chosen = None,
        ordered_by: str | int | None = None,
        level: int | None = None,
        delay: float | dt.timedelta | None = None,
        deliver_at: int | dt.datetime | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message, and return when it is stored.

        Args:
            message: the message; its ``queue_id`` means nothing here.
            queue: a queue of the topic, or a function from all of them to one; the next one in
                turn if left out.
            ordered_by: messages with the same key go to the same queue, and so stay in order.
            level: delay level, 1 for 1 s to 18 for 2 h.
            delay: seconds, or a `timedelta`, until it is delivered (brokers since 5.0); 0 or less
                means at once.
            deliver_at: time when it is delivered (brokers since 5.0).
            timeout: seconds for all tries together; the client's ``send_timeout`` if left out.

        Raises:
            SendError: all tries failed.
            BrokerError: the broker refuses the message.
            RouteNotFoundError: no broker has the topic.
            ClientError: no name server answers, or the client is closed.
            MessageIllegalError: brokers would refuse the message (`MessageTooLargeError` for
                sizes).
            PropertiesSizeError: the encoded properties are over 32,767 bytes.
            ValueError: arguments that contradict each other.
        """
        chosen = _chosen(queue, ordered_by)
        outgoing = self._outgoing(message, Delay(level=level, delay=delay, deliver_at=deliver_at))
        return self._runtime.call(self._send(outgoing, chosen, timeout))

    def submit(
        self,
        message: Message,
        *,
        queue: Chosen = None,
        ordered_by: str | int | None = None,
        level: int | None = None,
        delay: float | dt.timedelta | None = None,
        deliver_at: int | dt.datetime | None = None,
        timeout: float | None = None,
    ) -> concurrent.futures.Future[SendResult]:
        """Begin to send a message, and return the future of its result.

        Arguments and errors are those of `send`; the future has errors of the network. The call
        waits while 1,000 messages of this producer are under way.
        """
        chosen = _chosen(queue, ordered_by)
        outgoing = self._outgoing(message, Delay(level=level, delay=delay, deliver_at=deliver_at))
        self._permits.acquire()
        return self._submit(outgoing, chosen, timeout)

    async def send_async(
        self,
        message: Message,
        *,
        queue: Chosen = None,
        ordered_by: str | int | None = None,
        level: int | None = None,
        delay: float | dt.timedelta | None = None,
        deliver_at: int | dt.datetime | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message while other tasks of the caller's event loop run; see `send`."""
        chosen = _chosen(queue, ordered_by)
        outgoing = self._outgoing(message, Delay(level=level, delay=delay, deliver_at=deliver_at))
        if not self._permits.acquire(blocking=False):
            await asyncio.to_thread(self._permits.acquire)
        return await asyncio.wrap_future(self._submit(outgoing, chosen, timeout))

    def _submit(
        self, outgoing: OutgoingMessage, chosen: Chosen, timeout: float | None
    ) -> concurrent.futures.Future[SendResult]:
        try:
            future = self._runtime.submit(self._send(outgoing, chosen, timeout))
        except BaseException:
            self._permits.release()
            raise
        future.add_done_callback(lambda done: self._permits.release())
        return future

    def send_one_way(
        self,
        message: Message,
        *,
        queue: Chosen = None,
        ordered_by: str | int | None = None,
    ) -> None:
        """Send a message without waiting for an answer; nobody learns whether it is stored.

        Raises:
            ClientError: there is no route to a broker, or no connection.
            MessageIllegalError: as for `send`.
        """
        chosen = _chosen(queue, ordered_by)
        outgoing = self._outgoing(message, Delay())
        self._runtime.call(self._sender.send_one_way(self.group, outgoing, chosen))

    # ------------------------------------------------------------------ several messages

    def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: Chosen = None,
        ordered_by: str | int | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send messages of one topic to one queue, all or none of them.

        All bodies and properties together may have as many bytes as one message
        (``max_message_size``), and none of the messages may be delayed. Other arguments and errors
        are those of `send`.
        """
        self._check_open()
        chosen = _chosen(queue, ordered_by)
        runtime = self._runtime
        outgoing = OutgoingMessage.of_batch(
            messages, runtime.options, runtime.keys.next, runtime.clock()
        )
        return runtime.call(self._send(outgoing, chosen, timeout))

    # ------------------------------------------------------------------ questions and answers

    def request(
        self,
        message: Message,
        *,
        queue: Chosen = None,
        ordered_by: str | int | None = None,
        timeout: float | None = None,
    ) -> Reply:
        """Send a message, and return what a consumer of it replies.

        Args:
            message: the message.
            queue: as for `send`.
            ordered_by: as for `send`.
            timeout: seconds for everything; the client's ``send_timeout`` if left out.

        Raises:
            NoReplyError: nobody has replied in time.
            SendError: as for `send`, and so are all others.
        """
        self._check_open()
        chosen = _chosen(queue, ordered_by)
        seconds = self._seconds(timeout)
        return self._runtime.call(self._request(message, chosen, seconds))

    async def _request(self, message: Message, chosen: Chosen, seconds: float) -> Reply:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        properties, reply = self._replies.expect(seconds)
        outgoing = self._outgoing(message, Delay(), properties)
        try:
            # The broker must know where the reply is to go before anybody can reply.
            await self._queues(message.topic)
            await self._runtime.session.visit(message.topic)
            result = await self._sender.send(self.group, outgoing, chosen, seconds)
            try:
                async with asyncio.timeout_at(until):
                    return await reply
            except TimeoutError:
                raise NoReplyError(message.topic, result.msg_id, seconds) from None
        finally:
            reply.cancel()

    def reply(
        self,
        asked: Any,
        body: bytes,
        *,
        timeout: float | None = None,
    ) -> SendResult:
        """Reply to a message that a producer has sent with `request`.

        Args:
            asked: the message, as a consumer got it.
            body: the answer.
            timeout: as for `send`.

        Raises:
            ValueError: the message is not a request.
            SendError: as for `send`, and so are all others. A `BrokerError` may also say that the
                requester is gone.
        """
        outgoing = self._outgoing(reply_message(asked.properties, body), Delay())
        return self._runtime.call(self._send(outgoing, None, timeout))

    # ------------------------------------------------------------------ queues, the end

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that messages of a topic may be sent to; see `send` for errors."""
        self._check_open()
        return self._runtime.call(self._queues(topic))

    async def _queues(self, topic: str) -> list[MessageQueue]:
        count = self._runtime.options.topic_queue_count
        return (await self._runtime.routes.for_sending(topic, count)).publish_queues(topic)

    def _outgoing(
        self, message: Message, delay: Delay, more: Mapping[str, str] | None = None
    ) -> OutgoingMessage:
        self._check_open()
        runtime = self._runtime
        properties = {**delay.properties(), **(more or {})}
        return OutgoingMessage.of(
            message, runtime.options, runtime.keys.next, runtime.clock(), properties
        )

    async def _send(
        self, outgoing: OutgoingMessage, chosen: Chosen, timeout: float | None
    ) -> SendResult:
        return await self._sender.send(self.group, outgoing, chosen, self._seconds(timeout))

    def _seconds(self, timeout: float | None) -> float:
        if timeout is not None and math.isnan(timeout):
            raise ValueError(f"timeout: a number of seconds expected, found {timeout!r}")
        return self._runtime.options.send_timeout if timeout is None else timeout

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosedError(
                f"the producer of group {self.group!r} is closed; open another one"
            )

    def close(self) -> None:
        """Have brokers know that the producer is gone; a second call does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            self._runtime.call(self._runtime.session.remove_producer(self.group))
        except ClientClosedError:
            return  # the client has unregistered already

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _chosen(queue: Chosen, ordered_by: str | int | None) -> Chosen:
    if ordered_by is None:
        return queue
    if queue is not None:
        raise ValueError(_ONE_CHOSEN)
    return lambda queues: queue_of_key(queues, ordered_by)
