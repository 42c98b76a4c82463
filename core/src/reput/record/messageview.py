"""`MessageView`: a stored message as a view of its record, parsed when a field is asked for."""

from __future__ import annotations

import ipaddress
from typing import Any, cast

from reput.engine import compiled
from reput.errors import CorruptFileError
from reput.record.checksum import crc32, record_crc_matches
from reput.record.compression import compression_name
from reput.record.layout import (
    HEADER,
    HEADERS,
    HOSTS_V6,
    KEY_SEPARATOR,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    RECORD_MIN_SIZE,
    TRANSACTION_MASK,
)
from reput.record.messageids import offset_message_id
from reput.record.messages.message import Host, Message
from reput.record.text.javatext import java_string_hash, java_text
from reput.record.text.properties import parse_properties

_from_bytes = int.from_bytes
_new = object.__new__
_HOST_V4_SIZE = 8
_SHOWN_BODY = 64
_MAGIC_V1_END = MAGIC_V1 & 0xFF  # the byte in which the two magic numbers differ


def _head_of(record: bytes) -> tuple[Any, ...]:
    head = HEADER.unpack_from(record)
    return HEADERS[head[7] & HOSTS_V6].unpack_from(record) if head[7] & HOSTS_V6 else head


def host_of(packed: bytes) -> Host:
    """Return address and port of a host field (8 bytes IPv4, 20 bytes IPv6)."""
    port = _from_bytes(packed[-4:], "big", signed=True)
    if len(packed) == _HOST_V4_SIZE:  # in a tenth of the time
        return "%d.%d.%d.%d" % tuple(packed[:4]), port  # noqa: UP031
    return str(ipaddress.ip_address(packed[:-4])), port


def _number(place: int, doc: str) -> int:
    """Return a property of `MessageView`: the number at ``place`` of the record's header."""

    def get(view: MessageView) -> int:
        return view._head[place]  # type: ignore[no-any-return]

    return cast("int", property(get, doc=doc))


