"""``config/subscriptionGroup.json``: what the broker's operator has set for each group.

Source: RocketMQ ``SubscriptionGroupManager`` and ``SubscriptionGroupConfig``.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from reput.files import brokerjson
from reput_consumer.metadata.document import BrokerDocument, section_of

__all__ = ["FILE_NAME", "GroupSettings", "SubscriptionGroups"]

FILE_NAME: Final = "subscriptionGroup.json"
_TABLE: Final = "subscriptionGroupTable"


@attrs.frozen(kw_only=True)
class GroupSettings:
    """Settings of one group."""

    group: str
    consume_enable: bool = True
    """Whether the group may read at all."""
    consume_broadcast_enable: bool = True
    """Whether its members may read everything each."""
    retry_queue_nums: int = 1
    """Queues of the retry topic; with 0, failed messages are dropped."""
    retry_max_times: int = 16
    """How often a message comes back before it becomes a dead letter."""


_NAMES: Final = {
    "consume_enable": "consumeEnable",
    "consume_broadcast_enable": "consumeBroadcastEnable",
    "retry_queue_nums": "retryQueueNums",
    "retry_max_times": "retryMaxTimes",
}
_KINDS: Final = {
    "consume_enable": bool,
    "consume_broadcast_enable": bool,
    "retry_queue_nums": int,
    "retry_max_times": int,
}


@attrs.define(eq=False)
class SubscriptionGroups:
    """The groups that the file knows. Thread-safe."""

    document: BrokerDocument
    _table: dict[str, dict[str, Any]] = attrs.field(init=False, factory=dict)

    def load(self) -> None:
        """Read the file."""
        found = section_of(self.document.read(), _TABLE)
        self._table = {name: entry for name, entry in found.items() if isinstance(entry, dict)}

    def names(self) -> list[str]:
        """Return the names of all groups, sorted."""
        return sorted(self._table)

    def get(self, group: str) -> GroupSettings | None:
        """Return the settings of a group; None for one that the file does not know."""
        entry = self._table.get(group)
        if entry is None:
            return None
        found = {
            name: entry[member]
            for name, member in _NAMES.items()
            if type(entry.get(member)) is _KINDS[name]
        }
        return GroupSettings(group=group, **found)

    def ensure(self, group: str) -> GroupSettings:
        """Return the settings of a group; one that the file does not know is added first.

        A broker adds a group in the same way when its first consumer connects.

        Raises:
            OSError: the file cannot be written.
        """
        found = self.get(group)
        return found if found is not None else self.put(GroupSettings(group=group))

    def put(self, settings: GroupSettings) -> GroupSettings:
        """Add a group, or change its settings; members that only brokers know are kept.

        Raises:
            OSError: the file cannot be written.
        """
        entry: dict[str, Any] = {}

        def edit(document: dict[str, Any]) -> bool:
            document.setdefault("forbiddenTable", {})
            table = section_of(document, _TABLE)
            known = table.get(settings.group)
            entry.update(known if isinstance(known, dict) else _entry_of_a_new_group())
            entry["groupName"] = settings.group
            entry.update({member: getattr(settings, name) for name, member in _NAMES.items()})
            table[settings.group] = dict(sorted(entry.items()))
            return known != entry

        with brokerjson.changing():
            self.document.change(edit)
            self._table = {**self._table, settings.group: entry}
        return settings


def _entry_of_a_new_group() -> dict[str, Any]:
    return {
        "attributes": {},
        "brokerId": 0,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "whichBrokerWhenConsumeSlowly": 1,
    }
