"""Headers of what hands messages out one by one, each until a deadline.

Source: RocketMQ ``PopMessageRequestHeader``, ``AckMessageRequestHeader`` and their kin.
"""

from __future__ import annotations

import attrs

from reput_client.remoting.headers.fields import Int, Long


@attrs.frozen(kw_only=True)
class Pop:
    """Wants messages of a topic."""

    consumer_group: str
    topic: str
    queue_id: Int
    """Negative: of any queue."""
    max_msg_nums: Int
    invisible_time: Long
    """For how long nobody else gets the messages, ms."""
    poll_time: Long
    """How long to wait for messages, ms."""
    born_time: Long = 0
    init_mode: Int
    """Where a new group begins: 0 the first message, 1 the end."""
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    """Whether each queue is read one batch after the other."""
    attempt_id: str | None = None


@attrs.frozen(kw_only=True)
class PopAnswer:
    """What a client makes handles of; the body is stored messages, back to back.

    Lists have entries for a queue, ``KIND QUEUE …``, with semicolons between them. The kind is 0
    for the topic and 1 for the retry topic.
    """

    pop_time: Long = 0
    """When the messages were handed out, ms."""
    invisible_time: Long = 0
    revive_qid: Int = 0
    rest_num: Long = 0
    start_offset_info: str | None = None
    """``KIND QUEUE OFFSET``: an offset that none of the queue's messages lies below."""
    msg_offset_info: str | None = None
    """``KIND QUEUE OFFSET,OFFSET,…``: the messages of the queue in the order of the body."""
    order_count_info: str | None = None
    """``KIND qoQUEUE%OFFSET COUNT``: how often a message has failed in its place."""


@attrs.frozen(kw_only=True)
class Ack:
    """Counts a message as consumed."""

    consumer_group: str
    topic: str
    """Of the queue; that may be the retry topic."""
    queue_id: Int
    extra_info: str
    """The handle: eight words with blanks between them, of which some are in `PopAnswer`."""
    offset: Long
    lite_topic: str | None = None
    """The lite topic, of which ``topic`` is the parent."""


@attrs.frozen(kw_only=True)
class ChangeInvisible:
    """Moves the deadline of a message."""

    consumer_group: str
    topic: str
    queue_id: Int
    extra_info: str
    offset: Long
    invisible_time: Long
    """From now on, ms."""
    lite_topic: str | None = None


@attrs.frozen(kw_only=True)
class ChangeInvisibleAnswer:
    """What a client makes the new handle of."""

    pop_time: Long = 0
    invisible_time: Long = 0
    revive_qid: Int = 0


@attrs.frozen(kw_only=True)
class Notification:
    """Wants to know when messages have come, and gets none."""

    consumer_group: str
    topic: str
    queue_id: Int
    poll_time: Long
    born_time: Long = 0
    order: bool | None = None
    attempt_id: str | None = None


@attrs.frozen(kw_only=True)
class NotificationAnswer:
    """Whether messages have come."""

    has_msg: bool = False
    polling_full: bool = False
    """Whether too many requests wait for this one to wait, too."""


@attrs.frozen(kw_only=True)
class PollingInfo:
    """Requests how many requests wait for messages."""

    consumer_group: str
    topic: str
    queue_id: Int


@attrs.frozen(kw_only=True)
class PollingInfoAnswer:
    """How many requests wait for messages."""

    polling_num: Int
