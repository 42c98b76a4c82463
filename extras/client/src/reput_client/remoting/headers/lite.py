"""Headers of lite topics: many small topics in one, each of which is a light queue.

Source: RocketMQ 5.5 ``PopLiteMessageRequestHeader``, ``GetLiteTopicInfoRequestHeader`` and others.
"""

from __future__ import annotations

import attrs

from reput_client.remoting.headers.fields import Int, Long


@attrs.frozen(kw_only=True)
class LitePop:
    """Wants messages of the lite topics that a client has subscribed to."""

    client_id: str
    consumer_group: str
    topic: str
    """The parent of the lite topics."""
    max_msg_num: Int
    invisible_time: Long
    """For how long nobody else gets the messages, ms."""
    poll_time: Long
    """How long to wait for messages, ms."""
    born_time: Long = 0
    attempt_id: str | None = None


@attrs.frozen(kw_only=True)
class LiteUnsubscribed:
    """Has a client forget a lite topic, which another client of its group has now."""

    lite_topic: str
    consumer_group: str
    client_id: str


@attrs.frozen(kw_only=True)
class LiteTopicOf:
    """Requests what is known of a lite topic."""

    parent_topic: str = ""
    lite_topic: str = ""


@attrs.frozen(kw_only=True)
class LiteClientOf:
    """Requests what a client has subscribed to."""

    parent_topic: str = ""
    group: str = ""
    client_id: str = ""
    max_count: Int = 1_000


@attrs.frozen(kw_only=True)
class LiteGroupOf:
    """Requests how far behind a group is, in one lite topic or in those furthest behind."""

    group: str
    lite_topic: str = ""
    top_k: Int = 0


@attrs.frozen(kw_only=True)
class LiteWake:
    """Has all lite topics of a group looked at again, or those of one of its clients."""

    group: str
    client_id: str = ""
