"""Decide whether this process may deliver the messages that wait in a store.

A RocketMQ broker's directory may be opened only to read it, to repair it or to put a message. The
messages that wait in it will be delivered by the broker when it is back; they are delivered here
only if an option says so. The two cases are told apart by our note in ``config/delayOffset.json``,
which RocketMQ leaves out when it writes that file. The note is made when a store is opened for the
first time in which nothing can be waiting.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from reput_schedule.delaylevels.layout import SCHEDULE_TOPIC
from reput_schedule.delaylevels.offsetsfile import DIRECTORY, FILE_NAME
from reput_schedule.timerwheel.layout import TIMER_TOPIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.plugin import StoreContext
    from reput_schedule.delaylevels.delaystate import DelayState

logger = logging.getLogger(__name__)

_QUEUES: Final = "consumequeue"  # RocketMQ's directory of the queues
_ALWAYS: Final = "always"
_NEVER: Final = "never"


def take(context: StoreContext, state: DelayState, deliver: str) -> bool:
    """Return whether to deliver; make the note in a store where no message can wait.

    The note is on disk when this returns, before the first message can be parked: a crash at any
    later time leaves it there.

    Args:
        context: of a store that is open for writing.
        state: the file with the note, already read.
        deliver: the option ``deliver``.
    """
    if deliver == _NEVER:
        return False
    if state.is_ours or deliver == _ALWAYS:
        return True
    if state.saved is None and _nothing_can_wait(context):
        state.save({}, context.log.max_physical_offset)
        return True
    logger.warning(
        "delayed messages are not delivered, as a RocketMQ broker may still do it; the option "
        "deliver='always' of the plugin schedule has them delivered here path=%s",
        context.root,
    )
    return False


def take_over(
    context: StoreContext, state: DelayState, queue_offsets: Mapping[tuple[str, int], int]
) -> None:
    """Make the note in a replica that is being promoted; the next opening delivers.

    The file may have offsets of the master, as of some moment. Where in the log that was is not
    known, so the next opening looks for delivered messages in all of the log.

    Args:
        context: of the replica.
        state: the file, which a follower may have replaced since the opening.
        queue_offsets: the queue offset that the next message of each (topic, queue id) gets.
    """
    saved = state.load()
    offsets = {} if saved is None else saved.offsets
    # The master may have delivered messages that the replica has not got.
    ends = {level: queue_offsets.get((SCHEDULE_TOPIC, level - 1), 0) for level in offsets}
    known = {level: min(offset, ends[level]) for level, offset in offsets.items()}
    state.save(known, context.log.min_physical_offset)


def _nothing_can_wait(context: StoreContext) -> bool:
    log, disk = context.log, context.disk
    if log.max_physical_offset == log.min_physical_offset:
        return True
    if disk.exists(context.directory(DIRECTORY, FILE_NAME)):
        return False  # the file cannot be read, or is empty
    if not disk.exists(context.directory(_QUEUES)):
        return False  # only reading the whole log could tell
    return not any(
        disk.exists(context.directory(_QUEUES, topic)) for topic in (SCHEDULE_TOPIC, TIMER_TOPIC)
    )
