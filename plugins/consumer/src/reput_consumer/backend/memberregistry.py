"""`MemberRegistry`: the members of each group in this process.

Source: RocketMQ ``ConsumerManager`` and ``ConsumerGroupInfo``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

import attrs

from reput_consumer.errors import GroupKindError, MemberExistsError, SubscriptionMismatchError
from reput_consumer.selectors import are_mixed

logger = logging.getLogger(__name__)


@attrs.frozen(eq=False)
class Membership:
    """One member of a group."""

    group: str
    member: str
    topics: frozenset[str]
    changed: Callable[[], None]
    broadcast: bool
    since: int
    """When it joined, ms."""
    pops: bool = False
    """Whether it is handed messages one by one, and does not share queues out."""
    subscriptions: tuple[str, ...] = ()
    """What it selects of each topic, as text."""
    mixed: bool = False
    """Whether it joins although others select something else."""


@attrs.define(eq=False, repr=False)
class MemberRegistry:
    """Members by group. Thread-safe; listeners are called without a lock."""

    changed: Callable[[], None]
    """Called when members have come or gone; must not wait."""
    save: Callable[[str], None]
    """Called with a group whose queues change hands now, before its members are notified one after
    the other: one that takes a queue over must see what the last owner has finished."""
    _groups: dict[str, dict[str, Membership]] = attrs.field(init=False, factory=dict)
    _names: dict[str, tuple[str, ...]] = attrs.field(init=False, factory=dict)
    """Sorted names of the members of groups, made when first asked for after a change."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def add(self, membership: Membership) -> None:
        """Add a member, and notify the others of its group.

        Raises:
            MemberExistsError: the group has a member of that name.
            GroupKindError: its members pull and this one pops, or the other way round.
            SubscriptionMismatchError: it selects something else than they do.
        """
        kinds = {False: "pull", True: "pop"}
        with self._lock:
            members = self._groups.get(membership.group, {})
            if membership.member in members:
                raise MemberExistsError(membership.group, membership.member)
            if any(each.pops is not membership.pops for each in members.values()):
                has, asked = kinds[not membership.pops], kinds[membership.pops]
                raise GroupKindError(membership.group, has, asked)
            unlike = [each for each in members.values() if are_mixed((membership, each))]
            if unlike and not membership.mixed:
                raise SubscriptionMismatchError(
                    membership.group, unlike[0].subscriptions, membership.subscriptions
                )
            members = self._groups.setdefault(membership.group, {})
            others = list(members.values())
            members[membership.member] = membership
            self._names.pop(membership.group, None)
        if unlike:
            logger.warning(
                "members of a group subscribe differently, messages are left out group=%s "
                "member=%s subscriptions=%r other=%s other_subscriptions=%r",
                membership.group,
                membership.member,
                ", ".join(membership.subscriptions),
                unlike[0].member,
                ", ".join(unlike[0].subscriptions),
            )
        self.changed()
        self._tell(others)

    def remove(self, group: str, member: str) -> None:
        """Remove a member if it is there, and notify the others of its group."""
        with self._lock:
            members = self._groups.get(group, {})
            if members.pop(member, None) is None:
                return
            self._names.pop(group, None)
            others = list(members.values())
            if not members:
                del self._groups[group]
        self.changed()
        self._tell(others)

    def members(self, group: str) -> list[Membership]:
        """Return the members of a group, sorted by name."""
        with self._lock:
            found = list(self._groups.get(group, {}).values())
        return sorted(found, key=lambda each: each.member)

    def names(self, group: str) -> tuple[str, ...]:
        """Return the names of a group's members, sorted."""
        with self._lock:
            found = self._names.get(group)
            if found is None and group in self._groups:
                found = self._names[group] = tuple(sorted(self._groups[group]))
            return () if found is None else found

    def pops(self, group: str) -> bool | None:
        """Return whether the members of a group pop; None if it has no member."""
        with self._lock:
            for each in self._groups.get(group, {}).values():
                return each.pops
        return None

    def groups(self) -> list[str]:
        """Return the groups that have members, sorted."""
        with self._lock:
            return sorted(self._groups)

    def topics(self) -> frozenset[str]:
        """Return the topics that any member reads."""
        with self._lock:
            found = [each.topics for members in self._groups.values() for each in members.values()]
        return frozenset().union(*found)

    def tell_readers(self, topics: Collection[str]) -> None:
        """Notify all members that read one of ``topics`` that its queues have changed."""
        with self._lock:
            found = [
                each
                for members in self._groups.values()
                for each in members.values()
                if not each.topics.isdisjoint(topics)
            ]
        self._tell(found)

    def _tell(self, memberships: list[Membership]) -> None:
        for group in {each.group for each in memberships}:
            self.save(group)
        for each in memberships:
            each.changed()
