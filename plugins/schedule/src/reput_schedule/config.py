"""Options of the timer, and which of them go together."""

from __future__ import annotations

import attrs
from attrs.validators import ge, instance_of, le

from reput.errors import ConfigError
from reput_schedule.timer.layout import LOG_FILE_SIZE

__all__ = ["TimerOptions"]


@attrs.frozen(kw_only=True)
class TimerOptions:
    """Options of the timer."""

    precision_ms: int = attrs.field(default=1000, validator=[instance_of(int), ge(10), le(10_000)])
    """ms of one slot: how late a message may come."""
    roll_window_slots: int = attrs.field(
        default=172_800, validator=[instance_of(int), ge(2), le(604_740)]
    )
    """Slots beyond which a message is carried on, to be parked again when it gets there."""
    log_file_size: int = attrs.field(
        default=LOG_FILE_SIZE, validator=[instance_of(int), ge(4096), le(1 << 30)]
    )
    """Bytes of a timer-log file. Files that exist keep their size."""
    congest_count: int = attrs.field(
        default=(1 << 31) - 1, validator=[instance_of(int), ge(1), le((1 << 31) - 1)]
    )
    """Messages of one slot from which on some are refused; all are from twice as many on."""

    def __attrs_post_init__(self) -> None:
        if self.precision_ms * self.roll_window_slots >= 1 << 31:
            reason = (
                f"{self.roll_window_slots} slots of {self.precision_ms} ms are more than 24.8 "
                "days, which a record of the timer log cannot say"
            )
            raise ConfigError("schedule", "roll_window_slots", reason)
