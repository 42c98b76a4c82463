"""``config/subscriptionGroup.json``: what the broker's operator has set for each group.

Source: RocketMQ ``SubscriptionGroupManager`` and ``SubscriptionGroupConfig``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import attrs

from reput_consumer.metadata.settingstable import SettingsTable
from reput_consumer.metadata.topicsettings import QUEUES_MAX, Topics, TopicSettings
from reput_consumer.names import checked_group, retry_topic

FILE_NAME: Final = "subscriptionGroup.json"


@attrs.frozen(kw_only=True)
class GroupSettings:
    """Settings of one group."""

    group: str
    consume_enable: bool = True
    """Whether the group may read at all."""
    consume_broadcast_enable: bool = True
    """Whether its members may read everything each."""
    consume_message_orderly: bool = False
    """Whether each queue is read one batch after the other, by members that pop."""
    retry_queue_nums: int = 1
    """Queues of the retry topic; with 0, failed messages are dropped."""
    retry_max_times: int = 16
    """How often a message comes back, after its first delivery, before it is a dead letter."""
    attributes: Mapping[str, str] = attrs.field(factory=dict)
    """Of RocketMQ 5, such as ``lite.bind.topic``."""

    @property
    def retry_queue_count(self) -> int:
        """`retry_queue_nums`, but no more than a topic can have: a broker takes any number."""
        return min(self.retry_queue_nums, QUEUES_MAX)


@attrs.define(eq=False, repr=False)
class SubscriptionGroups(SettingsTable[GroupSettings]):
    """The groups that the file knows. Thread-safe."""

    topics: Topics

    table_name = "subscriptionGroupTable"
    name_field = "group", "groupName"
    check_name = staticmethod(checked_group)
    fields: ClassVar = {
        "attributes": ("attributes", dict),
        "consume_enable": ("consumeEnable", bool),
        "consume_broadcast_enable": ("consumeBroadcastEnable", bool),
        "consume_message_orderly": ("consumeMessageOrderly", bool),
        "retry_queue_nums": ("retryQueueNums", int),
        "retry_max_times": ("retryMaxTimes", int),
    }

    def settings_of(self, name: str, found: Mapping[str, Any]) -> GroupSettings:
        """See `SettingsTable.settings_of`."""
        return GroupSettings(group=name, **found)

    def new_entry(self) -> dict[str, Any]:
        """See `SettingsTable.new_entry`."""
        return {
            "brokerId": 0,
            "consumeFromMinEnable": True,
            "consumeTimeoutMinute": 15,
            "groupRetryPolicy": {"type": "CUSTOMIZED"},
            "groupSysFlag": 0,
            "notifyConsumerIdsChangedEnable": True,
            "whichBrokerWhenConsumeSlowly": 1,
        }

    def complete(self, document: dict[str, Any]) -> None:
        """See `SettingsTable.complete`."""
        document.setdefault("forbiddenTable", {})

    def put_many(self, many: Iterable[GroupSettings]) -> None:
        """See `SettingsTable.put_many`; retry topics grow with the number of their queues.

        Failed messages would come to queues of which no client knows.

        Raises:
            ValueError: the name of a new group is not valid; no group is added or changed.
        """
        settings = list(many)
        super().put_many(settings)
        for each in settings:
            if self.topics.get(retry_topic(each.group)) is not None:
                self._ensure_retry(each)

    def ensure(self, group: str, *, soon: bool = False) -> GroupSettings:
        """Return the settings of a group; it and its retry topic are added where not known.

        A broker does the same when a consumer of a group connects; its tools show only groups that
        have a retry topic. A replica adds no topic, as it cannot put what would be in it.

        Args:
            group: the group.
            soon: whether what is added may come to disk later; see `SettingsTable.put_soon`.

        Raises:
            OSError: the file cannot be written.
        """
        found = self.get(group)
        put = self.put_soon if soon else self.put
        settings = found if found is not None else put(GroupSettings(group=group))
        self._ensure_retry(settings, soon=soon)
        return settings

    def _ensure_retry(self, settings: GroupSettings, *, soon: bool = False) -> None:
        count, topic = settings.retry_queue_count, retry_topic(settings.group)
        if count > 0:
            self.topics.ensure_for_copies(
                TopicSettings(topic=topic, read_queue_nums=count, write_queue_nums=count),
                soon=soon,
            )
