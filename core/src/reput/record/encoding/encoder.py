"""Encodes one message as a record.

Encoding has two halves, because three fields are known only under the append lock: queue offset,
physical offset and store time. `Encoder.prepare` does everything else outside the lock;
`Encoder.finish` packs the header and joins the parts.

Source: RocketMQ 5 ``MessageExtEncoder``; v1 records, v2 where the topic has more than 127
characters. Refused on purpose, where RocketMQ writes something that reads back differently:
property names and values with separators in them, text that is not UTF-8, keys with spaces inside.
"""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Callable

from reput.errors import MessageIllegalError, MessageTooLargeError, PropertiesSizeError
from reput.record.checksum import crc32
from reput.record.layout import (
    BORN_HOST_V6,
    CRC_PROPERTY_NAME,
    CRC_PROPERTY_SIZE,
    DEAD_LETTER_PREFIX,
    FILLER_TOPIC,
    HEADER_DTYPE,
    HEADER_SIZE,
    HEADERS,
    HOST_SIZE,
    HOST_SIZE_V6,
    HOSTS_V6,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_SIZE_MAX,
    PROPERTY_INNER_NUM,
    PROPERTY_LIGHT_QUEUES,
    RECORD_MIN_SIZE,
    RECORD_OVERHEAD_MAX,
    RETRY_PREFIX,
    STORE_HOST_V6,
    TOPIC_SIZE_MAX,
    TOPIC_SIZE_V1_MAX,
    TRANSACTION_ROLLBACK,
)
from reput.record.messageids import pack_host, packed_host
from reput.record.messages.message import (
    NUMBERS,
    Message,
    plain_integer,
    plain_message,
    plain_text,
    property_text,
)

logger = logging.getLogger(__name__)

_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]+")
_TOPICS_KEPT = 1 << 16
# The header without its size, by the bits of its hosts.
_HEADS = {flag: struct.Struct(f">{head.format[2:]}") for flag, head in HEADERS.items()}
_PLAIN_HEAD = _HEADS[0]
_SPECIAL_TEXT = b"INNER_"  # beginning of the names of the special properties


def check_topic(topic: str) -> None:
    """Refuse a text that cannot be a topic, and so must not become the name of a directory.

    Raises:
        MessageIllegalError: ``topic`` is not a text, is empty, is too long, or has characters that
            RocketMQ does not allow.
    """
    if type(topic) is not str:
        topic = plain_text("topic", topic)
    if not topic:
        raise MessageIllegalError("topic", topic, None, "a topic's name expected")
    if _TOPIC.fullmatch(topic) is None:
        raise MessageIllegalError(
            "topic", topic, None, "only letters, digits and % | _ - are allowed"
        )
    is_of_group = topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))
    limit = TOPIC_SIZE_MAX if is_of_group else TOPIC_SIZE_V1_MAX
    if len(topic) > limit:
        raise MessageIllegalError("topic", len(topic), limit, "too many characters")


Prepared = tuple[int, struct.Struct, int, int, Message, bytes, bytes, bytes, bytes, int, bool, int]
"""A message, encoded as far as possible without its position in the log.

A plain tuple, as every put makes one: size of the record, struct of its head, magic, checksum of
the body, message, body, topic prefixed with its length, properties, packed born host, system flag,
whether the message is special (light queues, inner batch, record checksum), and its queue.
"""


TakeTurns = Callable[[str, int], tuple[int, int]]
"""Chooses queues, in turn, for so many messages of a topic; returns the queue of the first message
and the number of queues that take turns."""


