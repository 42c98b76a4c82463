"""A one-node group of DLedger and reput take turns in one directory, stopped and killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import realbroker
from mavenparts import JavaFailedError
from realbroker import RocketMQ, Server, free_ports

import reput
from reput_tools.doctor import Severity, verify

VERSIONS = ("4.9.7", "5.3.3", "5.5.0")
FILE_SIZE = 1 << 18
PLUGINS = ("consumequeue", "index", "schedule", "transaction")
KILLED = """
import os, signal, sys
import reput

root, first, plugins = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
store = reput.open(root, "w", plugins=plugins)

def message(number, **properties):
    text = "%06d" % number
    keys = {"queue_id": number % 4, "keys": "k" + text}
    return reput.Message("orders", text.encode(), properties=properties, **keys)

for number in range(first, first + 20):
    store.put(message(number))
store.wait_dispatched()
store.flush()
store.put(message(first + 20, DELAY="1"))
transactions = store.plugin("transaction")
transactions.commit(transactions.prepare(message(first + 21)))
store.put_many([message(number) for number in range(first + 22, first + 30)])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"broker-{version}")
def release(request: pytest.FixtureRequest, fetch_release: Callable[[str], RocketMQ]) -> RocketMQ:
    return fetch_release(request.param)


class Turns:
    """The broker's turns and ours; each message has a number of its own as body and as key."""

    def __init__(self, rocketmq: RocketMQ, home: Path, names: str) -> None:
        self.rocketmq, self.home, self.names = rocketmq, home, names
        self.root = home / "store"
        self.count = 0
        self.turns = 0
        self.delayed = ""
        self.port = free_ports(1, -2)

    def broker(self, *, is_plain: bool = False) -> Server:
        self.turns += 1
        options: dict[str, Any] = {"mappedFileSizeCommitLog": FILE_SIZE}
        if not is_plain:
            options |= {
                "enableDLegerCommitLog": "true",
                "dLegerGroup": "broker-a",
                "dLegerPeers": f"n0-127.0.0.1:{free_ports()}",
                "dLegerSelfId": "n0",
            }
        directory = self.home / f"broker-{self.turns}"
        options["port"] = self.port
        return self.rocketmq.broker(directory, self.names, store=self.root, **options)

    def numbers(self, count: int) -> list[str]:
        first, self.count = self.count, self.count + count
        return [f"{number:06}" for number in range(first, self.count)]

    def send(self, peer: realbroker.Peer, count: int) -> list[dict[str, Any]]:
        """Have the broker take messages; what it answered."""
        return peer.send(
            [
                {"topic": "orders", "body": each, "keys": f"k{each}", "queue_id": int(each) % 4}
                for each in self.numbers(count)
            ]
        )

    def put(self, count: int) -> None:
        """Put messages here: one by one, and many; more than a file of the log has room for."""
        messages = [
            reput.Message(
                "orders",
                each.encode() + b"x" * (int(each) * 37 % 2_000),
                queue_id=int(each) % 4,
                keys=f"k{each}",
            )
            for each in self.numbers(count)
        ]
        with reput.open(self.root, "w", plugins=PLUGINS) as store:
            for message in messages[: count // 2]:
                store.put(message)
            store.put_many(messages[count // 2 :])
            store.wait_dispatched()

    def put_and_die(self) -> None:
        """Put messages of several kinds in a process that is killed before all are dispatched."""
        first = self.count
        self.delayed = self.numbers(30)[20]
        arguments = [str(self.root), str(first), ",".join(PLUGINS)]
        done = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
        assert done.returncode == -signal.SIGKILL

    def found(self) -> list[str]:
        """The numbers in the queues, as a reader here finds them."""
        numbers = []
        with reput.open(self.root, "r") as store:
            for queue_id in range(4):
                start = 0
                while (result := store.read("orders", queue_id, start, max_count=100)).messages:
                    numbers += [bytes(each.body[:6]).decode() for each in result.messages]
                    start = result.next_queue_offset
        return self.in_order(numbers)

    def in_order(self, numbers: list[str]) -> list[str]:
        """Sort numbers; a broker that is killed delivers a delayed message again."""
        repeated = [self.delayed] * (numbers.count(self.delayed) - 1)
        for each in repeated:
            numbers.remove(each)
        return sorted(numbers)

    def all_numbers(self) -> list[str]:
        return [f"{number:06}" for number in range(self.count)]

    def require_healthy(self) -> None:
        found = [each for each in verify(self.root).findings if each.severity > Severity.NOTICE]
        assert found == []
        assert self.found() == self.all_numbers()


def begin(peer: realbroker.Peer) -> None:
    """Have a new group make its files, which may take longer than a producer waits."""
    for _ in range(5):
        with contextlib.suppress(JavaFailedError):
            peer.send([{"topic": "begin", "body": "1"}])
            return


def take(peer: realbroker.Peer, turns: Turns, name: str) -> list[str]:
    peer.listen(name, f"group-{name}", "orders", start="first")
    taken: list[str] = []
    for repeated in (0, 1):
        if len(taken) < turns.count:
            rows = peer.taken(name, turns.count + repeated)
            taken = turns.in_order([row["body"][:6] for row in rows])
    peer.stop(name)
    return taken


@pytest.mark.parametrize("is_mixed", [False, True], ids=["alone", "mixed"])
def test_a_broker_and_reput_take_turns(release: RocketMQ, tmp_path: Path, is_mixed: bool):
    with (
        release.name_server(tmp_path / "names") as names,
        release.peer(tmp_path / "peer", names.address) as peer,
    ):
        turns = Turns(release, tmp_path, names.address)
        if is_mixed:
            with turns.broker(is_plain=True):
                turns.send(peer, 40)
        with turns.broker():
            begin(peer)
            turns.send(peer, 60)
        turns.put(900)
        turns.require_healthy()
        with turns.broker():
            for number in (turns.count - 1, turns.count - 700):
                found = peer.admin("queryMsgByKey", "-t", "orders", "-k", f"k{number:06}")
                assert sum(line.startswith("7F") for line in found.splitlines()) == 1
            assert take(peer, turns, "one") == turns.all_numbers()
            sent = turns.send(peer, 40)
            assert sent[-1]["queue_offset"] == turns.count // 4 - 1
            assert take(peer, turns, "two") == turns.all_numbers()
        turns.require_healthy()
        turns.put(40)
        turns.require_healthy()
        turns.put_and_die()
        with turns.broker() as broker:
            assert take(peer, turns, "killed") == turns.all_numbers()
            turns.send(peer, 20)
            broker.kill()
        turns.put(20)
        turns.require_healthy()
        with turns.broker():
            turns.send(peer, 20)
            assert take(peer, turns, "three") == turns.all_numbers()
        turns.require_healthy()
