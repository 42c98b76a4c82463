"""Errors of consumers; each is a `reput.ReputError`, and says what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from reput.errors import ReputError

if TYPE_CHECKING:
    from reput_consumer.messagequeue import MessageQueue


@attrs.define(eq=False, repr=False)
class MemberExistsError(ReputError):
    """Two members of one group have the same name; both would read the same queues."""

    group: str
    member: str

    def __str__(self) -> str:
        return (
            f"group {self.group!r} has a member {self.member!r} already; "
            "give each consumer a name of its own, or none"
        )


@attrs.define(eq=False, repr=False)
class GroupDisabledError(ReputError):
    """The broker's operator has forbidden a group to read."""

    group: str
    setting: str
    """The setting in ``subscriptionGroup.json`` that says so."""

    def __str__(self) -> str:
        return (
            f"group {self.group!r} may not read: {self.setting} is false "
            "in config/subscriptionGroup.json"
        )


@attrs.define(eq=False, repr=False)
class GroupKindError(ReputError):
    """A group has members that pull and is to get one that pops, or the other way round."""

    group: str
    has: str
    """What its members do: ``pull`` or ``pop``."""
    asked: str

    def __str__(self) -> str:
        return (
            f"group {self.group!r} has members that {self.has}, so none can {self.asked}; "
            f"use another group, or close the members that {self.has} first"
        )


@attrs.define(eq=False, repr=False)
class SubscriptionMismatchError(ReputError):
    """Members of one group would subscribe to other topics or tags; messages would be left out."""

    group: str
    has: tuple[str, ...]
    """What a member of the group subscribes to."""
    asked: tuple[str, ...]

    def __str__(self) -> str:
        has, asked = ", ".join(self.has), ", ".join(self.asked)
        return (
            f"group {self.group!r} has a member that subscribes to {has:.500}, and this one asks "
            f"for {asked:.500}: each of them would leave out messages of its queues that no other "
            "member reads; let all members subscribe alike, use a group for each, or pass "
            "mixed=True"
        )


@attrs.define(eq=False, repr=False)
class ConsumerClosedError(ReputError):
    """A consumer is used after it was closed."""

    group: str

    def __str__(self) -> str:
        return f"the consumer of group {self.group!r} is closed; open another one"


@attrs.define(eq=False, repr=False)
class NotAssignedError(ReputError, LookupError):
    """A call names a queue that the consumer does not read."""

    group: str
    queue: MessageQueue

    def __str__(self) -> str:
        return (
            f"a consumer of group {self.group!r} does not read {self.queue.topic}/"
            f"{self.queue.queue_id}: its property queues lists what it reads"
        )


@attrs.define(eq=False, repr=False)
class TopicKeptError(ReputError):
    """A topic with batch queues is to be deleted."""

    topic: str

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} has batch queues (queue.type=BatchCQ) and was not deleted: a "
            "broker does not start with the queues of an unknown topic; "
            "delete the topic with the broker"
        )
