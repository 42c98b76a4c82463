"""Answers sends: single ones (10, 310) and batches (320).

Source: RocketMQ ``SendMessageProcessor``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from reput import Message
from reput.record import parse_properties
from reput_remoting import (
    BodyError,
    Command,
    RequestCode,
    ResponseCode,
    Send,
    SendAnswer,
    SendShort,
    decode_batch,
)
from reput_server.broker.sending.checks import checked_destination, destination_of_retry
from reput_server.broker.topics import RETRY_PREFIX
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_server.broker.context import BrokerContext
    from reput_server.broker.sending.together import SendsTogether, Stored
    from reput_server.wire.answering import Handler
    from reput_server.wire.contract import Request

__all__ = [
    "PROPERTIES_SIZE_MAX",
    "TRACED",
    "TRANSACTION_MASK",
    "SendHandlers",
    "added_properties",
]

_T = TypeVar("_T")
_END: Final = b"\x02"
PROPERTIES_SIZE_MAX: Final = 32_767
TRACED: Final = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
TRANSACTION_MASK: Final = 12
_SHARED_MAX: Final = 64 << 20
_BATCH_MAX: Final = 4 << 20
"""RocketMQ's largest; of more messages than go into it, the ids would not go into an answer."""
_AT_ONCE_MAX: Final = 64 << 10
_TIMED: Final = ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")


def added_properties(cluster: str) -> bytes:
    """Return what a broker adds to the properties of a message that it is sent.

    A client of 5.x says nothing of what it took in traces unless it finds the region there.
    """
    added = {"CLUSTER": cluster, **TRACED}
    return b"".join(f"{name}\x01{value}".encode() + _END for name, value in added.items())


@attrs.frozen(eq=False)
class SendHandlers:
    """The requests that store messages."""

    context: BrokerContext
    sends: SendsTogether
    _being_made: Counter[str] = attrs.field(init=False, factory=Counter)
    """By topic, the sends that wait until the disk has been asked for it."""

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send_short,
            RequestCode.SEND_BATCH_MESSAGE: self.send_batch,
        }

    async def send(self, request: Request) -> Command:
        """Store one message, or a batch that says so in its header."""
        header: Send = request.command.header(Send)
        return await self.store(request, header, is_batch=bool(header.batch))

    async def send_short(self, request: Request) -> Command:
        """Store one message; its header has letters for names."""
        header: SendShort = request.command.header(SendShort)
        return await self.store(request, header.spelled_out(), is_batch=bool(header.batch))

    async def send_batch(self, request: Request) -> Command:
        """Store the messages of a batch."""
        header: SendShort = request.command.header(SendShort)
        return await self.store(request, header.spelled_out(), is_batch=True)

    async def store(self, request: Request, send: Send, *, is_batch: bool) -> Command:
        """Store what a request brings, and return the answer that says where.

        `SendsAtOnce` does the same for ordinary sends: what changes here may concern it.

        Raises:
            Refusal: it may not be stored.
            PutError: it cannot be.
        """
        context, command = self.context, request.command
        context.check_writable()
        topic, queue_id = await self._destination(send, command.version)
        first = Message(
            topic=topic,
            body=command.body,
            queue_id=queue_id,
            properties=self._properties(send),
            flag=send.flag,
            # A producer's transaction bits say nothing yet: the half message has none.
            sys_flag=send.sys_flag & ~TRANSACTION_MASK,
            born_timestamp=send.born_timestamp,
            born_host=request.peer.address,
            reconsume_times=send.reconsume_times or 0,
        )
        found = _properties_of(first)
        if is_batch:
            messages = await self._of_batch(command, self._unpacked, first, send)
        else:
            self._check_plugins(found)
            messages = [first]
        stored = await self.sends.put(messages)
        header = SendAnswer(
            msg_id=await self._of_batch(command, self._ids_of, stored)
            if is_batch
            else self._ids_of(stored),
            queue_id=queue_id,
            queue_offset=stored.places[0][0],
            transaction_id=found.get("UNIQ_KEY"),
        )
        code = ResponseCode.FLUSH_DISK_TIMEOUT if stored.late else ResponseCode.SUCCESS
        return command.answer(code, header, remark=stored.late, more=TRACED)

    async def _destination(self, send: Send, version: int) -> tuple[str, int]:
        context, topic = self.context, send.topic
        if topic.startswith(RETRY_PREFIX):
            found = await context.run_in_turn(checked_destination, context, send)
            return await context.run_in_turn(destination_of_retry, context, send, version) or found
        # A topic is known before the send that made it goes on, and nothing may overtake that one.
        if topic not in self._being_made and context.topics.known(topic) is not None:
            return checked_destination(context, send)  # asks no disk
        self._being_made[topic] += 1
        try:
            return await context.run_in_turn(checked_destination, context, send)
        finally:
            self._being_made[topic] -= 1
            if not self._being_made[topic]:
                del self._being_made[topic]

    def _properties(self, send: Send) -> bytes:
        text = (send.properties or "").encode("utf-8", "replace")
        if text and not text.endswith(_END):
            text += _END
        text += added_properties(self.context.config.cluster)
        if len(text) > PROPERTIES_SIZE_MAX:
            found = f"the message properties length {len(text)} is over {PROPERTIES_SIZE_MAX}"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, found)
        return text

    async def _of_batch(self, command: Command, work: Callable[..., _T], *arguments: object) -> _T:
        """Call what takes longer for more messages; the others' requests wait for a few alone."""
        if len(command.body) <= _AT_ONCE_MAX:
            return work(*arguments)
        return await self.context.run(work, *arguments)

    def _ids_of(self, stored: Stored) -> str:
        return ",".join(self.context.message_id(physical) for _, physical in stored.places)

    def _unpacked(self, batch: Message, send: Send) -> Sequence[Message]:
        """Return the messages of a batch, as many records as there are."""
        if send.topic.startswith("%"):
            text = f"batch request does not support retry group {send.topic}"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, text)
        if len(batch.body) > _BATCH_MAX:
            text = f"a batch of {len(batch.body)} bytes; {_BATCH_MAX} are the most"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, text)
        shared = bytes(batch.properties) if isinstance(batch.properties, bytes) else b""
        messages = []
        try:
            entries = decode_batch(batch.body)
        except BodyError as error:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        # Every message gets the shared properties, so a few megabytes could become gigabytes.
        if len(entries) * len(shared) > _SHARED_MAX:
            text = f"{len(entries)} messages with {len(shared)} bytes of properties each"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"a batch too large: {text}")
        for entry in entries:
            own = entry.properties
            own += _END if own and not own.endswith(_END) else b""
            messages.append(
                attrs.evolve(batch, body=entry.body, flag=entry.flag, properties=own + shared)
            )
        if not messages:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "a batch without messages")
        return messages

    def _check_plugins(self, properties: Mapping[str, str]) -> None:
        """Refuse what would be lost on a store without the plugin that it needs."""
        context = self.context
        if properties.get("TRAN_MSG") == "true" and not context.has("transaction"):
            raise context.missing("transaction", "transactions")
        level = properties.get("DELAY", "0")
        is_late = level not in ("0", "-1") or any(name in properties for name in _TIMED)
        if is_late and not context.has("schedule"):
            raise context.missing("schedule", "delays")


def _properties_of(message: Message) -> dict[str, str]:
    text = message.properties
    return parse_properties(text) if isinstance(text, bytes) else {}
