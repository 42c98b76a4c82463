"""`SendResult`: what a broker says of a message that it has stored.

Source: RocketMQ ``SendResult`` and ``MQClientAPIImpl#processSendResponse``.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput_consumer import MessageQueue


class SendStatus(enum.IntEnum):
    """How safely a message is stored; the numbers are response codes."""

    OK = 0
    """As safely as the broker is set up to."""
    FLUSH_DISK_TIMEOUT = 10
    """It was not on the broker's disk in time."""
    SLAVE_NOT_AVAILABLE = 11
    """No slave was there to take it."""
    FLUSH_SLAVE_TIMEOUT = 12
    """No slave had it in time."""


@attrs.frozen
class SendResult:
    """Where a message is."""

    status: SendStatus
    queue: MessageQueue
    queue_offset: int
    """Of a batch, that of its first message."""
    msg_id: str
    """The key that the producer gave the message (``UNIQ_KEY``); of a batch, all, with commas."""
    offset_msg_id: str
    """Store host and physical offset in hex, by which brokers find the message."""
    transaction_id: str | None = None
    recall_handle: str | None = None
    """By which a message with a deliver time can be called back (brokers since 5.3)."""

    @property
    def is_ok(self) -> bool:
        """Whether `status` is `SendStatus.OK`."""
        return self.status is SendStatus.OK
