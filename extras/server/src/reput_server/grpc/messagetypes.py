"""The classes of the messages, and the numbers of the public interface's enumerations."""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any, Final

from reput_server.grpc.protoschema import message_classes

m: Final[Any] = SimpleNamespace(**message_classes())
"""The classes by name, as in ``m.Settings``."""


class Code(enum.IntEnum):
    """What an answer says; gRPC's own status is OK."""

    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_LITE_TOPIC = 40020
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    TOO_MANY_REQUESTS = 42900
    LITE_TOPIC_QUOTA_EXCEEDED = 42901
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED = 42902
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_SERVER_ERROR = 50001
    NOT_IMPLEMENTED = 50100
    MASTER_PERSISTENCE_TIMEOUT = 50401
    UNSUPPORTED = 50500


class MessageType(enum.IntEnum):
    """What kind of delivery a message wants."""

    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4
    LITE = 5
    PRIORITY = 6


class ClientType(enum.IntEnum):
    """What a client is."""

    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3
    LITE_PUSH_CONSUMER = 5
    LITE_SIMPLE_CONSUMER = 6


class Permission(enum.IntEnum):
    """What a queue permits."""

    NONE = 1
    READ = 2
    WRITE = 3
    READ_WRITE = 4


class Broken(Exception):
    """A call ends without an answer, as if its connection broke."""


class Refused(Exception):
    """A call is answered with a code that says no, and a text that says why."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


def status(code: int = Code.OK, text: str = "OK") -> Any:
    """Return a status."""
    return m.Status(code=code, message=text)


def milliseconds_of(value: Any) -> int:
    """Return a time or a duration in ms."""
    return int(value.seconds) * 1_000 + int(value.nanos) // 1_000_000


def set_milliseconds(target: Any, milliseconds: int) -> None:
    """Set a time or a duration."""
    target.seconds, rest = divmod(milliseconds, 1_000)
    target.nanos = rest * 1_000_000