class Encoder:
    """Encodes messages with the host and the limits of one store. Thread-safe."""

    def __init__(
        self,
        store_host: bytes = pack_host("127.0.0.1", 10_911),
        max_message_size: int = 4 * 1024 * 1024,
        *,
        record_crc: bool = False,
        take_turns: TakeTurns = lambda topic, count: (0, 1),
    ) -> None:
        self.store_host = store_host
        self.take_turns = take_turns
        """Chooses the queues of messages without a queue; see `TakeTurns`."""
        self.max_message_size = max_message_size
        self.record_crc = record_crc
        self._store_flag = STORE_HOST_V6 if len(store_host) == HOST_SIZE_V6 else 0
        self._topics: dict[str, tuple[int, bytes]] = {}
        self._properties_max = PROPERTIES_SIZE_MAX - (CRC_PROPERTY_SIZE if record_crc else 0)
        # Size of a record without body, topic and properties.
        self._fixed_size = HEADER_SIZE + 2 + len(store_host) - HOST_SIZE
        if record_crc:
            self._fixed_size += CRC_PROPERTY_SIZE
        self._record_max = max_message_size + RECORD_OVERHEAD_MAX
        self._has_warned = False

    def warn_of_tags(self, tags: str) -> None:
        """Warn, once, of a message whose ``tags`` no filter selects."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "tags=%r: a message has one tag, so no filter selects this one; keys can be "
                "several. Later messages with such tags are not reported",
                tags,
            )

    def prepare(self, message: Message) -> Prepared:
        """Check ``message`` and encode all of it that does not depend on its position.

        Raises:
            MessageIllegalError: a field that the format cannot hold.
            MessageTooLargeError: the body, or the whole record, is over the limit.
            PropertiesSizeError: the property text is over the limit.
        """
        try:
            name, queue_id, sys_flag = message.topic, message.queue_id, message.sys_flag
            body, given = message.body, message.properties
            if (
                type(name) is not str
                or (queue_id is not None and type(queue_id) is not int)
                or type(sys_flag) is not int
                or type(body) is not bytes
                or (given is not None and type(given) is not dict and type(given) is not bytes)
            ):
                raise AttributeError
        except AttributeError:
            message = plain_message(message)
            name, queue_id, sys_flag = message.topic, message.queue_id, message.sys_flag
            body, given = message.body, message.properties
        known = self._topics.get(name)
        magic, topic = self.encode_topic(name) if known is None else known
        special = False
        if given is not None:
            special = (
                _SPECIAL_TEXT in given
                if type(given) is bytes
                else (PROPERTY_LIGHT_QUEUES in given or PROPERTY_INNER_NUM in given)
            )
        properties = property_text(message.keys, message.tags, given)
        if message.tags is not None and "||" in message.tags:
            self.warn_of_tags(message.tags)
        if self.record_crc:
            properties, special = _without_crc(properties), True
        elif properties[-CRC_PROPERTY_SIZE:].startswith(CRC_PROPERTY_NAME):
            # The checksum of a record in another store: here it would make the record look corrupt.
            properties = _without_crc(properties)
            if properties[-CRC_PROPERTY_SIZE:].startswith(CRC_PROPERTY_NAME):
                raise MessageIllegalError(
                    "properties", None, None, "the last value ends like the checksum of a record"
                )
        if len(properties) > self._properties_max:
            raise PropertiesSizeError(
                "properties", len(properties), self._properties_max, "encoded bytes"
            )
        if len(body) > self.max_message_size:
            raise MessageTooLargeError("body", len(body), self.max_message_size, "bytes")
        size = self._fixed_size + len(body) + len(topic) + len(properties)
        head, born_host = _PLAIN_HEAD, self.store_host
        if message.born_host is not None or self._store_flag or sys_flag & HOSTS_V6:
            if message.born_host is not None:
                born_host = packed_host("born_host", message.born_host)
            sys_flag = sys_flag & ~HOSTS_V6 | self._store_flag
            if len(born_host) == HOST_SIZE_V6:
                sys_flag |= BORN_HOST_V6
                size += HOST_SIZE_V6 - HOST_SIZE
            head = _HEADS[sys_flag & HOSTS_V6]
        if size > self._record_max:
            raise MessageTooLargeError("record", size, self._record_max, "bytes")
        if queue_id is None:
            queue_id, _ = self.take_turns(name, 1)
        elif queue_id < 0:
            raise MessageIllegalError("queue_id", queue_id, None, "0 or more expected")
        crc = crc32(body) & 0x7FFFFFFF
        return (
            size,
            head,
            magic,
            crc,
            message,
            body,
            topic,
            properties,
            born_host,
            sys_flag,
            special,
            queue_id,
        )

    def finish(
        self, prepared: Prepared, queue_offset: int, physical_offset: int, store_timestamp: int
    ) -> bytes:
        """Return the record's bytes after its size word, which the log writes last.

        Raises:
            MessageIllegalError: a number does not fit its field.
        """
        (
            size,
            head,
            magic,
            crc,
            message,
            body,
            topic,
            properties,
            born_host,
            sys_flag,
            _,
            queue_id,
        ) = prepared
        born = message.born_timestamp
        try:
            packed = head.pack(
                magic,
                crc,
                queue_id,
                message.flag,
                queue_offset,
                physical_offset,
                sys_flag,
                store_timestamp if born is None else born,
                born_host,
                store_timestamp,
                self.store_host,
                message.reconsume_times,
                message.prepared_transaction_offset,
                len(body),
            )
        except struct.error as error:
            raise _unpackable(message, str(error)) from None
        if self.record_crc:
            return _with_crc(size, packed, body, topic, properties)
        return b"".join((packed, body, topic, len(properties).to_bytes(2, "big"), properties))

    def encode(
        self, message: Message, queue_offset: int, physical_offset: int, store_timestamp: int
    ) -> bytes:
        """Return the whole record of ``message`` at that position; errors as in `prepare`."""
        prepared = self.prepare(message)
        rest = self.finish(prepared, queue_offset, physical_offset, store_timestamp)
        return prepared[0].to_bytes(4, "big") + rest

    def encode_topic(self, topic: str) -> tuple[int, bytes]:
        """Return the magic that ``topic`` needs, and its name prefixed with the name's length."""
        known = self._topics.get(topic)
        if known is None:
            check_topic(topic)
            topic = plain_text("topic", topic)
            name = topic.encode()
            if len(name) > TOPIC_SIZE_V1_MAX:
                known = MAGIC_V2, len(name).to_bytes(2, "big") + name
            else:
                known = MAGIC_V1, len(name).to_bytes(1, "big") + name
            if len(self._topics) >= _TOPICS_KEPT:
                self._topics.clear()
            self._topics[topic] = known
        return known


