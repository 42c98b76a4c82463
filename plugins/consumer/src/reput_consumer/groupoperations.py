"""`GroupOperations`: methods that read and change the groups and topics of a store."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from reput_consumer.deletion import (
    delete_group,
    delete_topic,
    forget_gone_topics,
    hide_light_queues,
)
from reput_consumer.names import LIGHT_PREFIX, checked_group, checked_topic

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from reput.record import MessageView
    from reput_consumer.backend.embeddedbackend import EmbeddedBackend
    from reput_consumer.groupprogress import GroupProgress
    from reput_consumer.localmembers import LocalMembers
    from reput_consumer.memberlist.snapshot import GroupMember, MemberList
    from reput_consumer.messagequeue import MessageQueue
    from reput_consumer.metadata.deletedtopics import DeletedTopics
    from reput_consumer.metadata.subscriptiongroups import SubscriptionGroups
    from reput_consumer.metadata.topicsettings import Topics
    from reput_consumer.offsetreset import Reset
    from reput_consumer.pop.popservice import PopService
    from reput_consumer.storeservices import StoreServices


class GroupOperations(ABC):
    """Base of the plugin: its methods about groups and topics."""

    __slots__ = ()

    @property
    @abstractmethod
    def _of_consumers(self) -> StoreServices:
        """What consumers of the store need; raises a `ReputError` if the store is closed."""

    @property
    @abstractmethod
    def _of_newest(self) -> EmbeddedBackend:
        """The store; if another process may be writing, its files are read again."""

    @abstractmethod
    def _moving(
        self, group: str, offsets: Mapping[MessageQueue, int]
    ) -> AbstractContextManager[None]:
        """Return what surrounds a commit of new offsets of a group."""

    @property
    def _of_store(self) -> EmbeddedBackend:
        return self._of_consumers.port

    @property
    def _of_process(self) -> LocalMembers:
        return self._of_consumers.members

    @property
    def popper(self) -> PopService:
        """Pop for all groups, for programs that serve the store to consumers elsewhere."""
        return self._of_consumers.popper

    @property
    def subscription_groups(self) -> SubscriptionGroups:
        """The settings of groups, ``config/subscriptionGroup.json``."""
        return self._of_store.groups

    @property
    def topics(self) -> Topics:
        """The settings of topics, ``config/topics.json``."""
        return self._of_store.topics

    def groups(self) -> list[str]:
        """Return the names of all groups that have offsets, settings or members, sorted."""
        port = self._of_newest
        return sorted({*port.offsets.groups(), *port.groups.names(), *port.registry.groups()})

    def progress(self, group: str) -> GroupProgress:
        """Return how far a group is in each queue, and who reads it; also in a read-only store."""
        from reput_consumer.groupprogress import progress_of

        port = self._of_newest
        self._of_process.save(group)
        roster = self.roster()
        members, out = roster.of_group(group), roster.out_of_group(group)
        return progress_of(port, checked_group(group), members, out)

    def progress_of_all(self) -> list[GroupProgress]:
        """Return how far all groups are, by name; faster than `progress` for each."""
        from reput_consumer.groupprogress import progress_of

        port, groups = self._of_store, self.groups()
        for group in groups:
            self._of_process.save(group)
        by_group: dict[str, list[GroupMember]] = {}
        roster = self.roster()
        for each in roster.members:
            by_group.setdefault(each.group, []).append(each)
        return [
            progress_of(port, group, tuple(by_group.get(group, ())), roster.out_of_group(group))
            for group in groups
        ]

    def roster(self) -> MemberList:
        """Return the members of all groups.

        In a read-only store these are the members in the process that has the store open to write,
        as it wrote them some milliseconds ago.
        """
        from reput_consumer.memberlist.memberlistfile import MemberListFile
        from reput_consumer.memberlist.snapshot import MemberList

        port = self._of_store
        if not port.context.writable:
            return MemberListFile(port.context).read()
        parts = self._of_consumers
        members, out = parts.members_now(), tuple(parts.popper.out())
        return MemberList(os.getpid(), is_known=True, is_complete=True, members=members, out=out)

    @property
    def deleted(self) -> DeletedTopics:
        """Which topics were deleted, and up to which queue offsets."""
        return self._of_store.deleted

    def delete_topic(self, topic: str) -> bool:
        """Delete a topic: its settings, what groups have read of it, and what they see of it.

        Its messages stay in the log, and in queues as `reput.Store.read` shows them, until the log
        loses them; groups and brokers see only messages that are put later. Copies of its messages
        that have failed do not come again either.

        Returns:
            Whether there was such a topic. All is durable when this returns.

        Raises:
            ReputError: the store is read-only, or the log cannot be flushed.
            OSError: a file cannot be written; calling it again finishes the work.
        """
        was_there = delete_topic(self._of_store, checked_topic(topic))
        self.popper.modes.forget(topic=topic)
        lite_topics = f"{LIGHT_PREFIX}${topic}$"
        self.popper.forget_topics(lambda name: name == topic or name.startswith(lite_topics))
        return was_there

    def hide_light_queues(self, ends: Mapping[str, int]) -> None:
        """Delete light queues: what groups have read of them, and what groups see of them.

        All is durable when this returns. Messages that came meanwhile are seen.

        Args:
            ends: by light queue, the first queue offset that groups see.

        Raises:
            ReputError: the store is read-only, or the log cannot be flushed.
            OSError: a file cannot be written; calling it again finishes the work.
        """
        port = self._of_store
        port.check_writable()
        hide_light_queues(port, ends)
        port.save()
        self.popper.forget_topics(ends.__contains__)

    def delete_group(self, group: str, *, with_offsets: bool = True) -> bool:
        """Delete a group's settings, and by default its offsets and failed messages.

        Returns:
            Whether there was such a group. All is durable when this returns.

        Raises:
            ReputError: the store is read-only, or the log cannot be flushed.
            OSError: a file cannot be written.
        """
        if with_offsets:
            self._of_process.save(group)  # what members know would be committed later
            self.popper.forget(group)
        self.popper.modes.forget(group=group)
        return delete_group(self._of_store, checked_group(group), with_offsets=with_offsets)

    def forget_gone_topics(self) -> list[str]:
        """Drop what is noted of deleted topics of which the log has no message any more.

        Returns:
            Their names, sorted.

        Raises:
            ReputError: the store is read-only, or its queues cannot be read.
            OSError: the note cannot be written.
        """
        return forget_gone_topics(self._of_store)

    def move_group(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Have a group go on at other offsets; its members here do so at once.

        Raises:
            ReputError: the store is read-only.
            ValueError: an offset that no queue can have.
            OSError: the offsets cannot be written.
        """
        from reput_consumer.offsetreset import move_group

        engines = self._of_process.of_group(group)
        with self._moving(checked_group(group), offsets):
            move_group(self._of_store, group, offsets, engines, self.popper)

    def offsets(self) -> dict[str, dict[tuple[str, int], int]]:
        """Return the offsets that all groups have committed, by group, then topic and queue id."""
        port = self._of_newest
        for group in port.registry.groups():
            self._of_process.save(group)
        return port.offsets.by_group()

    def reset_offsets(self, group: str, topic: str, to: str | int | dt.datetime) -> list[Reset]:
        """Have a group read a topic again, or skip some of it; its members here go on there.

        Args:
            group: the group.
            topic: the topic.
            to: ``"earliest"``, ``"latest"``, a time, or a queue offset, which is moved into the
                bounds of each queue.

        Returns:
            What has changed, by queue; durable when this returns.

        Raises:
            ReputError: the store is read-only, or its queues cannot be read.
            ValueError: no such place.
            OSError: the offsets cannot be written.
        """
        from reput_consumer.group.membersettings import start_of
        from reput_consumer.offsetreset import planned_resets

        self._of_process.save(group)
        place, topic = start_of(to), checked_topic(topic)
        changes = planned_resets(self._of_store, checked_group(group), topic, place)
        self.move_group(group, {change.queue: change.after for change in changes})
        return changes

    def planned_resets(self, group: str, topic: str, to: str | int | dt.datetime) -> list[Reset]:
        """Return what `reset_offsets` would change now; changes nothing.

        Raises:
            ReputError: the queues cannot be read.
            ValueError: no such place.
        """
        from reput_consumer.group.membersettings import start_of
        from reput_consumer.offsetreset import planned_resets

        port = self._of_newest
        return planned_resets(port, checked_group(group), checked_topic(topic), start_of(to))

    def resend(self, group: str, messages: Sequence[MessageView]) -> None:
        """Give messages, such as dead letters, to a group once more, as if they had never failed.

        Raises:
            ReputError: the store is read-only, or the messages cannot be stored.
            OSError: the topic cannot be made.
        """
        self._of_store.resend(checked_group(group), messages)
