"""Which queues a member should have, by what the port says of its group.

Source: RocketMQ ``RebalanceImpl#rebalanceByTopic``.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from typing import TYPE_CHECKING

from reput.errors import ReputError
from reput_consumer.allocation.strategy import AllocationError
from reput_consumer.names import retry_topic
from reput_consumer.selectors import Selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reput_consumer.backend.consumerbackend import ConsumerBackend
    from reput_consumer.group.membersettings import MemberSettings
    from reput_consumer.messagequeue import MessageQueue

logger = logging.getLogger(__name__)


def subscription_of(settings: MemberSettings) -> Mapping[str, Selector]:
    """Return selectors by topic; a group that shares queues out also reads its retry topic."""
    if not settings.retries:
        return settings.selectors
    return {**settings.selectors, retry_topic(settings.group): Selector()}


def wanted_queues(
    port: ConsumerBackend, settings: MemberSettings, topics: Iterable[str]
) -> tuple[dict[str, Sequence[MessageQueue] | None], set[str]]:
    """Return which queues a member should have.

    Args:
        port: answers which queues and members exist.
        settings: of the member.
        topics: those of `subscription_of`.

    Returns:
        Queues by topic, None where the member keeps its queues; and the topics that must be looked
        at later.
    """
    found: dict[str, Sequence[MessageQueue] | None] = {}
    unknown = set()
    members: Sequence[str] = ()
    for topic in topics:
        try:
            queues = port.queues(topic)
            if not (members or settings.broadcast):
                members = port.members(settings.group)
            found[topic] = _of_topic(settings, queues, members)
            if found[topic] is None:
                unknown.add(topic)
        except AllocationError as error:
            logger.warning(
                "queues not shared out group=%s topic=%s: %s", settings.group, topic, error
            )
            found[topic] = None
        except ReputError as error:
            logger.warning("queues not known group=%s topic=%s: %s", settings.group, topic, error)
            found[topic] = None
            unknown.add(topic)
    return found, unknown


def _of_topic(
    settings: MemberSettings, queues: Sequence[MessageQueue], members: Sequence[str]
) -> Sequence[MessageQueue] | None:
    if settings.broadcast:
        return queues
    place = bisect_left(members, settings.member)
    if place == len(members) or members[place] != settings.member:
        return None  # not known yet, or left: keep the queues
    return settings.strategy.allocate(settings.member, queues, members)