def encode_filler(
    size: int,
    physical_offset: int,
    store_timestamp: int,
    body: bytes,
    store_host: bytes,
    *,
    record_crc: bool = False,
) -> bytes:
    """Return a filler record of exactly ``size`` bytes, which replaces lost records.

    Its flags are of a rolled-back message, which no queue and no index lists. To fit the size, the
    topic is cut, and the body is padded with spaces or left out.

    Args:
        size: bytes of the record, at least `RECORD_MIN_SIZE`.
        physical_offset: where the record stands.
        store_timestamp: ms; also the born timestamp.
        body: text for the record, if it fits.
        store_host: packed host; left out unless it is IPv4.
        record_crc: add the whole-record checksum, if it fits.
    """
    room = size - RECORD_MIN_SIZE
    crc_size = CRC_PROPERTY_SIZE if record_crc and room >= CRC_PROPERTY_SIZE else 0
    topic = FILLER_TOPIC.encode()[: room - crc_size]
    body_size = room - crc_size - len(topic)
    body = body.ljust(body_size) if len(body) <= body_size else b" " * body_size
    host = store_host if len(store_host) == HOST_SIZE else bytes(HOST_SIZE)
    prepared = (
        size,
        _PLAIN_HEAD,
        MAGIC_V1,
        crc32(body) & 0x7FFFFFFF,
        Message(FILLER_TOPIC),
        body,
        len(topic).to_bytes(1, "big") + topic,
        b"",
        host,
        TRANSACTION_ROLLBACK,
        False,
        0,
    )
    encoder = Encoder(host, record_crc=crc_size > 0)
    rest = encoder.finish(prepared, 0, physical_offset, store_timestamp)
    return size.to_bytes(4, "big") + rest


def _unpackable(message: Message, reason: str) -> MessageIllegalError:
    """Return the error that names the number of ``message`` that does not fit its field."""
    for field in NUMBERS:
        value, bits = getattr(message, field), HEADER_DTYPE[field].itemsize * 8
        try:
            value = 0 if value is None else plain_integer(field, value)
        except MessageIllegalError as error:
            return error
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            return MessageIllegalError(field, value, (1 << bits - 1) - 1, f"{bits} bits, signed")
    return MessageIllegalError("message", None, None, reason)


# --------------------------------------------------------------------------- whole-record checksum


def _without_crc(properties: bytes) -> bytes:
    """Return a property text without a checksum property, ended so that one can follow."""
    if CRC_PROPERTY_NAME in properties:
        entries = properties.split(b"\x02")
        properties = b"\x02".join(
            entry for entry in entries if not entry.startswith(CRC_PROPERTY_NAME)
        )
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    return properties


def _with_crc(size: int, packed: bytes, body: bytes, topic: bytes, properties: bytes) -> bytes:
    properties_size = (len(properties) + CRC_PROPERTY_SIZE).to_bytes(2, "big")
    rest = b"".join((packed, body, topic, properties_size, properties))
    crc = crc32(rest, crc32(size.to_bytes(4, "big"))) & 0x7FFFFFFF
    # Ten digits, the lowest first, as RocketMQ writes them.
    digits = str(crc)[::-1].ljust(10, "0")
    return rest + CRC_PROPERTY_NAME + digits.encode() + b"\x02"
