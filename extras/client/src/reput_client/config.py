"""Options of a client."""

from __future__ import annotations

import ssl
from typing import Any, Final

import attrs
from attrs.validators import instance_of, optional

from reput.plugin import INT32_MAX, integer_between, number_between

_MIB: Final = 1 << 20
_SECONDS_MAX: Final = 2_147_483
"""24.8 days, or ``INT32_MAX`` ms, as the Java client has them."""


def _number(default: float, least: float = 0.001) -> Any:
    return attrs.field(default=default, validator=number_between(least, _SECONDS_MAX))


def _count(default: int, least: int = 0, most: int = INT32_MAX) -> Any:
    return attrs.field(default=default, validator=integer_between(least, most))


def _text() -> Any:
    return attrs.field(default=None, validator=optional(instance_of(str)))


@attrs.frozen(kw_only=True)
class ClientOptions:
    """Options of a client. The names in parentheses are those of the Java client."""

    access_key: str | None = _text()
    """Signs every request, with ``secret_key``, for brokers with access control."""
    secret_key: str | None = attrs.field(
        default=None, validator=optional(instance_of(str)), repr=False
    )
    security_token: str | None = attrs.field(
        default=None, validator=optional(instance_of(str)), repr=False
    )
    tls: ssl.SSLContext | None = None
    """Encrypts every connection; None for plain ones."""
    address: str | None = _text()
    """This machine's address, as it stands in client ids (``clientIP``); found out if left out."""
    instance: str | None = _text()
    """Takes the place of process id and time in client ids (``instanceName``); no two clients of
    one machine may have the same."""
    connect_timeout: float = _number(3.0)
    """Seconds."""
    request_timeout: float = _number(5.0)
    """Seconds for requests that have no time limit of their own."""
    route_interval: float = _number(30.0)
    """Seconds between looks for changed routes (``pollNameServerInterval``)."""
    heartbeat_interval: float = _number(30.0)
    """Seconds (``heartbeatBrokerInterval``); brokers forget a client after 120."""
    rebalance_interval: float = _number(20.0)
    """Seconds."""
    retry_interval: float = _number(1.0)
    """Seconds until a failed fetch is tried again (``pullTimeDelayMillsWhenException``)."""
    idle_timeout: float = _number(120.0)
    """Seconds without a request after which a connection is closed."""
    local_offsets: str | None = _text()
    """Directory in which consumers that broadcast keep ``.rocketmq_offsets``; the user's home
    directory if left out, where the Java client keeps it."""

    # ---------------------------------------------------------------- producers

    send_timeout: float = _number(3.0)
    """Seconds for all tries of one message together (``sendMsgTimeout``)."""
    retries: int = _count(2)
    """How often a failed send is tried again (``retryTimesWhenSendFailed``)."""
    retry_unsafe: bool = False
    """Whether a message that was stored, but perhaps not safely, is sent to another broker
    (``retryAnotherBrokerWhenNotStoreOK``)."""
    pass_over_slow: bool = False
    """Whether brokers that are slow or fail are passed over for some time
    (``sendLatencyFaultEnable``)."""
    max_message_size: int = _count(4 * _MIB, 1, 15 * _MIB)
    """Most bytes of a body, or of all bodies of a batch (``maxMessageSize``)."""
    compress_from: int = _count(4096, 1)
    """Bytes from which bodies are compressed (``compressMsgBodyOverHowmuch``)."""
    compress_level: int = _count(5, 0, 9)
    """Level of zlib; 0 to compress nothing."""
    topic_queue_count: int = _count(4, 1)
    """Queues of a topic that comes into being by being sent to (``defaultTopicQueueNums``)."""
