"""Delayed messages for reput: RocketMQ's delay levels, and any delivery time by its timer wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_schedule.delaying import delayed as delayed
    from reput_schedule.levels import DelayLevels as DelayLevels
    from reput_schedule.pending import PendingLevel as PendingLevel
    from reput_schedule.pending import Scheduled as Scheduled
    from reput_schedule.plugin import ScheduleConfig as ScheduleConfig
    from reput_schedule.plugin import SchedulePlugin as SchedulePlugin
    from reput_schedule.recall import RecallHandle as RecallHandle
    from reput_schedule.recall import cancel_message as cancel_message
    from reput_schedule.recall import decode_handle as decode_handle
    from reput_schedule.recall import encode_handle as encode_handle
    from reput_schedule.timer import TimerFlowControlError as TimerFlowControlError
    from reput_schedule.timer import TimerIllegalError as TimerIllegalError

_HOMES = {
    "DelayLevels": "levels",
    "PendingLevel": "pending",
    "RecallHandle": "recall",
    "ScheduleConfig": "plugin",
    "SchedulePlugin": "plugin",
    "Scheduled": "pending",
    "TimerFlowControlError": "timer",
    "TimerIllegalError": "timer",
    "cancel_message": "recall",
    "decode_handle": "recall",
    "delayed": "delaying",
    "encode_handle": "recall",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)
