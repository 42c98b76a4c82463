"""Lowers offsets of groups that lie beyond the ends of their queues.

A power cut may leave such offsets where a broker, or an earlier release, saved them before the
messages that they count. The next messages get those queue offsets, and the group would never read
them. So the offsets are lowered to the queue offset that the next message gets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from reput_consumer.names import LIGHT_PREFIX, SYSTEM_GROUP_PREFIX

if TYPE_CHECKING:
    from reput_consumer.metadata.consumeroffsets import ConsumerOffsets

logger = logging.getLogger(__name__)


def clamp_offsets(
    offsets: ConsumerOffsets,
    queue_offsets: Mapping[tuple[str, int], int],
    *,
    light_queues: bool = False,
) -> None:
    """Lower offsets that count more messages than there are, durably, with a warning for each.

    Args:
        offsets: the offsets of all groups.
        queue_offsets: the queue offset that the next message of each (topic, queue id) gets.
        light_queues: whether the store lists messages in light queues, and so knows all of them.

    Raises:
        OSError: the file cannot be written.
    """
    for group, by_queue in offsets.by_group().items():
        if group.startswith(SYSTEM_GROUP_PREFIX):
            continue
        for (topic, queue_id), offset in by_queue.items():
            end = queue_offsets.get((topic, queue_id))
            if end is None:
                if topic.startswith(LIGHT_PREFIX) and not light_queues:  # others may keep it
                    continue
                end = 0
            if offset <= end:
                continue
            offsets.commit(group, {(topic, queue_id): end})
            logger.warning(
                "offset lowered, it counted messages that the log does not have "
                "group=%s queue=%s/%d offset=%d lowered_to=%d",
                *(group, topic, queue_id, offset, end),
            )
    offsets.save()  # counts no message that is not on disk: the committed offset is lower
