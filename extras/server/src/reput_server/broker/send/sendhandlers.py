"""Answers sends: single ones (10, 310) and batches (320).

Source: RocketMQ ``SendMessageProcessor``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from reput import Message
from reput.errors import PutError
from reput.record import encode_properties
from reput.record.layout import INNER_BATCH, NEED_UNWRAP
from reput_client.remoting import (
    BodyError,
    Command,
    RequestCode,
    ResponseCode,
    Send,
    SendAnswer,
    SendShort,
    decode_batch,
)
from reput_server.broker.litenames import LISTED, LITE_TOPIC, light_queue_of
from reput_server.broker.send.messageproperties import (
    KEY,
    PRIORITY,
    TRACED,
    MessageProperties,
    is_of_other_type,
    priority_of,
)
from reput_server.broker.send.sendchecks import (
    check_light_queues,
    check_times,
    checked_destination,
    destination_of_retry,
)
from reput_server.broker.topictable import DEAD_LETTER_PREFIX, RETRY_PREFIX
from reput_server.errors import Refusal
from reput_server.wire.requestdispatcher import answer_of_error

if TYPE_CHECKING:
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.send.sendbatcher import SendBatcher, Stored
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_T = TypeVar("_T")
PREPARED: Final = 4
"""Bit of a message whose transaction is open."""
_BATCH_MAX: Final = 4 << 20
"""RocketMQ's largest; of more messages than go into it, the ids would not go into an answer."""
_AT_ONCE_MAX: Final = 64 << 10
_UNDELAYED: Final = frozenset({"0", "-1"})
"""Levels of delay that are none."""
_TIMED: Final = ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS")


