"""How long a store keeps its messages: the configuration section ``retention``.

By default nothing is removed: a store that is embedded in a program, or a directory that was copied
from RocketMQ for inspection, must not lose messages older than three days only because it is
opened. `reput.ROCKETMQ_RETENTION` are RocketMQ's defaults.

Source: RocketMQ ``MessageStoreConfig``: ``fileReservedTime``, ``deleteWhen``,
``diskMaxUsedSpaceRatio`` and the system properties ``rocketmq.broker.diskSpace…Ratio``. Different
on purpose: a file's age is that of its last message, by store time, and not the file's modification
time, which any copy changes; ratios are not clamped; the log can be limited by its size, too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

import attrs
from attrs.validators import in_, instance_of

from reput.bounds import AGE_MAX_MS, INT32_MAX, number_between, whole_between

__all__ = ["DROP", "KEEP", "ROCKETMQ_RETENTION", "TELL", "WAIT", "RetentionConfig", "hour_of"]

WAIT: Final = "wait"
TELL: Final = "tell"
KEEP: Final = "keep"
DROP: Final = "drop"
_UTC: Final = "UTC"
_LOCAL: Final = "local"
_HOUR_MS: Final = 3_600_000

ROCKETMQ_RETENTION: Final[Mapping[str, Any]] = {
    "reserved_ms": 72 * _HOUR_MS,
    "delete_when": "04",
    "time_zone": _LOCAL,
    "disk_max_ratio": 0.75,
    "disk_force_ratio": 0.85,
    "disk_warn_ratio": 0.90,
}
"""Options by which a store keeps its messages as long as RocketMQ does by default:
``config={"retention": reput.ROCKETMQ_RETENTION}``."""


def hour_of(now: int, time_zone: str) -> int:
    """Return the hour of the day, 0 to 23.

    Args:
        now: the time, ms since the epoch.
        time_zone: name of a zone as in ``Europe/Berlin``, ``UTC``, or ``local`` for the machine's.

    Raises:
        ValueError: no such zone.
    """
    moment = dt.datetime.fromtimestamp(now / 1_000, dt.UTC)
    if time_zone == _UTC:
        return moment.hour  # without the table of time zones, which a system may lack
    if time_zone == _LOCAL:
        return moment.astimezone().hour
    import zoneinfo

    try:
        return moment.astimezone(zoneinfo.ZoneInfo(time_zone)).hour
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{time_zone!r} is no known time zone ({error})") from None


def _hours(text: str) -> frozenset[int]:
    return frozenset(int(part) for part in text.split(";") if part.strip())


def _check_hours(config: object, field: attrs.Attribute[Any], value: str) -> None:
    for part in filter(str.strip, value.split(";")):
        if not (part.strip().isascii() and part.strip().isdigit() and int(part) < 24):
            raise ValueError(f"hours from 0 to 23 with ; between them expected, not {value!r}")


def _check_zone(config: object, field: attrs.Attribute[Any], value: str) -> None:
    hour_of(0, value)


_ratio = number_between(0, 1)
_positive = whole_between(1, INT32_MAX)
_text = instance_of(str)


@attrs.frozen(kw_only=True)
class RetentionConfig:
    """Options of the section ``retention``; by default nothing is ever removed."""

    reserved_ms: int = attrs.field(default=0, validator=whole_between(0, AGE_MAX_MS))
    """Remove log files whose last message was stored longer ago than this; 0 keeps them for ever.
    RocketMQ: 259_200_000, which is 72 hours."""
    delete_when: str = attrs.field(default="", validator=[_text, _check_hours])
    """Hours of the day at which files are removed by age, as in ``"04"`` or ``"03;15"``; empty for
    any."""
    time_zone: str = attrs.field(default=_UTC, validator=[_text, _check_zone])
    """Time zone of `delete_when`, such as ``"Europe/Berlin"``, or ``"local"`` for the machine's."""
    max_bytes: int = attrs.field(default=0, validator=whole_between(0, (1 << 63) - 1))
    """Most bytes of all log files; above, the oldest files are removed regardless of age, but never
    the last one. 0 for no limit."""
    disk_max_ratio: float = attrs.field(default=0.0, validator=_ratio)
    """Disk usage above which files older than `reserved_ms` go at any hour; 0 for never."""
    disk_force_ratio: float = attrs.field(default=0.0, validator=_ratio)
    """Disk usage above which the oldest files are removed regardless of age; 0 for never."""
    disk_warn_ratio: float = attrs.field(default=0.0, validator=_ratio)
    """Disk usage above which the oldest files are removed regardless of age, and puts are refused
    (`reput.errors.DiskFullError`) until there is space again; 0 for never."""
    held: str = attrs.field(default=WAIT, validator=in_((WAIT, TELL)))
    """What to do with files that a plugin still needs (its hook `reput_hold`): ``"wait"`` until it
    does not, or remove them nevertheless and ``"tell"`` it."""
    unseen: str = attrs.field(default=KEEP, validator=in_((KEEP, DROP)))
    """What to do with messages that a stopped plugin has not seen: ``"keep"`` them until it has, or
    ``"drop"`` them. Messages that a running plugin has not seen are always kept."""
    check_interval_ms: int = attrs.field(default=10_000, validator=_positive)
    """Time between two checks of ages, sizes and the disk."""
    batch_count: int = attrs.field(default=10, validator=_positive)
    """Most files that are removed at a time in the background; further ones follow at once."""

    @property
    def is_active(self) -> bool:
        """Whether the store ever removes files, or refuses puts, by itself."""
        return bool(self.reserved_ms or self.max_bytes or self.watches_disk)

    @property
    def watches_disk(self) -> bool:
        """Whether the options depend on how full the disk is."""
        return bool(self.disk_max_ratio or self.disk_force_ratio or self.disk_warn_ratio)

    @property
    def wanted_ratio(self) -> float:
        """Disk usage above which files are removed regardless of age; 0 for none."""
        return min(filter(None, (self.disk_force_ratio, self.disk_warn_ratio)), default=0.0)

    def is_hour(self, now: int) -> bool:
        """Whether files may be removed by age at ``now``, ms."""
        hours = _hours(self.delete_when)
        return not hours or hour_of(now, self.time_zone) in hours
