"""Headers of what reads messages: pull, query, view.

Source: RocketMQ ``PullMessageRequestHeader``, ``QueryMessageRequestHeader`` and their kin.
"""

from __future__ import annotations

from enum import IntFlag

import attrs

from reput_client.remoting.headers.fields import Int, Long


class PullFlag(IntFlag):
    """Bits of `Pull.sys_flag`."""

    COMMIT_OFFSET = 1
    SUSPEND = 2
    SUBSCRIPTION = 4
    CLASS_FILTER = 8
    LITE_PULL = 16


@attrs.frozen(kw_only=True)
class Pull:
    """Wants messages of one queue."""

    consumer_group: str
    topic: str
    queue_id: Int
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    """Bits of `PullFlag`."""
    commit_offset: Long
    suspend_timeout_millis: Long
    subscription: str | None = None
    sub_version: Long
    expression_type: str | None = None
    max_msg_bytes: Int | None = None
    lite_topic: str | None = None
    """A lite topic of ``topic``, whose light queue is wanted."""


@attrs.frozen(kw_only=True)
class PullAnswer:
    """Where to go on; the body is stored messages, back to back."""

    suggest_which_broker_id: Long
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long
    offset_delta: Long | None = None
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
    forbidden_type: Int | None = None


@attrs.frozen(kw_only=True)
class PullForbidden:
    """What it is that forbids a pull."""

    forbidden_type: Int
    """1 the broker, 2 the group, 3 the topic."""

    @classmethod
    def by_group(cls) -> PullForbidden:
        """Return that the group may not read."""
        return cls(forbidden_type=2)

    @classmethod
    def by_topic(cls) -> PullForbidden:
        """Return that the topic may not be read."""
        return cls(forbidden_type=3)


@attrs.frozen(kw_only=True)
class Query:
    """Wants messages with a key."""

    topic: str
    key: str
    max_num: Int
    begin_timestamp: Long
    end_timestamp: Long
    index_type: str | None = None
    """Since 5.4: ``T`` if ``key`` is the tags of messages; else their keys are meant."""
    last_key: str | None = None
    """Since 5.4: the last message of an earlier answer, whose successors are wanted:
    ``<hour>@<topic>@<type>@<key>@<unique key>@<physical offset>``."""


@attrs.frozen(kw_only=True)
class QueryAnswer:
    """How far the index is; the body is stored messages, back to back."""

    index_last_update_timestamp: Long
    index_last_update_phyoffset: Long


@attrs.frozen(kw_only=True)
class View:
    """Wants the message at a physical offset."""

    offset: Long
    topic: str | None = None
