"""Headers of offsets: of groups, of queues, by time.

Source: RocketMQ ``QueryConsumerOffsetRequestHeader``, ``GetMaxOffsetRequestHeader`` and their kin.
"""

from __future__ import annotations

import attrs

from reput_client.remoting.headers.fields import Int, Long


@attrs.frozen(kw_only=True)
class GroupOffset:
    """How far is a group in a queue?"""

    consumer_group: str
    topic: str
    queue_id: Int
    set_zero_if_not_found: bool | None = None


@attrs.frozen(kw_only=True)
class UpdateGroupOffset:
    """How far a group is in a queue."""

    consumer_group: str
    topic: str
    queue_id: Int
    commit_offset: Long


@attrs.frozen(kw_only=True)
class QueueOf:
    """A queue of a topic: the question for its first, last or next offset, or its oldest time."""

    topic: str
    queue_id: Int
    committed: bool | None = None


@attrs.frozen(kw_only=True)
class OffsetByTime:
    """Which offset belongs to a time?"""

    topic: str
    queue_id: Int
    timestamp: Long
    boundary_type: str | None = None
    """``lower``, which is the default, or ``upper``."""


@attrs.frozen(kw_only=True)
class OffsetAnswer:
    """A queue offset."""

    offset: Long


@attrs.frozen(kw_only=True)
class TimestampAnswer:
    """Milliseconds since the epoch; -1 if there is no message."""

    timestamp: Long
