"""The real brokers of this folder start, answer RocketMQ's own client, and leave stores for us."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from realbroker import STORE_CONFIG, JavaFailedError, Process, RocketMQ

import reput


def test_what_a_stock_client_sent_to_a_real_broker_is_read_by_reput(
    rocketmq: RocketMQ, tmp_path: Path
):
    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.broker(tmp_path / "broker", names.address) as broker,
        rocketmq.peer(tmp_path / "peer", names.address) as peer,
    ):
        sent = peer.send([{"topic": "orders", "body": f"{at}", "tags": "a"} for at in range(20)])
        peer.listen("one", "billing", "orders")
        taken = peer.taken("one", 20)
        peer.stop("one")
        clusters = peer.admin("clusterList")

    with reput.open(broker.store, mode="r", plugins={"consumequeue"}, config=STORE_CONFIG) as store:
        read = {
            (message.queue_id, message.queue_offset): bytes(message.body).decode()
            for queue_id in range(4)
            for message in store.read("orders", queue_id, 0, 32)
        }

    assert {row["status"] for row in sent} == {"SEND_OK"}
    assert read == {(row["queue_id"], row["queue_offset"]): str(at) for at, row in enumerate(sent)}
    assert {(row["queue_id"], row["queue_offset"]): row["body"] for row in taken} == read
    assert broker.address in clusters


def test_a_server_that_ends_before_it_is_ready_is_told_with_what_it_said(tmp_path: Path):
    command = [sys.executable, "-c", "print('the port is taken')"]

    with pytest.raises(JavaFailedError, match="the port is taken"):
        Process(command, tmp_path, "broker", "boot success")


def test_a_killed_broker_goes_on_with_its_store(rocketmq: RocketMQ, tmp_path: Path):
    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.peer(tmp_path / "peer", names.address) as peer,
    ):
        before = rocketmq.broker(tmp_path / "broker", names.address)
        peer.send([{"topic": "orders", "body": "1", "queue_id": 0}])
        before.kill()
        with rocketmq.broker(tmp_path / "broker", names.address, port=before.port):
            (sent,) = peer.send([{"topic": "orders", "body": "2", "queue_id": 0}])

    assert sent["queue_offset"] == 1
