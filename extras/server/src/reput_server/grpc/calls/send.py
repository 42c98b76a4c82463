"""Stores messages, and recalls delayed ones.

Source: RocketMQ ``SendMessageActivity``, ``RecallMessageActivity``.
"""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput import Message
from reput.errors import LightQueueCountError, PutError, ReputError
from reput.record import java_string_hash
from reput_consumer import DLQ_PREFIX, RETRY_PREFIX
from reput_server.broker.litenames import LISTED, LITE_TOPIC, light_queue_of
from reput_server.broker.send.messageproperties import PRIORITY, is_of_other_type
from reput_server.broker.send.sendchecks import check_light_queues, check_time
from reput_server.errors import Refusal
from reput_server.grpc.calls.routes import types_of
from reput_server.grpc.messageproperties import (
    BORN_HOST,
    BORN_TIMESTAMP,
    GROUP,
    IMMUNITY,
    RESERVED,
    TIMED,
    TRACE,
    untimed_type_of,
)
from reput_server.grpc.messagetypes import Code, MessageType, Refused, m, milliseconds_of, status
from reput_server.grpc.namespaces import topic_of

if TYPE_CHECKING:
    from reput_client.remoting import TopicSettings
    from reput_server.broker.broker import Broker
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.grpc.caller import Caller
    from reput_server.grpc.calls.routes import RouteCalls

_BODY_MAX: Final = 4 << 20
_PROPERTIES_MAX: Final = 16 << 10
_PROPERTY_COUNT_MAX: Final = 128
_GROUP_MAX: Final = 64
_DELAY_MAX_MS: Final = 24 * 3_600_000
_IMMUNITY_MAX_S: Final = 3_600
_MESSAGES_MAX: Final = 1_024
_WRITE: Final = 2
_TRACED: Final = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
_MASK: Final = (1 << 64) - 1
_OK: Final = status()
_Made = tuple[Message, dict[str, str]]
"""A message, and its properties by name."""
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")


def consistent_hash(number: int, bucket_count: int) -> int:
    """Return the bucket of a number. Source: Guava ``Hashing.consistentHash``."""
    state, candidate = number & _MASK, 0
    while True:
        state = (2_862_933_555_777_941_757 * state + 1) & _MASK
        following = int((candidate + 1) / (((state >> 33) + 1) / float(1 << 31)))
        if not 0 <= following < bucket_count:
            return candidate
        candidate = following


