"""Apache RocketMQ's own name server, broker, admin tool and client, on loopback, for tests::

    rocketmq = realbroker.fetch("5.3.3")            # from Maven, once; JavaUnavailableError: skip
    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.broker(tmp_path / "broker", names.address, store=tmp_path / "store") as broker,
        rocketmq.peer(tmp_path / "peer", names.address) as peer,
    ):
        peer.send([{"topic": "orders", "body": "1", "tags": "paid"}])
        peer.admin("consumerProgress", "-g", "billing")

Each comes back once it answers on its port; ports are free ones unless named. Leaving the block
stops it as an operator does; ``kill()`` as a crash does.
"""

from __future__ import annotations

from freeports import free_ports
from mavenparts import JavaFailedError, JavaUnavailableError

from realbroker.gateway import proxy
from realbroker.hosts import BrokerHost
from realbroker.parts import STORE_CONFIG, VERSIONS, RocketMQ, fetch
from realbroker.peer import Peer
from realbroker.process import Process, Server

__all__ = [
    "STORE_CONFIG",
    "VERSIONS",
    "BrokerHost",
    "JavaFailedError",
    "JavaUnavailableError",
    "Peer",
    "Process",
    "RocketMQ",
    "Server",
    "fetch",
    "free_ports",
    "proxy",
]
