"""What a broker registers at a name server: its topics, as JSON or packed.

Packed is a zlib stream: a text is its size (4 bytes) and its bytes; a topic is a text of five
words. Source: RocketMQ ``RegisterBrokerBody``, ``TopicConfig``, ``DataVersion``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

import attrs

from reput_client.remoting.bodies.bodyobject import BodyObject
from reput_client.remoting.bodies.loosejson import write_body
from reput_client.remoting.errors import BodyError

_WHAT: Final = "registration of a broker"
_SIZE: Final = struct.Struct(">i")
_UNPACKED_SIZE_MAX: Final = 64 << 20
_WORDS: Final = 5
FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")


@attrs.frozen(kw_only=True)
class TopicSettings:
    """A topic as a broker has it."""

    topic: str
    read_queues: int = 16
    write_queues: int = 16
    permissions: int = 6
    """Bits: 4 to read, 2 to write, 1 for topics that take over settings."""
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    is_ordered: bool = False
    attributes: Mapping[str, str] = attrs.field(factory=dict)

    def members(self) -> dict[str, object]:
        """Return the members as a body has them."""
        return {
            "attributes": dict(self.attributes),
            "order": self.is_ordered,
            "perm": self.permissions,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.topic,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }


@attrs.frozen(kw_only=True)
class Registration:
    """The body of a registration."""

    topics: Mapping[str, TopicSettings] = attrs.field(factory=dict)
    version: Mapping[str, int] = attrs.field(factory=dict)
    """The data version of the topics: ``counter``, ``timestamp``, perhaps ``stateVersion``."""
    filter_servers: tuple[str, ...] = ()

    def encode(self) -> bytes:
        """Return the body as JSON."""
        return write_body(
            {
                "filterServerList": self.filter_servers,
                "topicConfigSerializeWrapper": {
                    "dataVersion": self.version,
                    "topicConfigTable": {
                        name: each.members() for name, each in self.topics.items()
                    },
                },
            }
        )

    @classmethod
    def decode(cls, body: bytes, *, is_packed: bool = False) -> Registration:
        """Return what a body says.

        Raises:
            BodyError: it is not a registration.
        """
        if is_packed:
            return _unpacked(body)
        found = BodyObject.of(body, _WHAT)
        wrapper = found.member("topicConfigSerializeWrapper")
        topics = map(topic_settings_of, wrapper.table("topicConfigTable").values())
        return cls(
            topics={each.topic: each for each in topics},
            version=data_version_of(wrapper.member("dataVersion")),
            filter_servers=tuple(found.texts("filterServerList")),
        )


def topic_settings_of(found: BodyObject) -> TopicSettings:
    """Return the topic of an object.

    Raises:
        BodyError: it is none.
    """
    attributes = found.member("attributes")
    return TopicSettings(
        topic=found.text("topicName"),
        read_queues=found.integer("readQueueNums", 16, bits=32),
        write_queues=found.integer("writeQueueNums", 16, bits=32),
        permissions=found.integer("perm", 6, bits=32),
        filter_type=found.name("topicFilterType", FILTER_TYPES, "SINGLE_TAG"),
        sys_flag=found.integer("topicSysFlag", 0, bits=32),
        is_ordered=found.flag("order"),
        attributes={str(name): attributes.text(name) for name in attributes.found},
    )


def data_version_of(found: BodyObject) -> dict[str, int]:
    """Return the version of topics that an object is; members that it lacks are left out.

    Raises:
        BodyError: a member is not an integer.
    """
    read = {name: found.integer(name, None) for name in ("counter", "stateVersion", "timestamp")}
    return {name: value for name, value in read.items() if value is not None}


# --------------------------------------------------------------------------- packed


def _unpacked(body: bytes) -> Registration:
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(body, _UNPACKED_SIZE_MAX)
    except zlib.error as error:
        raise BodyError(_WHAT, 0, f"cannot be unpacked: {error}") from None
    if not stream.eof:
        raise BodyError(_WHAT, len(body), f"torn, or unpacks to more than {_UNPACKED_SIZE_MAX}")
    version_text, at = _text(data, 0)
    count, at = _size(data, at)
    topics = {}
    for _ in range(count):  # each takes 4 bytes or more of what is bounded
        text, at = _text(data, at)
        each = _packed_topic(text, at)
        topics[each.topic] = each
    filter_text, at = _text(data, at)
    filters = BodyObject.of(b'{"of":' + (filter_text or b"[]") + b"}", _WHAT)
    return Registration(
        topics=topics,
        version=data_version_of(BodyObject.of(version_text, _WHAT)),
        filter_servers=tuple(filters.texts("of")),
    )


def _packed_topic(text: bytes, at: int) -> TopicSettings:
    words = text.decode("utf-8", "replace").split(" ", _WORDS)
    if len(words) < _WORDS:
        raise BodyError(_WHAT, at, f"a topic of {len(words)} words")
    attributes = BodyObject.of(words[_WORDS].encode() if len(words) > _WORDS else b"", _WHAT)
    numbers = BodyObject(_WHAT, dict(zip(("read", "write", "perm"), words[1:4], strict=True)))
    return TopicSettings(
        topic=words[0],
        read_queues=numbers.integer("read"),
        write_queues=numbers.integer("write"),
        permissions=numbers.integer("perm"),
        filter_type=words[4],
        attributes={str(name): attributes.text(name) for name in attributes.found},
    )


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _size(data, at)
    if size > len(data) - at:
        raise BodyError(_WHAT, at, f"a text of {size} bytes, with {len(data) - at} left")
    return data[at : at + size], at + size


def _size(data: bytes, at: int) -> tuple[int, int]:
    if len(data) - at < _SIZE.size:
        raise BodyError(_WHAT, at, "ends where a size is expected")
    (size,) = _SIZE.unpack_from(data, at)
    if size < 0:
        raise BodyError(_WHAT, at, f"a size of {size}")
    return size, at + _SIZE.size
