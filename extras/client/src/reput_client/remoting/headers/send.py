"""Headers of what stores messages: send, send back, end of a transaction, reply.

Source: RocketMQ ``SendMessageRequestHeader``, ``SendMessageRequestHeaderV2`` and their kin.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from reput_client.remoting.headers.fields import Int, Long


@attrs.frozen(kw_only=True)
class Send:
    """A message for a queue: the fields of `SEND_MESSAGE` and `SEND_REPLY_MESSAGE`."""

    producer_group: str
    topic: str
    default_topic: str = ""
    """The topic whose settings a new topic takes over, ``TBW102``."""
    default_topic_queue_nums: Int = 4
    queue_id: Int
    """Negative: the broker chooses."""
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str | None = None
    reconsume_times: Int | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int | None = None
    batch: bool | None = None


@attrs.frozen(kw_only=True)
class SendShort:
    """The same in one letter each: `SEND_MESSAGE_V2`, `SEND_BATCH_MESSAGE`, replies."""

    wire_names: ClassVar = {
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
    }

    producer_group: str
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: Int = 4
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str | None = None
    reconsume_times: Int | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int | None = None
    batch: bool | None = None

    def spelled_out(self) -> Send:
        """Return the header with the names of `SEND_MESSAGE`."""
        return Send(**attrs.asdict(self))

    @classmethod
    def of(cls, header: Send) -> SendShort:
        """Return ``header`` in letters."""
        return cls(**attrs.asdict(header))


@attrs.frozen(kw_only=True)
class SendAnswer:
    """Where a message went."""

    msg_id: str
    """The offset message id; those of a batch, parted by commas."""
    queue_id: Int
    queue_offset: Long
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


@attrs.frozen(kw_only=True)
class SendBack:
    """A message that a consumer could not handle and wants later."""

    offset: Long
    """Physical offset of the message."""
    group: str
    delay_level: Int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int | None = None


@attrs.frozen(kw_only=True)
class EndTransaction:
    """What becomes of a half message."""

    producer_group: str
    tran_state_table_offset: Long
    """Queue offset of the half message."""
    commit_log_offset: Long
    """Physical offset of the half message."""
    commit_or_rollback: Int
    """8 commit, 12 rollback, 0 unknown."""
    from_transaction_check: bool | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    topic: str | None = None


@attrs.frozen(kw_only=True)
class CheckTransaction:
    """A broker's question what is to become of a half message."""

    tran_state_table_offset: Long
    commit_log_offset: Long
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None


@attrs.frozen(kw_only=True)
class PushReply:
    """A reply on its way to the requester."""

    producer_group: str
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: Int = 4
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str | None = None
    reconsume_times: Int | None = None
    unit_mode: bool | None = None
    born_host: str
    """``/address:port``."""
    store_host: str
    store_timestamp: Long
