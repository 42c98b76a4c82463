"""What a broker says of itself: its configuration, and the extent of its log.

Source: RocketMQ ``AdminBrokerProcessor#getBrokerConfig`` (lines of ``key=value``) and
``#prepareRuntimeInfo`` (a table of texts).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from reput_server.follow.errors import BrokerError

_LINES_MAX: Final = 10_000
_FILE_SIZE_MAX: Final = (1 << 31) - 1
_PORT_MAX: Final = 65_535
_OFFSET_MAX: Final = (1 << 63) - 1


@attrs.frozen
class BrokerFacts:
    """What a follower has to know of a broker."""

    address: str
    """``host:port`` of the broker."""
    cluster: str
    broker: str
    """The broker's name."""
    broker_id: int
    """0 of a master."""
    role: str
    """``ASYNC_MASTER``, ``SYNC_MASTER`` or ``SLAVE``."""
    file_size: int
    """Bytes of one file of the commit log."""
    ha_port: int | None
    """None if it names none, as `reput serve` without ``--replicas``."""
    in_sync_replicas: int | None
    """How many brokers a send of a SYNC_MASTER waits for, itself included; None in 4.x, which
    waits for one slave."""
    is_controlled: bool
    """Whether it is in controller mode, whose HA port has frames of its own."""
    is_dledger: bool

    @property
    def name(self) -> str:
        """Cluster and broker, as they name a replica's master."""
        return f"{self.cluster}/{self.broker}" if self.cluster else self.broker

    @property
    def where(self) -> str:
        """Name and address, for errors."""
        return self.name if self.name == self.address else f"{self.name} at {self.address}"

    @property
    def waits_for_slaves(self) -> bool:
        """Whether a send may wait for reports of slaves."""
        return self.role == "SYNC_MASTER" and (
            self.in_sync_replicas is None or self.in_sync_replicas > 1
        )


@attrs.frozen
class LogRange:
    """The extent of a master's log, as physical offsets."""

    min_offset: int
    max_offset: int
    """The first position that is not there."""


def facts_of(address: str, body: bytes) -> BrokerFacts:
    """Return what the answer to GET_BROKER_CONFIG says.

    Raises:
        BrokerError: something is missing, or cannot be true.
    """
    found = _lines(address, body)
    replicas = found.get("inSyncReplicas")
    return BrokerFacts(
        address=address,
        cluster=found.get("brokerClusterName", ""),
        broker=_text(address, found, "brokerName"),
        broker_id=_number(address, found, "brokerId", _OFFSET_MAX),
        role=_text(address, found, "brokerRole"),
        file_size=_number(address, found, "mappedFileSizeCommitLog", _FILE_SIZE_MAX, 1),
        ha_port=_ha_port(address, found),
        in_sync_replicas=None
        if replicas is None
        else _number(address, found, "inSyncReplicas", _FILE_SIZE_MAX),
        is_controlled=found.get("enableControllerMode") == "true",
        is_dledger=found.get("enableDLegerCommitLog") == "true",
    )


def range_of(address: str, table: Mapping[str, object]) -> LogRange:
    """Return what the answer to GET_BROKER_RUNTIME_INFO says of the log.

    Raises:
        BrokerError: it says nothing of it, or what cannot be true.
    """
    texts = {name: str(value) for name, value in table.items()}
    if texts.get("commitLogMinOffset") == "-1":  # it has no file yet
        texts["commitLogMinOffset"] = "0"
    low = _number(address, texts, "commitLogMinOffset", _OFFSET_MAX)
    high = _number(address, texts, "commitLogMaxOffset", _OFFSET_MAX)
    if low > high:
        raise BrokerError(address, f"its log begins at {low} and ends at {high}")
    return LogRange(low, high)


def _lines(address: str, body: bytes) -> dict[str, str]:
    lines = body.decode("utf-8", "replace").splitlines()
    if len(lines) > _LINES_MAX:
        raise BrokerError(address, f"a configuration of {len(lines)} lines")
    pairs = (line.partition("=") for line in lines)
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


def _ha_port(address: str, found: Mapping[str, str]) -> int | None:
    if "haListenPort" not in found:
        return None
    # 5.x: 0 stands for the port above the broker's own; 4.x writes the port that it uses.
    port = _number(address, found, "haListenPort", _PORT_MAX)
    if port:
        return port
    return min(_number(address, found, "listenPort", _PORT_MAX) + 1, _PORT_MAX)


def _text(address: str, found: Mapping[str, str], name: str) -> str:
    value = found.get(name, "")
    if not value:
        raise BrokerError(address, f"it does not say {name}; is it a broker of RocketMQ?")
    return value


def _number(address: str, found: Mapping[str, str], name: str, most: int, least: int = 0) -> int:
    value = _text(address, found, name)
    if not (value.isascii() and value.isdigit() and len(value) <= 19):
        raise BrokerError(address, f"{name} is {value[:40]!r}, where a number is expected")
    if not least <= int(value) <= most:
        raise BrokerError(address, f"{name} is {value}, where {least} to {most} is expected")
    return int(value)
