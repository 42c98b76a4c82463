"""How long a store keeps its messages: the configuration section ``retention``.

By default nothing is removed: a store that is embedded in a program, or a directory that was copied
from RocketMQ for inspection, must not lose messages older than three days only because it is
opened. `ROCKETMQ_RETENTION` are RocketMQ's defaults.

Source: RocketMQ ``MessageStoreConfig``: ``fileReservedTime``, ``deleteWhen``,
``diskMaxUsedSpaceRatio`` and the system properties ``rocketmq.broker.diskSpace…Ratio``. Different
on purpose: a file's age is that of its last message, by store time, and not the file's modification
time, which any copy changes; ratios are not clamped; the log can be limited by its size, too.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs
from attrs.validators import in_, instance_of

from reput.plugin import AGE_MAX_MS, integer_between, number_between

KEEP: Final = "keep"
DROP: Final = "drop"
_UTC: Final = "UTC"
_LOCAL: Final = "local"
_HOUR_MS: Final = 3_600_000
_HOURS_AND_ZONE: Final = re.compile(r"([0-9;\s]*)(.*)", re.DOTALL)

ROCKETMQ_RETENTION: Final[Mapping[str, Any]] = {
    "reserved_ms": 72 * _HOUR_MS,
    "delete_when": "04 local",
    "disk_max_ratio": 0.75,
    "disk_warn_ratio": 0.90,
}
"""Options by which a store keeps its messages as long as RocketMQ does by default:
``config={"retention": reput_retention.ROCKETMQ_RETENTION}``."""


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
        raise ValueError(f"{time_zone!r} is not a known time zone ({error})") from None


def hours_of(delete_when: str) -> tuple[frozenset[int], str]:
    """Return the hours of the day that an option ``delete_when`` names, and their time zone.

    Raises:
        ValueError: the text names no hours, or a zone that does not exist.
    """
    listed, zone = _HOURS_AND_ZONE.fullmatch(delete_when.strip()).groups()  # type: ignore[union-attr]
    parts = [part.strip() for part in listed.split(";") if part.strip()]
    is_apart = not zone or (bool(parts) and listed[-1].isspace())
    if not is_apart or not all(part.isdigit() and int(part) < 24 for part in parts):
        raise ValueError(
            "hours from 0 to 23 with ; between them, and perhaps a space and a time zone, "
            f"expected, not {delete_when!r}"
        )
    hour_of(0, zone or _UTC)
    return frozenset(map(int, parts)), zone or _UTC


def _check_hours(config: object, field: attrs.Attribute[Any], value: str) -> None:
    hours_of(value)


_ratio = number_between(0, 1)


@attrs.frozen(kw_only=True)
class RetentionConfig:
    """Options of the ``retention`` plugin; by default nothing is ever removed."""

    removed_options: ClassVar[Mapping[str, str]] = {
        "time_zone": 'delete_when names the zone: "04 Europe/Berlin"',
        "disk_force_ratio": "disk_warn_ratio removes files, too",
        "held": "what a plugin needs is always kept",
        "check_interval_ms": "a store checks every ten seconds",
        "batch_count": "ten files go at a time",
    }

    reserved_ms: int = attrs.field(default=0, validator=integer_between(0, AGE_MAX_MS))
    """Remove log files whose last message was stored longer ago than this; 0 keeps them for ever.
    RocketMQ: ``259_200_000``, which is 72 hours (``fileReservedTime``).

    Set it when old messages are not needed.
    """
    delete_when: str = attrs.field(default="", validator=[instance_of(str), _check_hours])
    """Hours of the day, from 0 to 23, at which files are removed by age, such as ``"04"`` or
    ``"03;15"``. The hours are in UTC. A space and another time zone may follow:
    ``"04 Europe/Berlin"``, or ``"04 local"`` for the time zone of the machine, which RocketMQ uses.
    If the text is empty, files are removed at any hour.

    Set it when removing large files disturbs the busy hours.
    """
    max_bytes: int = attrs.field(default=0, validator=integer_between(0, (1 << 63) - 1))
    """Limit for the size of all log files. Above it the oldest files are removed regardless of age,
    but never the last one. 0 for no limit.

    Set it when the store shares its disk with others.
    """
    disk_max_ratio: float = attrs.field(default=0.0, validator=_ratio)
    """Disk usage above which files older than `reserved_ms` are removed at any hour; 0 for never.
    RocketMQ: 0.75 (``diskMaxUsedSpaceRatio``).

    Set it together with `delete_when`.
    """
    disk_warn_ratio: float = attrs.field(default=0.0, validator=_ratio)
    """Disk usage above which the oldest files are removed regardless of age, and puts are refused
    (`reput.errors.DiskFullError`) until the usage is lower again; 0 for never. RocketMQ: 0.9.

    Set it when new messages matter more than old ones.
    """
    unseen: str = attrs.field(default=KEEP, validator=in_((KEEP, DROP)))
    """Whether to keep messages that a stopped plugin has not seen: ``"keep"`` them until it has
    seen them, or ``"drop"`` them. Messages that a running plugin has not seen are always kept.

    Set it to ``"drop"`` when a stopped plugin must not fill the disk.
    """

    @property
    def is_active(self) -> bool:
        """Whether the store ever removes files, or refuses puts, by itself."""
        return bool(self.reserved_ms or self.max_bytes or self.watches_disk)

    @property
    def watches_disk(self) -> bool:
        """Whether the options depend on how full the disk is."""
        return bool(self.disk_max_ratio or self.disk_warn_ratio)

    def is_hour(self, now: int) -> bool:
        """Whether files may be removed by age at ``now``, ms."""
        hours, zone = hours_of(self.delete_when)
        return not hours or hour_of(now, zone) in hours
