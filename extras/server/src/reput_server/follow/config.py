"""How a broker is followed."""

from __future__ import annotations

from typing import Any, Final, Literal

import attrs
from attrs.validators import instance_of, optional

from reput.plugin import integer_between, number_between

_SECONDS_MAX: Final = 2_147_483
_OFFSET_MAX: Final = (1 << 63) - 1


def _seconds(default: float, least: float = 0.001) -> Any:
    return attrs.field(default=default, validator=number_between(least, _SECONDS_MAX))


def _check_begin(config: object, field: attrs.Attribute[Any], value: Any) -> None:
    if value in ("oldest", "latest") and isinstance(value, str):
        return
    if type(value) is not int or not 0 <= value <= _OFFSET_MAX:
        raise ValueError(f"begin: oldest, latest or a physical offset expected, found {value!r}")


@attrs.frozen(kw_only=True)
class FollowConfig:
    """How a broker is followed."""

    begin: Literal["oldest", "latest"] | int = attrs.field(default="oldest", validator=_check_begin)
    """Where an empty store begins: at the oldest file of the master's log, at its latest one, or at
    the file that holds a physical offset."""
    acknowledge: bool = attrs.field(default=False, validator=instance_of(bool))
    """Whether the follower reports what it has on disk, as a slave does, so that a master that
    waits for slaves counts it. By default it is an observer, which reports nothing."""
    allow_stalls: bool = attrs.field(default=False, validator=instance_of(bool))
    """Whether an observer follows a SYNC_MASTER of 4.x, whose producers then wait 3 s and more for
    each send as long as no slave reports."""
    metadata: bool = attrs.field(default=False, validator=instance_of(bool))
    """Whether topics, groups and the offsets of groups are saved in the store's ``config``."""
    ha_address: str | None = attrs.field(default=None, validator=optional(instance_of(str)))
    """``HOST:PORT`` of the HA port, where it is not at the broker's host; for networks that
    translate addresses."""
    report_interval: float = _seconds(5.0)
    """Seconds between reports (``haSendHeartbeatInterval``)."""
    silence: float = _seconds(20.0)
    """Seconds without a byte of the master after which the connection is closed
    (``haHousekeepingInterval``)."""
    retry_interval: float = _seconds(5.0)
    """Seconds until a master that is gone is tried again."""
    ask_interval: float = _seconds(2.0)
    """Seconds between questions for the extent of the master's log."""
    look_interval: float = _seconds(0.05)
    """Seconds between two looks into a broker's directory, where that is the source."""
    metadata_interval: float = _seconds(10.0)
    """Seconds between questions for topics, groups and offsets."""
    ask_timeout: float = _seconds(5.0)
    """Seconds for one question, and for a connection."""
    settle_time: float = _seconds(5.0, 0.0)
    """Seconds that an observer, or an empty store, lets pass before it connects to a master that
    waits for slaves: its first report counts as an acknowledgement, and no producer waits that
    long."""
    overlap: int = attrs.field(default=64 << 10, validator=integer_between(1, 1 << 30))
    """Bytes of its own log that a follower has sent once more on each connection, to compare."""