@attrs.define(eq=False, repr=False)
class SendCalls:
    """The calls of producers."""

    broker: Broker
    routes: RouteCalls

    async def send(self, caller: Caller, request: Any) -> Any:
        """Store messages of one topic; each has a status of its own."""
        topic = await self.routes.topic(self._topic_name(request))
        messages = self._messages(caller, topic, request)
        response = m.SendMessageResponse()
        for message, properties in messages:
            await self._put(message, properties, response.entries.add())
        return self._answered(topic, messages, response)

    def send_at_once(self, caller: Caller, request: Any) -> Any | None:
        """Do the same without waiting; return None, and do nothing, if something must wait.

        Several messages take the longer way, which leaves the loop when a put is slow.
        """
        sends, name = self.broker.sends, self._topic_name(request)
        if len(request.messages) > 1:
            return None
        topic = self.broker.context.topics.known(name)
        if topic is None or not sends.may_put_here(sends.clock()):
            return None
        messages = self._messages(caller, topic, request)
        response = m.SendMessageResponse()
        self._put_here(*messages[0], response.entries.add())
        return self._answered(topic, messages, response)

    def _topic_name(self, request: Any) -> str:
        """Return the topic of all messages of a request."""
        given = request.messages
        if not 0 < len(given) <= _MESSAGES_MAX:
            raise Refused(Code.MESSAGE_CORRUPTED, f"{len(given)} messages; 1 to {_MESSAGES_MAX}")
        first = given[0].topic
        if len(given) > 1 and any(each.topic != first for each in given):
            raise Refused(Code.MESSAGE_CORRUPTED, "the messages of one call have one topic")
        name = topic_of(first)
        if not self.broker.context.is_writable:
            raise Refused(Code.FORBIDDEN, "the store is read-only")
        return name

    def _messages(self, caller: Caller, topic: TopicSettings, request: Any) -> list[_Made]:
        """Return the messages of a request, all of which the topic takes."""
        messages = [self._message(caller, topic, each) for each in request.messages]
        for _, properties in messages:
            _check_type(topic, properties)
        allowed = topic.permissions & self.broker.context.options.permissions
        if not allowed & _WRITE or topic.write_queues < 1:
            raise Refused(Code.FORBIDDEN, f"topic {topic.topic!r} may not be written")
        return messages

    async def _put(self, message: Message, properties: Mapping[str, str], entry: Any) -> None:
        """Store a message, and set its result."""
        try:
            stored = await self.broker.sends.put([message])
        except (PutError, Refusal) as error:
            _set_failed(entry, error)
        else:
            late = stored.late
            code = Code.OK if late is None else Code.MASTER_PERSISTENCE_TIMEOUT
            _set_stored(entry, stored.places[0][0], properties["UNIQ_KEY"])
            entry.status.code, entry.status.message = code, "OK" if late is None else late.text

    def _put_here(self, message: Message, properties: Mapping[str, str], entry: Any) -> None:
        """Do the same on the event loop."""
        try:
            receipt = self.broker.sends.put_one_here(message)
        except PutError as error:
            _set_failed(entry, error)
        else:
            _set_stored(entry, receipt.queue_offset, properties["UNIQ_KEY"])
            entry.status.CopyFrom(_OK)

    def _answered(self, topic: TopicSettings, messages: Sequence[_Made], response: Any) -> Any:
        """Add what the results of all messages give."""
        context, first = self.broker.context, response.entries[0].status
        for entry, (_, properties) in zip(response.entries, messages, strict=True):
            entry.message_id = properties["UNIQ_KEY"]
            at = properties.get(TIMED)
            if at is not None and entry.transaction_id and int(at) > context.clock():
                parts = ("v1", topic.topic, context.name, at, entry.message_id)
                entry.recall_handle = base64.urlsafe_b64encode(" ".join(parts).encode()).decode()
        if len(messages) == 1 or len({each.status.code for each in response.entries}) == 1:
            response.status.CopyFrom(first)
        else:
            response.status.CopyFrom(status(Code.MULTIPLE_RESULTS, "the entries have other codes"))
        return response

    # ------------------------------------------------------------------ what may be stored

    def _message(self, caller: Caller, topic: TopicSettings, given: Any) -> _Made:
        """Return a message, and its properties by name."""
        system, context = given.system_properties, self.broker.context
        if not given.body:
            raise Refused(Code.MESSAGE_BODY_EMPTY, "the body is empty")
        if len(given.body) > _BODY_MAX:
            text = f"a body of {len(given.body)} bytes; {_BODY_MAX} at most"
            raise Refused(Code.MESSAGE_BODY_TOO_LARGE, text)
        properties = _checked_properties(given)
        key = system.message_id
        if not key.strip() or len(key) > 255 or not _is_plain(key):
            raise Refused(Code.ILLEGAL_MESSAGE_ID, f"message id {key[:100]!r} is not valid")
        born_timestamp = milliseconds_of(system.born_timestamp)
        properties["UNIQ_KEY"] = key
        properties["CLUSTER"] = context.config.cluster
        properties["PGROUP"] = topic.topic
        properties["RECONSUME_TIME"] = str(system.delivery_attempt)
        properties[BORN_TIMESTAMP] = str(born_timestamp)
        properties.update(_TRACED)
        if system.born_host.strip() or caller.address:
            properties[BORN_HOST] = _without_ends(system.born_host.strip() or caller.address)
        if system.tag:
            properties["TAGS"] = system.tag
        if system.keys:
            properties["KEYS"] = " ".join(system.keys)
        if system.trace_context:
            properties[TRACE] = _without_ends(system.trace_context)
        queue_id = self._typed(topic, system, properties)
        message = Message(
            topic.topic,
            bytes(given.body),
            queue_id,
            properties=properties,
            born_timestamp=born_timestamp or context.clock(),
        )
        return message, properties

    def _typed(self, topic: TopicSettings, system: Any, properties: dict[str, str]) -> int:
        """Add the properties of groups, times and transactions; return the queue."""
        context = self.broker.context
        if system.message_type == MessageType.TRANSACTION:
            _need(context, "transaction", "transactions")
            properties["TRAN_MSG"] = "true"
            if system.HasField("orphaned_transaction_recovery_duration"):
                seconds = system.orphaned_transaction_recovery_duration.seconds
                if seconds > _IMMUNITY_MAX_S:
                    text = f"a recovery after {seconds} s; {_IMMUNITY_MAX_S} at most"
                    raise Refused(Code.BAD_REQUEST, text)
                properties[IMMUNITY] = str(seconds)
        if system.HasField("delivery_timestamp"):
            _need(context, "schedule", "delays")
            at = milliseconds_of(system.delivery_timestamp)
            _check_time(context, at, Code.ILLEGAL_DELIVERY_TIME)
            if at - context.plugin.port.context.clock() > _DELAY_MAX_MS:
                raise Refused(Code.ILLEGAL_DELIVERY_TIME, "a time within the next day expected")
            properties[TIMED] = str(at)
        count = max(topic.write_queues, 1)
        if system.HasField("priority"):
            if system.priority < 0:
                raise Refused(Code.BAD_REQUEST, f"priority {system.priority}; 0 at least")
            properties[PRIORITY] = str(system.priority)
        group = system.message_group
        if system.lite_topic:
            _add_lite_topic(context, topic.topic, system.lite_topic, properties)
            return consistent_hash(java_string_hash(system.lite_topic), count)
        if not group and PRIORITY in properties and not is_of_other_type(properties):
            return min(int(system.priority), count - 1)
        if not group:
            return random.randrange(count)
        if not group.strip() or len(group.encode()) >= _GROUP_MAX or not _is_plain(group):
            text = f"message group {group[:100]!r}: 1 to {_GROUP_MAX - 1} bytes expected"
            raise Refused(Code.ILLEGAL_MESSAGE_GROUP, text)
        properties[GROUP] = group
        return consistent_hash(java_string_hash(group), count)

    # ------------------------------------------------------------------ recall

    async def recall(self, caller: Caller, request: Any) -> Any:
        """Recall a delayed message."""
        context, name = self.broker.context, topic_of(request.topic)
        _need(context, "schedule", "recalls")
        topic = await self.routes.topic(name)
        _check_type(topic, {TIMED: ""})
        handle = request.recall_handle[:4_000]
        try:
            parts = base64.urlsafe_b64decode(handle).decode().split(" ")
        except ValueError:
            parts = []
        if len(parts) != 5 or parts[1] != name or parts[2] != context.name:
            raise Refused(Code.BAD_REQUEST, "the recall handle is not one of this topic and broker")
        if parts[3].isascii() and parts[3].isdigit():
            _check_time(context, int(parts[3]), Code.BAD_REQUEST)
        plugin: Any = context.store.plugin_objects["schedule"]
        try:
            await context.run_in_turn(plugin.cancel, handle)
        except (ValueError, ReputError) as error:
            raise Refused(Code.BAD_REQUEST, str(error)) from None
        return m.RecallMessageResponse(status=status(), message_id=parts[4])


