"""Real brokers register at our name server, and ours at a real one."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from realbroker import Peer, RocketMQ

import reput
from reput_client.remoting import Command
from reput_server import Ports, ServerConfig, serving
from reput_server.nameserver.routehandlers import NameHandlers

_ANYWHERE = ("127.0.0.1", 0)
_PLUGINS = {"consumequeue", "consumer", "schedule"}
_SMALL = {
    "commitlog": {"file_size": 1 << 20},
    "consumequeue": {"units_per_file": 1_000},
    "consumer": {"broker_name": "broker-ours"},
}


def until(what: Callable[[], object], seconds: float = 60) -> None:
    end, pause = time.monotonic() + seconds, threading.Event()
    while not what():
        assert time.monotonic() < end, f"not in {seconds} s"
        pause.wait(0.2)


def route_of(peer: Peer, topic: str) -> str:
    return peer.admin("topicRoute", "-t", topic)


def test_a_real_broker_registers_at_our_name_server(
    rocketmq: RocketMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeats: list[Command] = []
    noted = NameHandlers.broker_heartbeat

    async def note(self: NameHandlers, request: object) -> Command:
        answer = await noted(self, request)
        heartbeats.append(answer)
        return answer

    monkeypatch.setattr(NameHandlers, "broker_heartbeat", note)
    # One of 5.x says every second that it is there, if it may do without the older way.
    beats = {"enableSlaveActingMaster": "true", "compatibleWithOldNameSrv": "false"}
    options = beats if rocketmq.version.startswith("5") else {}
    config = ServerConfig(listen=None, name_server=_ANYWHERE)
    with serving(None, config) as server:
        assert server.name_server is not None
        names = "{}:{}".format(*server.name_server)
        with (
            rocketmq.broker(tmp_path / "broker", names, **options) as broker,
            rocketmq.peer(tmp_path / "peer", names) as peer,
        ):
            sent = peer.send([{"topic": "orders", "body": f"{at}"} for at in range(10)])
            peer.listen("one", "billing", "orders", start="first")
            taken = peer.taken("one", 10)
            peer.admin("updateTopic", "-b", broker.address, "-t", "made", "-r", "3", "-w", "3")
            until(lambda: '"writeQueueNums":3' in re.sub(r"\s", "", route_of(peer, "made")))
            clusters = peer.admin("clusterList")
            until(lambda: not options or len(heartbeats) >= 3)
            peer.stop("one")
            broker.stop()
            left = peer.admin("clusterList")

    assert {row["status"] for row in sent} == {"SEND_OK"}
    assert sorted(row["body"] for row in taken) == [f"{at}" for at in range(10)]
    assert broker.address in clusters
    assert broker.address not in left
    assert {answer.code for answer in heartbeats} <= {0}


def test_our_broker_registers_at_a_real_name_server_beside_a_real_broker(
    rocketmq: RocketMQ, tmp_path: Path
) -> None:
    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.broker(tmp_path / "broker", names.address, name="broker-theirs") as theirs,
        rocketmq.peer(tmp_path / "peer", names.address) as peer,
        ExitStack() as stack,
    ):
        config = ServerConfig(
            listen=_ANYWHERE,
            name_server=None,
            cluster="reput",
            register=(("127.0.0.1", names.port),),
        )
        ports = stack.enter_context(Ports.take(config))
        log = {**_SMALL["commitlog"], **ports.log_options()}
        options = {**_SMALL, "commitlog": log}
        store = stack.enter_context(
            reput.open(tmp_path / "store", plugins=_PLUGINS, config=options)
        )
        with serving(store, config, ports=ports) as server:
            assert server.address is not None
            ours = "{}:{}".format(*server.address)
            until(lambda: ours in peer.admin("clusterList"))
            for address in (ours, theirs.address):
                peer.admin("updateTopic", "-b", address, "-t", "orders", "-r", "2", "-w", "2")
            until(lambda: all(each in route_of(peer, "orders") for each in (ours, theirs.address)))
            sent = peer.send(
                [
                    {"topic": "orders", "body": f"{at}", "queue_id": at % 2, "broker": name}
                    for name in ("broker-ours", "broker-theirs")
                    for at in range(10)
                ]
            )
            peer.listen("one", "billing", "orders", start="first")
            taken = peer.taken("one", 20)
            peer.stop("one")
            # By an id that the broker has given, and that leads back to it.
            of_topic = ["-t", "orders"] if rocketmq.version.startswith("5") else []
            found = peer.admin("queryMsgById", *of_topic, "-i", sent[3]["offset_msg_id"])
        left = peer.admin("clusterList")
        store.wait_dispatched()
        stored = sum(queue.max_queue_offset for queue in store.queues() if queue.topic == "orders")

    assert {row["status"] for row in sent} == {"SEND_OK"}
    assert sorted(row["body"] for row in taken) == sorted(2 * [f"{at}" for at in range(10)])
    assert stored == 10
    assert re.search(r"Queue ID:\s+1\b", found)
    assert re.search(rf"Store Host:\s+{ours}", found)
    assert ours not in left
    assert theirs.address in left
