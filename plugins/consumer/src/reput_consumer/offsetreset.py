"""Resets the offsets of a group, in the file and in the members of this process.

Source: RocketMQ ``ResetOffsetByTimeCommand`` and ``AdminBrokerProcessor#resetOffset``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from reput_consumer.group.membersettings import EARLIEST, LATEST, Start

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reput_consumer.backend.consumerbackend import ConsumerBackend
    from reput_consumer.consumption.memberengine import MemberEngine
    from reput_consumer.messagequeue import MessageQueue
    from reput_consumer.pop.popservice import PopService


@attrs.frozen
class Reset:
    """The change of one queue."""

    queue: MessageQueue
    before: int | None
    """None if the group had no offset."""
    after: int


def planned_resets(port: ConsumerBackend, group: str, topic: str, to: Start) -> list[Reset]:
    """Return what a reset would change, by queue; changes nothing."""
    changes = []
    for queue in port.queues(topic):
        low, high = port.bounds(queue)
        if to.kind == EARLIEST:
            offset = low
        elif to.kind == LATEST:
            offset = high
        elif to.kind == "timestamp":
            offset = port.offset_by_time(queue, to.number)
        else:
            offset = to.number
        changes.append(Reset(queue, port.committed(group, queue), min(max(offset, low), high)))
    return changes


def move_group(
    port: ConsumerBackend,
    group: str,
    offsets: Mapping[MessageQueue, int],
    engines: Iterable[MemberEngine],
    popper: PopService,
) -> None:
    """Have a group go on at other offsets; durable when this returns.

    Args:
        port: has the queues.
        group: the group.
        offsets: where to, by queue.
        engines: members of the group in this process.
        popper: hands messages out to the group.

    Raises:
        ReputError: the offsets cannot be committed.
        OSError: they cannot be written.
    """
    for engine in engines:
        engine.move(offsets)
    popper.move(group, offsets, lambda: port.commit(group, offsets, durable=True))