def _set_stored(entry: Any, queue_offset: int, key: str) -> None:
    entry.offset, entry.transaction_id = queue_offset, key


def _set_failed(entry: Any, error: PutError | Refusal) -> None:
    code = _code_of(error) if isinstance(error, PutError) else Code.TOO_MANY_REQUESTS
    entry.status.code, entry.status.message = code, str(error)


def _check_time(context: BrokerContext, deliver_timestamp: int, code: Code) -> None:
    try:
        check_time(context, deliver_timestamp)
    except Refusal as refusal:
        raise Refused(code, str(refusal)) from None


def _check_type(topic: TopicSettings, properties: Mapping[str, str]) -> None:
    """Check that a topic takes a message with these properties.

    Source: RocketMQ ``TopicMessageType.parseFromMessageProperty``: what counts is what a message
    has, and not what its sender calls it.

    Raises:
        Refused: it does not.
    """
    if properties.get("TRAN_MSG") == "true":
        kind = MessageType.TRANSACTION
    elif TIMED in properties:
        kind = MessageType.DELAY
    else:
        kind = untimed_type_of(properties)
    if kind not in types_of(topic) and not topic.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        names = ", ".join(each.name for each in types_of(topic))
        text = f"topic {topic.topic!r} takes {names}; see its attribute message.type"
        raise Refused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)


