"""Delayed messages for reput: RocketMQ's delay levels, and any delivery time by its timer wheel."""

from __future__ import annotations

from reput_schedule.delayed import delayed
from reput_schedule.levels import DelayLevels
from reput_schedule.pending import PendingLevel, Scheduled
from reput_schedule.plugin import ScheduleConfig, SchedulePlugin
from reput_schedule.recall import RecallHandle, cancel_message, decode_handle, encode_handle
from reput_schedule.timer import TimerFlowControlError, TimerIllegalError

__all__ = [
    "DelayLevels",
    "PendingLevel",
    "RecallHandle",
    "ScheduleConfig",
    "SchedulePlugin",
    "Scheduled",
    "TimerFlowControlError",
    "TimerIllegalError",
    "cancel_message",
    "decode_handle",
    "delayed",
    "encode_handle",
]