@compiled
class MessageView:
    """One stored message. It has a copy of the record's bytes, and outlives its store.

    Args:
        record: the record's bytes.
        physical_offset: where the record is in the log; None for the offset that it states.

    Raises:
        CorruptFileError: ``record`` is not a whole record.
    """

    __slots__ = ("_head", "_places", "_properties", "_topic", "physical_offset", "record")

    record: bytes
    physical_offset: int
    _head: tuple[Any, ...]
    _places: tuple[int, int, int, int] | None
    _properties: dict[str, str]
    _topic: str

    def __init__(self, record: bytes, physical_offset: int | None = None) -> None:
        if len(record) < RECORD_MIN_SIZE:
            raise _corrupt(physical_offset, f"{len(record)} bytes are not a record")
        head = HEADER.unpack_from(record)
        self.record = record
        self.physical_offset = head[6] if physical_offset is None else physical_offset
        self._head = head
        self._places = None
        if head[0] != len(record) or (head[1] != MAGIC_V1 and head[1] != MAGIC_V2):
            raise _corrupt(self.physical_offset, "size or magic of a record expected")
        if head[7] & HOSTS_V6:
            if HEADERS[head[7] & HOSTS_V6].size > len(record):
                raise _corrupt(self.physical_offset, "the record ends inside its header")
            self._head = _head_of(record)

    @classmethod
    def checked(
        cls, record: bytes, physical_offset: int, places: tuple[int, int, int, int]
    ) -> MessageView:
        """Return a view of a record whose header and lengths the caller has checked."""
        view: MessageView = _new(cls)
        view.record = record
        view.physical_offset = physical_offset
        view._places = places
        return view

    def __getattr__(self, name: str) -> Any:
        # Called for a slot that is not filled yet: most readers do not need all of them.
        value: Any
        if name == "_head":
            value = _head_of(self.record)
        elif name == "_properties":
            value = parse_properties(self.properties_text)
        elif name == "_topic":
            value = java_text(self.topic_bytes)
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        setattr(self, name, value)
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        return MessageView, (self.record, self.physical_offset)

    def __repr__(self) -> str:
        body = self.body
        shown = repr(body) if len(body) <= _SHOWN_BODY else f"{body[:_SHOWN_BODY]!r}…"
        return (
            f"<MessageView {self.topic}/{self.queue_id} queue_offset={self.queue_offset} "
            f"physical_offset={self.physical_offset} body={shown} ({len(body)} bytes)>"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageView):
            return NotImplemented
        return self.record == other.record and self.physical_offset == other.physical_offset

    def __hash__(self) -> int:
        return hash(self.record)

    # ------------------------------------------------------------------ header

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return len(self.record)

    queue_id = _number(3, "The queue of the topic.")
    queue_offset = _number(5, "Ordinal of the message in its queue.")
    stated_offset = _number(6, "The physical offset that the record itself states.")
    sys_flag = _number(7, "Compression, transaction and host bits.")
    body_crc = _number(2, "CRC-32 & 0x7FFFFFFF that the record states for its body.")
    flag = _number(4, "32 bits of the application.")
    born_timestamp = _number(8, "When the producer made the message, ms since the epoch.")
    store_timestamp = _number(10, "When the message was appended to the log, ms since the epoch.")
    reconsume_times = _number(12, "How often consumers have sent the message back.")
    prepared_transaction_offset = _number(
        13, "Physical offset of the half message that a commit or rollback belongs to."
    )

    @property
    def born_host(self) -> Host:
        """The producer's address and port."""
        return host_of(_head_of(self.record)[9])

    @property
    def store_host(self) -> Host:
        """The store's address and port."""
        return host_of(_head_of(self.record)[11])

    @property
    def transaction(self) -> int:
        """The transaction bits of `sys_flag`."""
        return self.sys_flag & TRANSACTION_MASK

    @property
    def compression(self) -> str | None:
        """Name of the algorithm by which the producer compressed the body; None if it did not.

        The store keeps the body as the producer sent it; `reput.record.unpack_body` unpacks it.
        """
        return compression_name(self.sys_flag)

    @property
    def msg_id(self) -> str:
        """Offset message id: store host and physical offset in upper-case hex."""
        return offset_message_id(_head_of(self.record)[11], self.physical_offset)

    # ------------------------------------------------------------------ parts

    def places(self) -> tuple[int, int, int, int]:
        """Return where body, topic name (start and end) and properties stand in the record.

        Raises:
            CorruptFileError: a length inside the record leads out of it.
        """
        if self._places is not None:
            return self._places
        record, head = self.record, self._head
        body_start, body_size = HEADERS[head[7] & HOSTS_V6].size, head[14]
        size_at = body_start + body_size if body_size > 0 else body_start
        topic_start = size_at + (1 if head[1] == MAGIC_V1 else 2)
        if topic_start + 2 > len(record):
            raise _corrupt(self.physical_offset, "the body ends after the record")
        topic_end = topic_start + _from_bytes(record[size_at:topic_start], "big", signed=True)
        if not topic_start <= topic_end <= len(record) - 2:
            raise _corrupt(self.physical_offset, "the topic ends after the record")
        properties_start = topic_end + 2
        properties_size = _from_bytes(record[topic_end:properties_start], "big", signed=True)
        # A negative length counts as none, as in RocketMQ's own length check.
        if properties_start + max(properties_size, 0) != len(record):
            raise _corrupt(self.physical_offset, "the properties do not end with the record")
        self._places = body_start, topic_start, topic_end, properties_start
        return self._places

    @property
    def body(self) -> bytes:
        """The body as stored."""
        start, topic_start, _, _ = self._places or self.places()
        record = self.record
        return record[start : topic_start - (1 if record[7] == _MAGIC_V1_END else 2)]

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._topic

    @property
    def topic_bytes(self) -> bytes:
        """The topic's name as stored."""
        _, start, end, _ = self._places or self.places()
        return self.record[start:end]

    @property
    def properties_text(self) -> bytes:
        """The property text as stored."""
        return self.record[self.places()[3] :]

    @property
    def properties(self) -> dict[str, str]:
        """All properties, tags and keys among them."""
        return self._properties

    @property
    def tags(self) -> str | None:
        """The ``TAGS`` property."""
        return self.properties.get(PROPERTY_TAGS)

    @property
    def tags_code(self) -> int:
        """Java string hash of the tags, 0 without tags."""
        tags = self.tags
        return java_string_hash(tags) if tags else 0

    @property
    def keys(self) -> tuple[str, ...]:
        """The words of the ``KEYS`` property."""
        words = self.properties.get(PROPERTY_KEYS, "").split(KEY_SEPARATOR)
        return tuple(filter(None, words))

    @property
    def unique_key(self) -> str | None:
        """The producer's own id of the message (``UNIQ_KEY``)."""
        return self.properties.get(PROPERTY_UNIQ_KEY)

    def body_matches(self) -> bool:
        """Whether the body matches its checksum; an empty body always does."""
        body, crc = self.body, self.body_crc
        return not body or crc32(body) & 0x7FFFFFFF == crc

    def record_matches(self) -> bool:
        """Whether the record has a checksum of all of its bytes (`record_crc`), which matches."""
        size = self.size - self.places()[3]
        return record_crc_matches(self.record, size, required=True)

    def to_message(self) -> Message:
        """Return a message to put again; a new put sets position, store time and store host."""
        return Message(
            topic=self.topic,
            body=self.body,
            queue_id=self.queue_id,
            properties=self.properties_text,
            flag=self.flag,
            sys_flag=self.sys_flag & ~HOSTS_V6,
            born_timestamp=self.born_timestamp,
            born_host=self.born_host,
            reconsume_times=self.reconsume_times,
            prepared_transaction_offset=self.prepared_transaction_offset,
        )


def _corrupt(physical_offset: int | None, reason: str) -> CorruptFileError:
    return CorruptFileError("commitlog", physical_offset or 0, reason)


def message_at(record: bytes, physical_offset: int) -> MessageView | None:
    """Return ``record`` as the message at ``physical_offset``; None if it is not such a record."""
    try:
        view = MessageView(record, physical_offset)
        view.places()
    except CorruptFileError:
        return None
    return view if view.stated_offset == physical_offset else None
