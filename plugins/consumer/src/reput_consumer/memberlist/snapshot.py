"""`MemberList`: the members of a store's groups at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from reput_consumer.pop.receipthandles import UnackedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reput_consumer.backend.memberregistry import MemberRegistry
    from reput_consumer.messagequeue import MessageQueue


@attrs.frozen
class GroupMember:
    """One member of a group, as others see it."""

    group: str
    member: str
    """Client id."""
    since_timestamp: int
    """When it joined, or changed its topics, ms."""
    broadcast: bool
    """Whether it reads everything, as it broadcasts."""
    topics: tuple[str, ...]
    """What it reads, sorted; the group's retry topic is among them."""
    queues: tuple[tuple[str, int], ...] | None
    """Topics and queue ids that it has now, sorted; None of clients of a server, which divide
    queues among themselves and do not report them."""
    pops: bool = False
    """Whether it is handed messages one by one, of all queues."""
    subscriptions: tuple[str, ...] = ()
    """What it selects of each topic, as text; without retry topics."""


@attrs.frozen
class MemberList:
    """All members, and which process they are members of."""

    writer_pid: int | None
    """The process that has the store open to write; None if there is none, which is known then, or
    if it does not say its number."""
    is_known: bool
    """False if that process does not say who its members are, as a broker, or a process that runs
    without the plugin."""
    is_complete: bool
    """False if there are more members than the process writes into its file."""
    members: tuple[GroupMember, ...]
    """By group and client id."""
    out: tuple[UnackedMessage, ...] = ()
    """What groups that pop were handed and have not acknowledged, by group, topic and queue id."""

    def of_group(self, group: str) -> tuple[GroupMember, ...]:
        """Return the members of one group, by client id."""
        return tuple(each for each in self.members if each.group == group)

    def out_of_group(self, group: str) -> tuple[UnackedMessage, ...]:
        """Return what one group was handed and has not acknowledged."""
        return tuple(each for each in self.out if each.group == group)


def members_of(
    registry: MemberRegistry,
    held: Mapping[tuple[str, str], list[MessageQueue]],
    shown: Callable[[int], int],
) -> tuple[GroupMember, ...]:
    """Return the members of all groups of this process, by group and client id.

    Args:
        registry: knows them.
        held: the queues that each has now, by group and client id.
        shown: returns what clocks show at a time of the registry.
    """
    return tuple(
        GroupMember(
            group,
            each.member,
            shown(each.since),
            each.broadcast,
            tuple(sorted(each.topics)),
            _places(held.get((group, each.member))),
            each.pops,
            each.subscriptions,
        )
        for group in registry.groups()
        for each in registry.members(group)
    )


def _places(queues: list[MessageQueue] | None) -> tuple[tuple[str, int], ...] | None:
    return None if queues is None else tuple((each.topic, each.queue_id) for each in queues)
