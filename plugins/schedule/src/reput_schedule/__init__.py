"""Delayed messages for reput: RocketMQ's delay levels, and any delivery time by its timer wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_schedule.api.delayedmessage import delayed as delayed
    from reput_schedule.api.recall import RecallHandle as RecallHandle
    from reput_schedule.api.recall import cancel_messages as cancel_messages
    from reput_schedule.api.recall import decode_handle as decode_handle
    from reput_schedule.api.recall import encode_handle as encode_handle
    from reput_schedule.api.scheduledmessages import PendingLevel as PendingLevel
    from reput_schedule.api.scheduledmessages import Scheduled as Scheduled
    from reput_schedule.config import DelayLevels as DelayLevels
    from reput_schedule.config import ScheduleConfig as ScheduleConfig
    from reput_schedule.plugin import SchedulePlugin as SchedulePlugin
    from reput_schedule.timerwheel.timer import TimerIllegalError as TimerIllegalError
else:
    __getattr__, __dir__ = lazy_exports(__name__)
