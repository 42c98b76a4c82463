"""``reput follow --serve``: stock consumers and the admin tool read what follows a real broker."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from realbroker import RocketMQ, Server

COUNT = 40


@contextlib.contextmanager
def served(path: Path, broker: Server) -> Iterator[dict[str, Any]]:
    """A process that follows and serves; its first line of JSON once it has all."""
    command = [sys.executable, "-m", "reput", "follow", str(path), "--from", broker.address]
    command += ["--plugins", "consumequeue,index", "--metadata", "--json"]
    command += ["--serve", "127.0.0.1:0", "--serve-namesrv", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines = map(json.loads, process.stdout)
            yield next(
                line
                for line in lines
                if line["state"] == "following" and line["dispatched_offset"] and not lag_of(line)
            )
        finally:
            process.terminate()
            process.stdout.read()
    assert process.wait() == 0


def lag_of(line: dict[str, Any]) -> int:
    lag: int = line["lag_bytes"]
    return lag


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [
        {"topic": "orders", "body": str(at), "tags": "paid", "keys": f"k{at}"}
        for at in range(first, first + count)
    ]


def test_a_stock_consumer_and_the_admin_tool_read_a_replica(
    newest: RocketMQ, tmp_path: Path
) -> None:
    with (
        newest.name_server(tmp_path / "names") as names,
        newest.broker(tmp_path / "broker", names.address) as broker,
        newest.peer(tmp_path / "producer", names.address) as producer,
    ):
        producer.send(rows(0, COUNT))
        with (
            served(tmp_path / "followed", broker) as facts,
            newest.peer(tmp_path / "consumer", facts["name_server"]) as reader,
        ):
            reader.listen("one", "billing", "orders", start="first")
            before = [each["body"] for each in reader.taken("one", COUNT)]
            producer.send(rows(COUNT, COUNT))  # through the broker, while the consumer waits
            bodies = [each["body"] for each in reader.taken("one", 2 * COUNT)]
            topics = reader.admin("topicList").split()
            status = reader.admin("topicStatus", "-t", "orders")
            found = reader.admin("queryMsgByKey", "-t", "orders", "-k", "k7")
            reader.stop("one")

    assert len(set(before)) == COUNT
    assert set(bodies) == {str(at) for at in range(2 * COUNT)}
    assert "orders" in topics
    queues = [fields for line in status.splitlines() if is_queue(fields := line.split())]
    assert sum(int(max_offset) for _, _, _, max_offset, *_ in queues) == 2 * COUNT
    assert "#Offset" in found
    assert len(found.split("#Offset")[1].split()) == 3  # one message: its id, queue and offset


def is_queue(fields: list[str]) -> bool:
    """Whether a line of the tool has the broker, the queue, its first offset and its end."""
    return len(fields) > 3 and all(each.isdigit() for each in fields[1:4])
