"""A broker that writes snapshots of its timer wheel, and reput, take turns with timed messages."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from realbroker import STORE_CONFIG, Peer, RocketMQ, Server, free_ports

import reput

TOPIC = "orders"
SECOND = 1_000
LOG_FILE_SIZE = 4096
"""78 records; a broker reads the timer log from one file before its last flushed position."""
OPTIONS = {
    "timerWheelEnable": "true",
    "mappedFileSizeTimerLog": LOG_FILE_SIZE,
    "timerWheelSnapshotIntervalMs": 500,
}
EARLY, FEW = 200, 5
"""Messages that the broker delivers before it ends, and those of each other kind."""
WRITER = """
import json, sys, threading
import reput

root, config, awaited, due, ends = sys.argv[1], *map(json.loads, sys.argv[2:])
if ends == "unflushed":
    from reput_schedule.timerwheel.persistence import TimerPersistence

    TimerPersistence.flush = lambda *_, **__: None
delivered, arrived = set(), threading.Event()

def look(batch):
    messages = map(batch.message, range(len(batch)))
    delivered.update(each.body.decode() for each in messages if each.topic == "orders")
    if delivered.issuperset(awaited):
        arrived.set()

with reput.open(root, "w", config=config) as store:
    store.call_on_arrival(look)
    for body, deliver_at in due.items():
        properties = {"TIMER_DELIVER_MS": str(deliver_at), "UNIQ_KEY": body}
        store.put(reput.Message("orders", body.encode(), properties=properties))
    assert arrived.wait(120)
    store.wait_dispatched()
    store.flush()
    print("done", flush=True)
    sys.stdin.read()
"""


def now() -> int:
    return int(time.time() * SECOND)


class Timers:
    """The directory, and the timed messages of each of the two."""

    def __init__(self, release: RocketMQ, home: Path, names: str, peer: Peer) -> None:
        self.release, self.home, self.names, self.peer = release, home, names, peer
        self.root = home / "store"
        self.port = free_ports(1, -2)
        self.sent: list[str] = []

    def broker(self, *, snapshots: bool) -> Server:
        options: dict[str, Any] = {**OPTIONS, "timerWheelSnapshotFlush": str(snapshots).lower()}
        return self.release.broker(
            self.home / "broker", self.names, store=self.root, port=self.port, **options
        )

    def send(self, due: dict[str, int]) -> None:
        messages = [
            {"topic": TOPIC, "body": body, "properties": {"TIMER_DELIVER_MS": at}}
            for body, at in due.items()
        ]
        assert {row["status"] for row in self.peer.send(messages)} == {"SEND_OK"}
        self.sent += due

    def await_delivered(self, name: str, *bodies: str) -> None:
        """Return when a stock consumer has got all of these."""
        taken: list[str] = []
        while not {*bodies} <= {*taken}:
            wanted = max(len(taken) + 1, len(bodies))
            rows = self.peer.taken(name, wanted, 90)
            assert len(rows) >= wanted, f"{len(taken)} messages came, and not all of {bodies[-1]}"
            taken = [row["body"] for row in rows]

    def write(self, due: dict[str, int], config: Any, awaited: list[str], ends: str) -> None:
        """Have reput put messages, deliver those that it waits for, and be closed or killed.

        It flushes the timer's files before a kill, unless it ends ``unflushed``.
        """
        arguments = [config, awaited, due, ends]
        command = [sys.executable, "-c", WRITER, str(self.root), *map(json.dumps, arguments)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes) as writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            assert writer.stdout.readline() == "done\n"
            if ends == "closed":
                writer.stdin.close()
            else:
                writer.kill()
        assert writer.returncode == (0 if ends == "closed" else -signal.SIGKILL)
        self.sent += due

    def snapshots(self) -> list[Path]:
        return [path for path in self.root.glob("timerwheel.*") if path.suffix[1:].isdigit()]

    def delivered(self) -> Counter[str]:
        """How often each message is in the log."""
        with reput.open(self.root, "r", plugins={"consumequeue"}, config=STORE_CONFIG) as store:
            return Counter(
                bytes(message.body).decode()
                for batch in store.scan()
                for message in map(batch.message, range(len(batch)))
                if message.topic == TOPIC
            )


@pytest.fixture
def release(fetch_release: Callable[[str], RocketMQ]) -> RocketMQ:
    return fetch_release("5.5.0")


@pytest.mark.parametrize(
    ("broker_ends", "delivers", "reput_ends", "snapshots"),
    [
        ("stopped", "always", "closed", True),
        ("killed", "always", "closed", False),
        ("killed", "always", "killed", True),
        ("stopped", "always", "killed", False),
        ("killed", "auto", "closed", True),
        ("stopped", "auto", "killed", False),
        ("killed", "auto", "unflushed", True),
        ("stopped", "auto", "unflushed", False),
    ],
)
def test_each_timed_message_is_delivered_once_beside_snapshots_of_the_wheel(
    broker_ends: str,
    delivers: str,
    reput_ends: str,
    snapshots: bool,
    release: RocketMQ,
    tmp_path: Path,
) -> None:
    config = {**STORE_CONFIG, "schedule": {"deliver": delivers}}
    with (
        release.name_server(tmp_path / "names") as names,
        release.peer(tmp_path / "peer", names.address) as peer,
    ):
        timers = Timers(release, tmp_path, names.address, peer)
        broker = timers.broker(snapshots=True)
        # The oldest file of the timer log has the messages that are due last.
        last = now() + 50 * SECOND
        timers.send({f"late {at}": last + 2 * at * SECOND for at in range(FEW)})
        timers.send({f"early {at}": now() + 4 * SECOND for at in range(EARLY)})
        peer.listen("first", "billing", TOPIC, start="first")
        timers.await_delivered("first", *(f"early {at}" for at in range(EARLY)))
        peer.stop("first")
        due = now()
        between = {f"between {at}": due + (at + 1) * SECOND for at in range(FEW)}
        timers.send(between)
        broker.kill() if broker_ends == "killed" else broker.stop()
        assert timers.snapshots()

        due = max(now() + 2 * SECOND, *between.values())
        soon = {f"soon {at}": due + SECOND for at in range(FEW)}
        ours = {f"ours {at}": last + (2 * at + 1) * SECOND for at in range(FEW)}
        awaited = list(soon) if delivers == "always" else []
        timers.write({**ours, **soon}, config, awaited, reput_ends)
        assert not timers.snapshots()

        with timers.broker(snapshots=snapshots):
            end = max(now(), last + 2 * FEW * SECOND) + 3 * SECOND
            timers.send({"end": end})
            peer.listen("second", "shipping", TOPIC, start="first")
            timers.await_delivered("second", "end")
            peer.stop("second")

    found = timers.delivered()
    found.subtract(timers.sent)
    assert {body: count for body, count in found.items() if count} == {}
