"""`OutgoingMessage`: a message as it travels, checked and compressed once.

Source: RocketMQ ``Validators``, ``DefaultMQProducerImpl#sendKernelImpl``, ``MessageBatch``.
"""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import MessageIllegalError, MessageTooLargeError, PropertiesSizeError
from reput.record import (
    Message,
    check_topic,
    encode_properties,
    encode_property_text,
    parse_properties,
)
from reput_client.remoting import BatchEntry, encode_batch
from reput_tools.offline import FORBIDDEN_TOPICS

if TYPE_CHECKING:
    from reput_client.config import ClientOptions

UNIQUE_KEY: Final = "UNIQ_KEY"
DELAY: Final = "DELAY"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
TRANSACTIONAL: Final = "TRAN_MSG"
MESSAGE_TYPE: Final = "MSG_TYPE"
_DELIVER_MS: Final = "TIMER_DELIVER_MS"
_DELAY_MS: Final = "TIMER_DELAY_MS"
_TIMES: Final = (DELAY, _DELIVER_MS, _DELAY_MS, "TIMER_DELAY_SEC")
_RETRY_PREFIX: Final = "%RETRY%"
_PROPERTIES_MAX: Final = 32_767
_COMPRESSED: Final = 0x301  # a body in zlib; readers of 4.x look at the lowest bit only
_PREPARED: Final = 0x4


@attrs.frozen(kw_only=True)
class Delay:
    """When a message is to be delivered: one of the three, or none for at once."""

    level: int | None = None
    """1 for 1 s to 18 for 2 h, unless the broker's operator has set other levels."""
    delay: float | dt.timedelta | None = None
    """Seconds from now (brokers since 5.0)."""
    deliver_at: int | dt.datetime | None = None
    """A time, or ms since the epoch (brokers since 5.0)."""

    def properties(self) -> dict[str, str]:
        """Return the properties of the delay.

        Raises:
            ValueError: several of the three, a level below 1, or a time without a zone.
        """
        if self.level is self.delay is self.deliver_at is None:
            return {}  # nearly always, so it costs nothing
        given = [name for name, value in attrs.asdict(self).items() if value is not None]
        if len(given) > 1:
            raise ValueError(f"one of level, delay and deliver_at expected, found {given}")
        if self.level is not None:
            if self.level < 1:
                raise ValueError(f"level {self.level}: the first one is 1")
            return {DELAY: str(self.level)}
        if self.delay is not None:
            is_span = isinstance(self.delay, dt.timedelta)
            seconds = self.delay.total_seconds() if is_span else self.delay  # type: ignore[union-attr]
            return {_DELAY_MS: str(max(round(float(seconds) * 1000), 0))}  # type: ignore[arg-type]
        assert self.deliver_at is not None
        return {_DELIVER_MS: str(_timestamp_of(self.deliver_at))}


def _timestamp_of(moment: int | dt.datetime) -> int:
    if not isinstance(moment, dt.datetime):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"deliver_at {moment}: a time with a zone expected, as {moment}+00:00")
    return round(moment.timestamp() * 1000)


def properties_of(message: Message) -> dict[str, str]:
    """Return all properties of a message, its keys and tags among them.

    Raises:
        MessageIllegalError: a name or value would be read back as something else.
    """
    return parse_properties(encode_property_text(message))


def without_delay(message: Message) -> Message:
    """Return a message that is delivered at once, whatever delay it has."""
    properties = properties_of(message)
    if properties.keys().isdisjoint(_TIMES):
        return message
    kept = {name: value for name, value in properties.items() if name not in _TIMES}
    return attrs.evolve(message, tags=None, keys=None, properties=kept)


