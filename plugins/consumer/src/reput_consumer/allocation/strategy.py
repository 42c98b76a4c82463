"""`Strategy`, what shares queues out, and `share`, one member's part.

Source: RocketMQ ``AllocateMessageQueueStrategy``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from reput.errors import ReputError
from reput_consumer.messagequeue import MessageQueue


class AllocationError(ReputError):
    """A strategy cannot share the queues out; members keep what they have."""


class Strategy(Protocol):
    """Shares queues out among the members of a group; one object may serve many groups."""

    @property
    def name(self) -> str:
        """RocketMQ's name of the strategy."""
        ...

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of one member.

        Args:
            member: its client id, one of ``members``.
            queues: all queues of one topic, sorted.
            members: client ids of the group, sorted, each once.

        Raises:
            AllocationError: the queues cannot be shared out.
        """
        ...


def share(
    strategy: Strategy, member: str, queues: Iterable[MessageQueue], members: Iterable[str]
) -> list[MessageQueue]:
    """Return the queues of one member, from lists in any order.

    A member that the group does not list gets none, except from `Configured`.

    Raises:
        AllocationError: the strategy cannot share the queues out.
    """
    return strategy.allocate(member, sorted(set(queues)), sorted(set(members)))
