"""Headers of name servers: routes, registrations, settings by name.

Source: RocketMQ ``namesrv`` headers, ``RegisterBrokerRequestHeader`` and their kin.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from reput_client.remoting.headers.fields import Int, Long


@attrs.frozen(kw_only=True)
class TopicRouteOf:
    """Wants a topic's route."""

    topic: str
    accept_standard_json_only: bool | None = None


@attrs.frozen(kw_only=True)
class RegisterBroker:
    """A broker says that it is there, and with which topics."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str = ""
    broker_id: Long
    compressed: bool = False
    body_crc32: Int = 0
    heartbeat_timeout_millis: Long | None = None
    enable_acting_master: bool | None = None


@attrs.frozen(kw_only=True)
class RegisterAnswer:
    """What a broker learns of its master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@attrs.frozen(kw_only=True)
class UnregisterBroker:
    """A broker unregisters; also a request for the version of its topics."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long


@attrs.frozen(kw_only=True)
class DataVersionAnswer:
    """Whether a broker's topics have changed since it registered them."""

    changed: bool


@attrs.frozen(kw_only=True)
class BrokerAlive:
    """A broker is still there."""

    cluster_name: str
    broker_addr: str
    broker_name: str


@attrs.frozen(kw_only=True)
class BrokerNamed:
    """A broker by its name."""

    broker_name: str


@attrs.frozen(kw_only=True)
class MemberGroup:
    """The master and slaves of one name."""

    cluster_name: str
    broker_name: str


@attrs.frozen(kw_only=True)
class ClusterOf:
    """A cluster by its name."""

    cluster: str


@attrs.frozen(kw_only=True)
class Entry:
    """A setting of a namespace."""

    namespace: str
    key: str
    value: str


@attrs.frozen(kw_only=True)
class EntryOf:
    """Names a setting of a namespace."""

    namespace: str
    key: str


@attrs.frozen(kw_only=True)
class EntryAnswer:
    """The value of a setting."""

    value: str


@attrs.frozen(kw_only=True)
class NamespaceOf:
    """All settings of a namespace."""

    namespace: str


@attrs.frozen(kw_only=True)
class WipedAnswer:
    """Topics that can no longer be written to."""

    wire_names: ClassVar = {"count": "wipeTopicCount"}

    count: Int


@attrs.frozen(kw_only=True)
class WritableAnswer:
    """Topics that can be written to again."""

    wire_names: ClassVar = {"count": "addTopicCount"}

    count: Int