@attrs.frozen
class OutgoingMessage:
    """A message, or a batch of messages, without the queue that it is sent to."""

    topic: str
    body: bytes
    properties: str
    """The property text."""
    msg_id: str
    """Its key, or those of all messages of a batch, with commas."""
    sys_flag: int = 0
    flag: int = 0
    born_timestamp: int = 0
    is_batch: bool = False
    is_reply: bool = False
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    is_for_later: bool = False
    """Whether it comes to its topic later: delayed, or half of a transaction."""

    @classmethod
    def of(
        cls,
        message: Message,
        options: ClientOptions,
        new_key: Callable[[], str],
        now: int,
        more: Mapping[str, str] | None = None,
    ) -> OutgoingMessage:
        """Return one message as it travels.

        Args:
            message: the message; its queue and its host are not looked at.
            options: limits, and what is compressed.
            new_key: makes a key for a message that has none.
            now: ms.
            more: properties that take the place of the message's.

        Raises:
            MessageIllegalError: a field that brokers refuse (`MessageTooLargeError` for sizes).
            PropertiesSizeError: the encoded properties are over 32,767 bytes.
        """
        _check(message, options)
        properties = properties_of(message)
        if more:
            if not more.keys().isdisjoint(_TIMES):
                properties = {k: v for k, v in properties.items() if k not in _TIMES}
            properties.update(more)
        msg_id = properties.get(UNIQUE_KEY) or new_key()
        properties[UNIQUE_KEY] = msg_id
        times, most = 0, None
        if message.topic.startswith(_RETRY_PREFIX):
            times = _number(properties.pop(RECONSUME_TIME, "0"))
            if MAX_RECONSUME_TIMES in properties:
                most = _number(properties.pop(MAX_RECONSUME_TIMES))
        body, flag = message.body, message.sys_flag
        if options.compress_level and not flag & 1 and len(body) >= options.compress_from:
            body, flag = zlib.compress(body, options.compress_level), flag | _COMPRESSED
        if properties.get(TRANSACTIONAL) == "true":
            flag |= _PREPARED
        return cls(
            message.topic,
            body,
            _property_text(properties),
            msg_id,
            flag,
            message.flag,
            now if message.born_timestamp is None else message.born_timestamp,
            is_reply=properties.get(MESSAGE_TYPE) == "reply",
            reconsume_times=times,
            max_reconsume_times=most,
            is_for_later=bool(flag & _PREPARED) or not properties.keys().isdisjoint(_TIMES),
        )

    @classmethod
    def of_batch(
        cls,
        messages: Iterable[Message],
        options: ClientOptions,
        new_key: Callable[[], str],
        now: int,
    ) -> OutgoingMessage:
        """Return messages of one topic as a batch, which is stored in one queue, all or none.

        Raises:
            MessageIllegalError: as for `of`; or no message, several topics, a delayed message, or
                one that waits for the disk while another does not.
            PropertiesSizeError: as for `of`.
        """
        given = list(messages)
        if not given:
            raise MessageIllegalError("batch", None, None, "one message at least expected")
        members, keys, waits = [], [], set()
        for each in given:
            _check(each, options)
            properties = properties_of(each)
            _check_member(each, given[0].topic, properties)
            waits.add(properties.get("WAIT", "true"))
            key = properties.get(UNIQUE_KEY) or new_key()
            properties[UNIQUE_KEY] = key
            keys.append(key)
            members.append(BatchEntry(each.body, _property_text(properties).encode(), each.flag))
        if len(waits) > 1:
            raise MessageIllegalError(
                "batch", None, None, "some messages wait for the disk (WAIT), and some do not"
            )
        body = encode_batch(members)
        if len(body) > options.max_message_size:
            raise MessageTooLargeError(
                "batch", len(body), options.max_message_size, "send it as several batches; bytes"
            )
        return cls(
            given[0].topic,
            body,
            encode_properties({"WAIT": waits.pop()}),
            ",".join(keys),
            born_timestamp=now,
            is_batch=True,
        )


def _check(message: Message, options: ClientOptions) -> None:
    check_topic(message.topic)
    if message.topic in FORBIDDEN_TOPICS:
        text = "brokers keep this topic for themselves"
        raise MessageIllegalError("topic", message.topic, None, text)
    if not isinstance(message.body, bytes):
        raise MessageIllegalError("body", type(message.body).__name__, None, "bytes expected")
    if not message.body:
        raise MessageIllegalError("body", None, None, "brokers store no message without a body")
    if len(message.body) > options.max_message_size:
        raise MessageTooLargeError(
            "body", len(message.body), options.max_message_size, "too many bytes for one message"
        )


def _check_member(message: Message, topic: str, properties: Mapping[str, str]) -> None:
    if message.topic != topic:
        text = f"a batch is of one topic, and its first message of {topic!r}"
        raise MessageIllegalError("topic", message.topic, None, text)
    if topic.startswith(_RETRY_PREFIX):
        raise MessageIllegalError("topic", topic, None, "a batch takes no retry topic")
    delayed = [name for name in _TIMES if properties.get(name, "0") != "0"]
    if delayed:
        text = f"a batch takes no delayed message ({delayed[0]}); send it by itself"
        raise MessageIllegalError("properties", None, None, text)


def _property_text(properties: Mapping[str, str]) -> str:
    text = encode_properties(properties)
    size = len(text.encode())
    if size > _PROPERTIES_MAX:
        raise PropertiesSizeError("properties", size, _PROPERTIES_MAX, "encoded bytes")
    return text


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
