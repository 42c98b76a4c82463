"""The strategies that know machine rooms: `MachineRoom` and `NearbyRoom`.

Source: RocketMQ ``AllocateMessageQueueByMachineRoom`` and ``AllocateMachineRoomNearby``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from reput_consumer.allocation.simple import Average
from reput_consumer.allocation.strategy import AllocationError, Strategy
from reput_consumer.messagequeue import MessageQueue


def _names(given: Iterable[str]) -> frozenset[str]:
    return frozenset([given] if isinstance(given, str) else given)


@attrs.frozen
class MachineRoom:
    """Only queues of brokers in some rooms, whose names are ``room@name``."""

    rooms: frozenset[str] = attrs.field(converter=_names)
    name = "MACHINE_ROOM"

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """See `Strategy.allocate`."""
        if member not in members:
            return []
        kept = [queue for queue in queues if self._is_near(queue.broker)]
        place = members.index(member)
        size, more = divmod(len(kept), len(members))
        found = kept[place * size : (place + 1) * size]
        if place < more:
            found.append(kept[place + size * len(members)])
        return found

    def _is_near(self, broker: str) -> bool:
        parts = broker.split("@")
        return len(parts) == 2 and parts[0] in self.rooms


def room_before_at(name: str) -> str:
    """Return the room of a broker or a member that is named ``room@name``; empty without one."""
    room, separator, _ = name.partition("@")
    return room if separator else ""


@attrs.frozen
class NearbyRoom:
    """Queues for members of the same room; rooms without members are shared by all."""

    inner: Strategy = attrs.field(factory=Average)
    """Shares out within one room."""
    room_of_broker: Callable[[str], str] = room_before_at
    """Returns the room of a broker by its name."""
    room_of_member: Callable[[str], str] = room_before_at
    """Returns the room of a member by its client id."""

    @property
    def name(self) -> str:
        """See `Strategy.name`."""
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def allocate(
        self, member: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> list[MessageQueue]:
        """See `Strategy.allocate`."""
        if member not in members:
            return []
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            room = _known("broker", queue.broker, self.room_of_broker(queue.broker))
            queues_of.setdefault(room, []).append(queue)
        members_of: dict[str, list[str]] = {}
        for each in members:
            room = _known("member", each, self.room_of_member(each))
            members_of.setdefault(room, []).append(each)
        mine = self.room_of_member(member)
        found = self.inner.allocate(member, queues_of.get(mine, []), members_of[mine])
        for room in sorted(queues_of.keys() - members_of.keys()):
            found += self.inner.allocate(member, queues_of[room], members)
        return found


def _known(what: str, name: str, room: str) -> str:
    if not room:
        raise AllocationError(
            f"the machine room of {what} {name!r} is not known; use names such as room@name, or "
            f"another function room_of_{what}"
        )
    return room