@attrs.frozen(eq=False)
class SendHandlers:
    """The requests that store messages."""

    context: BrokerContext
    sends: SendBatcher
    properties: MessageProperties = attrs.field(init=False)
    _being_made: Counter[str] = attrs.field(init=False, factory=Counter)
    """By topic, the sends that wait until its settings are read from disk."""

    @properties.default
    def _default_properties(self) -> MessageProperties:
        return MessageProperties(self.context.config.cluster, self.context.new_key)

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

    async def store(
        self, request: Request, send: Send, *, is_batch: bool, is_reply: bool = False
    ) -> Command:
        """Store what a request brings, and return the answer that says where, or why not.

        `SynchronousSends` does the same for ordinary sends: what changes here may concern it.
        """
        try:
            return await self._store(request, send, is_batch=is_batch, is_reply=is_reply)
        except (Refusal, PutError) as error:
            return refused(request.command, error)

    async def _store(
        self, request: Request, send: Send, *, is_batch: bool, is_reply: bool
    ) -> Command:
        context, command = self.context, request.command
        context.check_writable()
        topic, queue_id = await self._destination(send, command.version)
        text = send.properties or ""
        if topic.startswith(DEAD_LETTER_PREFIX) and send.topic.startswith(RETRY_PREFIX):
            text = f"{text}DELAY\x01-1\x02"  # a dead letter is there at once
        properties, found = self.properties.of(text, is_reply=is_reply, is_shared=is_batch)
        first = Message(
            topic=topic,
            body=command.body,
            queue_id=queue_id,
            properties=properties,
            flag=send.flag,
            # That bit says nothing yet: the half message has none, and another would not be read.
            sys_flag=send.sys_flag & ~PREPARED,
            born_timestamp=send.born_timestamp,
            born_host=request.peer.address,
            reconsume_times=send.reconsume_times or 0,
        )
        if not is_batch and LITE_TOPIC in found:
            first = self._listed(first, found)
        if not is_batch and PRIORITY in found:
            first, queue_id = self._prioritized(first, queue_id, found)
        batch_key = None
        if is_batch:
            messages = await self._of_batch(command, self._checked, first, send, found)
            batch_key = found.get(KEY) if self._is_inner(topic, found) else None
        else:
            self._check_plugins(found)
            messages = [first]
            check_times(context, messages)
        stored = await self.sends.put(messages, lambda: request.peer.let_pass(request))
        header = SendAnswer(
            msg_id=await self._of_batch(command, self._ids_of, stored)
            if is_batch
            else self._ids_of(stored),
            queue_id=queue_id,
            queue_offset=stored.places[0][0],
            transaction_id=None if is_reply else found.get(KEY),
            batch_uniq_id=batch_key,
        )
        if stored.late is None:
            return command.answer(ResponseCode.SUCCESS, header, more=TRACED)
        return command.answer(stored.late.code, header, remark=stored.late.text, more=TRACED)

    async def _destination(self, send: Send, version: int) -> tuple[str, int]:
        context, topic = self.context, send.topic
        if topic.startswith(RETRY_PREFIX):
            found = await context.run_in_turn(checked_destination, context, send)
            return await context.run_in_turn(destination_of_retry, context, send, version) or found
        # A topic is known before the send that made it goes on, and nothing may overtake that one.
        if topic not in self._being_made and context.topics.known(topic) is not None:
            return checked_destination(context, send)  # reads no disk
        self._being_made[topic] += 1
        try:
            return await context.run_in_turn(checked_destination, context, send)
        finally:
            self._being_made[topic] -= 1
            if not self._being_made[topic]:
                del self._being_made[topic]

    async def _of_batch(self, command: Command, work: Callable[..., _T], *arguments: object) -> _T:
        """Call what takes longer for more messages; the others' requests wait for a few alone."""
        if len(command.body) <= _AT_ONCE_MAX:
            return work(*arguments)
        return await self.context.run(work, *arguments)

    def _ids_of(self, stored: Stored) -> str:
        return ",".join(self.context.message_id(physical) for _, physical in stored.places)

    def _checked(self, batch: Message, send: Send, found: Mapping[str, str]) -> Sequence[Message]:
        """Return the messages of a batch, all of which may be stored."""
        messages = self._unpacked(batch, send, found)
        check_times(self.context, messages)
        return messages

    def _unpacked(self, batch: Message, send: Send, found: Mapping[str, str]) -> Sequence[Message]:
        """Return the messages of a batch, one for each record.

        Since RocketMQ 5.4, a message of a batch has its own properties only, as its producer wrote
        them. In a topic with batch queues a batch that has a key is one record, with the batch's.

        Source: RocketMQ ``MessageExtEncoder.encode(MessageExtBatch, …)``.
        """
        if send.topic.startswith(RETRY_PREFIX):
            text = f"batch request does not support retry group {send.topic}"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, text)
        if len(batch.body) > _BATCH_MAX:
            text = f"a batch of {len(batch.body)} bytes; {_BATCH_MAX} are the most"
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, text)
        if found.get("DELAY", "0") not in _UNDELAYED:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be delayed")
        try:
            entries = decode_batch(batch.body)
        except BodyError as error:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        if entries and self._is_inner(batch.topic, found):
            counted = {**found, "INNER_NUM": str(len(entries))}
            stored = encode_properties(counted).encode("utf-8", "replace")
            flags = batch.sys_flag | INNER_BATCH | NEED_UNWRAP
            return [attrs.evolve(batch, sys_flag=flags, properties=stored)]
        if not entries:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "a batch without messages")
        return [
            attrs.evolve(batch, body=entry.body, flag=entry.flag, properties=entry.properties)
            for entry in entries
        ]

    def _is_inner(self, topic: str, properties: Mapping[str, str]) -> bool:
        """Whether a batch with these properties is stored as one record."""
        return KEY in properties and self.context.topics.has_batch_queues(topic)

    def _listed(self, message: Message, properties: dict[str, str]) -> Message:
        """Have a message in the light queue of its lite topic.

        Raises:
            Refusal: there cannot be such a lite topic, or the store has no light queues.
        """
        topic = message.topic
        try:
            properties[LISTED] = light_queue_of(topic, properties[LITE_TOPIC])
        except ValueError as error:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        check_light_queues(self.context, topic)
        stored = encode_properties(properties).encode("utf-8", "replace")
        return attrs.evolve(message, properties=stored)

    def _prioritized(
        self, message: Message, queue_id: int, properties: dict[str, str]
    ) -> tuple[Message, int]:
        """Choose the queue of a message with a priority; take it from one of another type.

        The message's properties decide its type, whatever the type of its topic is.
        """
        priority = priority_of(properties)
        if priority is None:
            return message, queue_id
        if is_of_other_type(properties):
            del properties[PRIORITY]
            stored = encode_properties(properties).encode("utf-8", "replace")
            return attrs.evolve(message, properties=stored), queue_id
        topic = self.context.topics.find(message.topic)
        queue_id = max(min(priority, (1 if topic is None else topic.write_queues) - 1), 0)
        return attrs.evolve(message, queue_id=queue_id), queue_id

    def _check_plugins(self, properties: Mapping[str, str]) -> None:
        """Refuse what would be lost on a store without the plugin that it needs."""
        context = self.context
        if properties.get("TRAN_MSG") == "true" and not context.has("transaction"):
            raise context.missing("transaction", "transactions")
        level = properties.get("DELAY", "0")
        is_late = level not in _UNDELAYED or any(name in properties for name in _TIMED)
        if is_late and not context.has("schedule"):
            raise context.missing("schedule", "delays")


def refused(command: Command, error: Exception) -> Command:
    """Return the answer to a send that was not stored."""
    answer = answer_of_error(command, error)
    return attrs.evolve(answer, fields={**answer.fields, **TRACED})
