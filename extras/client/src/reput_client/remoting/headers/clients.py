"""Headers of clients and groups: arrivals, departures, and resets that a broker passes on.

Source: RocketMQ ``UnregisterClientRequestHeader``, ``ResetOffsetRequestHeader`` and their kin.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from reput_client.remoting.headers.fields import Int, Long


@attrs.frozen(kw_only=True)
class Unregister:
    """A client leaves a group."""

    wire_names: ClassVar = {"client_id": "clientID"}

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


@attrs.frozen(kw_only=True)
class GroupOf:
    """A consumer group: its members, its connections, or that they changed."""

    consumer_group: str


@attrs.frozen(kw_only=True)
class ProducerGroupOf:
    """A producer group."""

    producer_group: str


@attrs.frozen(kw_only=True)
class ResetOffset:
    """Moves a group to a time, or to an offset."""

    topic: str
    group: str
    timestamp: Long
    is_force: bool
    queue_id: Int | None = None
    offset: Long | None = None


@attrs.frozen(kw_only=True)
class ConsumerStatus:
    """Requests the offsets of consumers."""

    topic: str
    group: str
    client_addr: str | None = None


@attrs.frozen(kw_only=True)
class RunningInfo:
    """Requests the state of a consumer."""

    consumer_group: str
    client_id: str
    jstack_enable: bool | None = None


@attrs.frozen(kw_only=True)
class ConsumeDirectly:
    """Has a consumer handle one message at once."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
