"""Routes: at which brokers a topic has how many queues, and where these brokers are.

Source: RocketMQ ``TopicRouteData``, ``QueueData``, ``BrokerData``, ``ClusterInfo``.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from reput_client.remoting.bodies.bodyobject import BodyObject
from reput_client.remoting.bodies.loosejson import write_body
from reput_client.remoting.errors import BodyError

MASTER_ID = 0
_CLUSTER = "cluster info"


@attrs.frozen(kw_only=True)
class QueueData:
    """Queues of a topic at one broker."""

    broker: str
    """The broker's name."""
    read_queues: int
    write_queues: int
    permissions: int
    """Bits: 4 to read, 2 to write, 1 for topics that take over settings."""
    sys_flag: int = 0

    def members(self) -> dict[str, object]:
        """Return the members as a body has them."""
        return {
            "brokerName": self.broker,
            "perm": self.permissions,
            "readQueueNums": self.read_queues,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }


@attrs.frozen(kw_only=True)
class BrokerData:
    """A broker: addresses of its master and of its slaves."""

    cluster: str
    broker: str
    """The broker's name."""
    addresses: Mapping[int, str]
    """``host:port`` by broker id; `MASTER_ID` is the master's."""

    def members(self) -> dict[str, object]:
        """Return the members as a body has them."""
        return {
            "brokerAddrs": dict(self.addresses),
            "brokerName": self.broker,
            "cluster": self.cluster,
            "enableActingMaster": False,
        }


@attrs.frozen(kw_only=True)
class TopicRoute:
    """The route of a topic."""

    queues: tuple[QueueData, ...] = ()
    brokers: tuple[BrokerData, ...] = ()
    order: str | None = None
    """Queues of an ordered topic: ``broker-a:8;broker-b:8``."""

    def encode(self, *, is_strict: bool = False) -> bytes:
        """Return the body; strict JSON only on request, as Go reads bare keys alone."""
        members: dict[str, object] = {
            "brokerDatas": [each.members() for each in self.brokers],
            "filterServerTable": {},
        }
        if self.order is not None:
            members["orderTopicConf"] = self.order
        members["queueDatas"] = [each.members() for each in self.queues]
        return write_body(members, is_strict=is_strict)

    @classmethod
    def decode(cls, body: bytes) -> TopicRoute:
        """Return what a body says.

        Raises:
            BodyError: it is not a route.
        """
        found = BodyObject.of(body, "route")
        return cls(
            queues=tuple(map(_queues, found.objects("queueDatas"))),
            brokers=tuple(map(_broker, found.objects("brokerDatas"))),
            order=found.text("orderTopicConf", None),
        )


@attrs.frozen(kw_only=True)
class ClusterInfo:
    """All brokers, by name, and the names in each cluster."""

    brokers: Mapping[str, BrokerData]
    clusters: Mapping[str, tuple[str, ...]]

    def encode(self) -> bytes:
        """Return the body."""
        return write_body(
            {
                "brokerAddrTable": {name: each.members() for name, each in self.brokers.items()},
                "clusterAddrTable": self.clusters,
            }
        )

    @classmethod
    def decode(cls, body: bytes) -> ClusterInfo:
        """Return what a body says.

        Raises:
            BodyError: it is not such information.
        """
        found = BodyObject.of(body, _CLUSTER)
        names = found.member("clusterAddrTable")
        return cls(
            brokers={name: _broker(each) for name, each in found.table("brokerAddrTable").items()},
            clusters={name: tuple(names.texts(name)) for name in names.found},
        )


def _queues(found: BodyObject) -> QueueData:
    return QueueData(
        broker=found.text("brokerName"),
        read_queues=found.integer("readQueueNums", bits=32),
        write_queues=found.integer("writeQueueNums", bits=32),
        permissions=found.integer("perm", bits=32),
        sys_flag=found.integer("topicSysFlag", found.integer("topicSynFlag", 0)),
    )


def _broker(found: BodyObject) -> BrokerData:
    addresses = found.member("brokerAddrs")
    try:
        by_id = {int(key): addresses.text(key) for key in addresses.found}
    except (TypeError, ValueError) as error:
        raise BodyError(found.what, 0, f"a broker id that is not an integer ({error})") from None
    return BrokerData(
        cluster=found.text("cluster", ""), broker=found.text("brokerName"), addresses=by_id
    )
