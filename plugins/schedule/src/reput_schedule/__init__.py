"""Delayed messages for reput: RocketMQ's delay levels, and any delivery time by its timer wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_schedule.config import DelayLevels as DelayLevels
    from reput_schedule.config import ScheduleConfig as ScheduleConfig
    from reput_schedule.plugin import SchedulePlugin as SchedulePlugin
    from reput_schedule.timer.timer import TimerIllegalError as TimerIllegalError
    from reput_schedule.users.delayed import delayed as delayed
    from reput_schedule.users.pending import PendingLevel as PendingLevel
    from reput_schedule.users.pending import Scheduled as Scheduled
    from reput_schedule.users.recall import RecallHandle as RecallHandle
    from reput_schedule.users.recall import cancel_message as cancel_message
    from reput_schedule.users.recall import decode_handle as decode_handle
    from reput_schedule.users.recall import encode_handle as encode_handle

_HOMES = {
    "DelayLevels": "config",
    "PendingLevel": "users.pending",
    "RecallHandle": "users.recall",
    "ScheduleConfig": "config",
    "SchedulePlugin": "plugin",
    "Scheduled": "users.pending",
    "TimerIllegalError": "timer.timer",
    "cancel_message": "users.recall",
    "decode_handle": "users.recall",
    "delayed": "users.delayed",
    "encode_handle": "users.recall",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)
