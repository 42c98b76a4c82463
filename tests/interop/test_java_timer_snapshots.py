"""A broker that writes snapshots of its timer wheel, and reput, take turns with timed messages.

A timer that is delivered just before a kill may come again, by RocketMQ's own recovery. So the
messages that must wait are due after the kill. How much later depends on the machine: a turn that
took longer is repeated in a new directory, with times that are twice as long.
"""

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

import numpy as np
import pytest
from realbroker import STORE_CONFIG, Peer, RocketMQ, Server, free_ports

import reput
from reput_schedule.timerwheel.layout import CHECK_DTYPE
from reput_tools.doctor import Severity, verify

TOPIC = "orders"
SECOND = 1_000
PATIENCE = 300
"""Seconds to wait for a message or a file; it takes longer only if the broker fails."""
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
    assert arrived.wait(300)
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
            rows = self.peer.taken(name, wanted, PATIENCE)
            assert len(rows) >= wanted, f"{len(taken)} messages came, and not all of {bodies[-1]}"
            taken = [row["body"] for row in rows]

    def await_written(self, broker: Server, read_timestamp: int) -> None:
        """Return when the broker has a snapshot, and notes that it has delivered up to a time."""
        end = time.monotonic() + PATIENCE
        while self._read_timestamp() <= read_timestamp or not self.snapshots():
            assert not broker.process.has_ended(0.1)
            assert time.monotonic() < end

    def _read_timestamp(self) -> int:
        path = self.root / "config" / "timercheck"
        data = path.read_bytes() if path.exists() else b""
        checks = np.frombuffer(
            data[: CHECK_DTYPE.itemsize].ljust(CHECK_DTYPE.itemsize, b"\0"), CHECK_DTYPE
        )
        return int(checks["read_timestamp"][0])

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

    def log_files(self) -> list[Path]:
        return list((self.root / "timerlog").iterdir())

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


@pytest.mark.timeout(2_400)
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
    pace = 1
    while True:
        home = tmp_path / str(pace)
        with (
            release.name_server(home / "names") as names,
            release.peer(home / "peer", names.address) as peer,
        ):
            timers = Timers(release, home, names.address, peer)
            if take_turns(timers, pace, config, broker_ends, reput_ends, snapshots):
                break
        pace *= 2

    assert [each for each in verify(timers.root).findings if each.severity > Severity.NOTICE] == []
    found = timers.delivered()
    found.subtract(timers.sent)
    assert {body: count for body, count in found.items() if count} == {}


def take_turns(
    timers: Timers, pace: int, config: Any, broker_ends: str, reput_ends: str, snapshots: bool
) -> bool:
    """Have the broker, reput and the broker deliver; False if the machine was slower than that.

    Args:
        timers: an empty directory.
        pace: 1, or by how much all times are longer.
        config: of reput.
        broker_ends: stopped or killed.
        reput_ends: closed, killed or unflushed.
        snapshots: whether the second broker writes snapshots.
    """
    peer, second = timers.peer, pace * SECOND
    with timers.broker(snapshots=True) as broker:
        # The oldest file of the timer log has the messages that are due last.
        last = now() + 50 * second
        timers.send({f"late {at}": last + 2 * at * SECOND for at in range(FEW)})
        due = now() + 4 * second
        timers.send({f"early {at}": due for at in range(EARLY)})
        peer.listen("first", "billing", TOPIC, start="first")
        timers.await_delivered("first", *(f"early {at}" for at in range(EARLY)))
        peer.stop("first")
        timers.await_written(broker, due)
        due = now() + 2 * second
        between = {f"between {at}": due + at * SECOND for at in range(FEW)}
        timers.send(between)
        broker.kill() if broker_ends == "killed" else broker.stop()
    if (broker_ends == "killed" and now() >= min(due, last)) or len(timers.log_files()) < 3:
        return False
    assert timers.snapshots()

    due = max(now() + 2 * SECOND, *between.values())
    soon = {f"soon {at}": due + SECOND for at in range(FEW)}
    ours = {f"ours {at}": last + (2 * at + 1) * SECOND for at in range(FEW)}
    awaited = list(soon) if config["schedule"]["deliver"] == "always" else []
    timers.write({**ours, **soon}, config, awaited, reput_ends)
    assert not timers.snapshots()
    if now() >= last:
        return False

    with timers.broker(snapshots=snapshots):
        end = max(now(), last + 2 * FEW * SECOND) + 3 * SECOND
        timers.send({"end": end})
        peer.listen("second", "shipping", TOPIC, start="first")
        timers.await_delivered("second", "end")
        peer.stop("second")
    return True
