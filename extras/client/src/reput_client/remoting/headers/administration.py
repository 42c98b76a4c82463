"""Headers of administration: topics, groups, statistics.

Source: RocketMQ ``CreateTopicRequestHeader``, ``GetConsumeStatsRequestHeader`` and their kin.
"""

from __future__ import annotations

import attrs

from reput_client.remoting.headers.fields import Int, Long


@attrs.frozen(kw_only=True)
class CreateTopic:
    """A topic as it is to be."""

    topic: str
    default_topic: str = ""
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int | None = None
    order: bool = False
    attributes: str | None = None
    """``+name=value`` and ``-name``, parted by commas."""
    force: bool | None = None


@attrs.frozen(kw_only=True)
class TopicOf:
    """A topic by its name."""

    topic: str


@attrs.frozen(kw_only=True)
class GroupNamed:
    """A group by its name."""

    group: str
    topic: str | None = None


@attrs.frozen(kw_only=True)
class DeleteGroup:
    """A group that is to go."""

    group_name: str
    clean_offset: bool | None = None


@attrs.frozen(kw_only=True)
class ConsumeStatsOf:
    """How far is a group, in one topic or in all?"""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@attrs.frozen(kw_only=True)
class ConsumeTimesOf:
    """Which times does a group read in a topic?"""

    topic: str
    group: str


@attrs.frozen(kw_only=True)
class CorrectionOf:
    """Which is the smallest offset that groups have of each queue of a topic?"""

    topic: str
    compare_group: str
    filter_groups: str | None = None
    """Groups that are left out, parted by commas."""


@attrs.frozen(kw_only=True)
class CloneOffsets:
    """A group is to start where another one is."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool | None = None


@attrs.frozen(kw_only=True)
class StatsOf:
    """A counter by name and key."""

    stats_name: str
    stats_key: str


@attrs.frozen(kw_only=True)
class QueueEntries:
    """Entries of a queue, as they are in its files."""

    topic: str
    queue_id: Int
    index: Long
    count: Int
    consumer_group: str | None = None


@attrs.frozen(kw_only=True)
class ResumeCheck:
    """A half message whose check-backs are to continue."""

    msg_id: str | None = None
    topic: str | None = None


@attrs.frozen(kw_only=True)
class AclVersionAnswer:
    """Since when a broker has its access keys."""

    version: str
    """A data version, as JSON."""
    all_acl_file_version: str
    """The same by file, as JSON."""
    broker_name: str
    broker_addr: str
    cluster_name: str


@attrs.frozen(kw_only=True)
class VersionAnswer:
    """The version of what the body holds."""

    version: str


@attrs.frozen(kw_only=True)
class HaInfo:
    """Where slaves get a master's log; empty in a request for it."""

    master_ha_address: str | None = None
    master_flush_offset: Long | None = None
    master_address: str | None = None