def _add_lite_topic(
    context: BrokerContext, topic: str, lite_topic: str, properties: dict[str, str]
) -> None:
    """Have a message in the light queue of its lite topic.

    Raises:
        Refused: there cannot be such a lite topic, or the store has no light queues.
    """
    try:
        properties[LISTED] = light_queue_of(topic, lite_topic)
        check_light_queues(context, topic)
    except ValueError as error:
        raise Refused(Code.ILLEGAL_LITE_TOPIC, str(error)) from None
    except Refusal as error:
        raise Refused(Code.LITE_TOPIC_QUOTA_EXCEEDED, str(error)) from None
    properties[LITE_TOPIC] = lite_topic


def _checked_properties(given: Any) -> dict[str, str]:
    """Return a message's own properties, after a look at tag and keys."""
    found, system = dict(given.user_properties), given.system_properties
    tag, keys = system.tag, list(system.keys)
    if len(found) > _PROPERTY_COUNT_MAX:
        text = f"{len(found)} properties; {_PROPERTY_COUNT_MAX} at most"
        raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)
    whole = "".join([*found, *found.values(), tag, *keys])
    # All texts at once; one by one only where this finds something.
    is_usual = _is_plain(whole) and "" not in found and RESERVED.isdisjoint(found)
    if not is_usual or "|" in tag or not all(map(str.strip, (tag, *keys))):
        _check_each(found, tag, keys)
    size = len(whole) if whole.isascii() else len(whole.encode())
    if size > _PROPERTIES_MAX:
        text = f"properties of {size} bytes; {_PROPERTIES_MAX} at most"
        raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)
    return found


def _check_each(properties: Mapping[str, str], tag: str, keys: Sequence[str]) -> None:
    """Check the texts of a message one by one.

    Raises:
        Refused: one of them is not valid.
    """
    for name, value in properties.items():
        if not name or name in RESERVED or not _is_plain(name) or not _is_plain(value):
            text = f"property {name[:100]!r} is reserved, or has control characters"
            raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, text)
    if tag and (not tag.strip() or "|" in tag or not _is_plain(tag)):
        raise Refused(Code.ILLEGAL_MESSAGE_TAG, f"tag {tag[:100]!r} is not valid")
    if not all(_is_plain(key) and (not key or key.strip()) for key in keys):
        raise Refused(Code.ILLEGAL_MESSAGE_KEY, "a key is blank or has control characters")


def _is_plain(text: str) -> bool:
    """Whether a text has no control characters, by Java's ``isISOControl``."""
    return _CONTROL.search(text) is None


def _without_ends(text: str) -> str:
    """Return a text without the characters that end names and values of properties."""
    return text.replace("\x01", "").replace("\x02", "")


def _need(context: Any, plugin: str, what: str) -> None:
    if not context.has(plugin):
        raise Refused(Code.NOT_IMPLEMENTED, str(context.missing(plugin, what)))


def _code_of(error: PutError) -> Code:
    if isinstance(error, LightQueueCountError):
        return Code.LITE_TOPIC_QUOTA_EXCEEDED
    return Code.ILLEGAL_DELIVERY_TIME if error.field == TIMED else Code.INTERNAL_SERVER_ERROR
