"""A broker and reput take turns in one directory; chance stops or kills each of them.

``REPUT_TURNS`` is the number of turns of each of the two, ``REPUT_TURNS_SEED`` gives other ones.
A JVM that was not killed starts the next broker, too, as its own start takes most of a turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from realbroker import BrokerHost, JavaFailedError, Peer, RocketMQ, free_ports

import reput
from reput_tools.doctor import Severity, verify

KINDS = {
    "4.8.0": "4.8.0",
    "4.9.7": "4.9.7",
    "5.1.4": "5.1.4",
    "5.3.3": "5.3.3",
    "5.4.0": "5.4.0",
    "5.5.0": "5.5.0",
    "dledger": "5.3.3",
}
"""Releases of brokers; the one of DLedger is a group of one node."""
TURNS = int(os.environ.get("REPUT_TURNS", "3"))
SEED = os.environ.get("REPUT_TURNS_SEED", "1")
SIZES = {
    "mappedFileSizeCommitLog": 1 << 17,
    "mappedFileSizeConsumeQueue": 100 * 20,
    "maxHashSlotNum": 50,
    "maxIndexNum": 300,
    # Otherwise a broker that recovers loses keys of its last index file, also of its own messages.
    "messageIndexSafe": "true",
    # While a broker shuts down, a thread spins until this time is over.
    "transactionMetricFlushInterval": 200,
    # It copies the whole timer wheel each time.
    "timerFlushIntervalMs": 60_000,
    # Each waits for the one before it.
    "reviveQueueNum": 1,
}
CONFIG = {
    "commitlog": {"file_size": 1 << 17},
    "consumequeue": {"units_per_file": 100},
    "index": {"slots_per_file": 50, "items_per_file": 300},
}
TOPIC = "orders"
QUEUES = 4
WRITER = """
import json, random, sys
import reput

root, config, seed, first, count = sys.argv[1], *map(json.loads, sys.argv[2:])
chance = random.Random(seed)

def message(number):
    text = f"{number:06}"
    body = text.encode() + b"x" * chance.randrange(3_000)
    return reput.Message("orders", body, queue_id=number % 4, keys=f"k{text}", tags="ours")

with reput.open(root, "w", config=config) as store:
    at, end = first, first + count
    while at < end:
        many = [message(number) for number in range(at, min(end, at + chance.choice((1, 1, 7))))]
        receipts = store.put_many(many) if len(many) > 1 else [store.put(many[0])]
        for each, receipt in zip(many, receipts, strict=True):
            print(int(each.body[:6]), receipt.queue_id, receipt.queue_offset, flush=True)
        at += len(many)
    if chance.random() < 0.5:
        store.wait_dispatched()
    print("all", flush=True)
    sys.stdin.read()
"""
PER_JVM = 4
"""Brokers that one JVM starts; each leaves some memory behind."""
Place = tuple[int, int]
"""Queue and queue offset."""


class Turns:
    """The directory, and what must be in it: each message has a number as body and as key."""

    def __init__(
        self, rocketmq: RocketMQ, home: Path, names: str, peer: Peer, *, is_dledger: bool
    ) -> None:
        self.rocketmq, self.home, self.names, self.peer = rocketmq, home, names, peer
        self.chance = random.Random(f"{rocketmq.version} {SEED}")
        self.root = home / "store"
        self.port = free_ports(1, -2)
        self.is_dledger = is_dledger
        self.options: dict[str, Any] = {**SIZES}
        if is_dledger:
            self.options |= {
                "enableDLegerCommitLog": "true",
                "dLegerGroup": "broker-a",
                "dLegerPeers": f"n0-127.0.0.1:{free_ports()}",
                "dLegerSelfId": "n0",
            }
        self.count = 0
        self.turn = 0
        self.stored: dict[Place, int] = {}
        """The number at each place, of all messages that were acknowledged."""
        self.open: set[int] = set()
        """Numbers of messages for which a killed writer gave no answer: they may be stored."""
        self.jvms = contextlib.ExitStack()
        self.host = self.new_host()

    def note(self, number: int, place: Place) -> None:
        assert place not in self.stored, f"{place} was given again: {self.where}"
        self.stored[place] = number

    @property
    def where(self) -> str:
        return f"turn {self.turn}, REPUT_TURNS_SEED={SEED}"

    def of_broker(self, *, is_last: bool = False) -> None:
        """The broker starts, shows all messages, takes more and is stopped or killed."""
        self.turn += 1
        self.host.start(self.root, self.names, self.port, **self.options)
        self.ask(self.peer)
        self.send(self.peer)
        # A server that only reads shows what the last writer has dispatched.
        if is_killed := not is_last and self.chance.random() < 0.5:
            self.host.kill()
        else:
            self.host.stop()
            self.require_healthy()
        self.require_readable(is_behind=is_killed)
        if is_killed or self.host.started == PER_JVM:
            self.host = self.new_host()

    def new_host(self) -> BrokerHost:
        """Start a JVM, which gets ready while reput has its turn, in place of the last one."""
        self.jvms.close()
        return self.jvms.enter_context(self.rocketmq.broker_host(self.home / f"jvm-{self.turn}"))

    def begin(self) -> None:
        """Have a new group of DLedger make its files, longer than a producer may wait."""
        self.host.start(self.root, self.names, self.port, **self.options)
        for _ in range(5):
            with contextlib.suppress(JavaFailedError):
                self.peer.send([{"topic": "begin", "body": "1"}])
                break
        self.host.stop()

    def ask(self, peer: Peer) -> None:
        """A stock consumer gets all messages, and the admin tool finds them by keys."""
        if self.stored:
            name = f"turn-{self.turn}"
            peer.listen(name, name, TOPIC, start="first")
            taken = peer.taken(name, len(self.stored))
            peer.stop(name)
            self.compare({(row["queue_id"], row["queue_offset"]): row["body"] for row in taken})
            for number in self.some():
                text = peer.admin("queryMsgByKey", "-t", TOPIC, "-k", f"k{number:06}")
                rows = [line.split()[1:3] for line in text.splitlines() if line.strip()]
                places = [(int(row[0]), int(row[1])) for row in rows if row[0].isdigit()]
                # A broker that recovers may add a key a second time.
                assert {self.stored.get(place) for place in places} == {number}, self.where

    def send(self, peer: Peer) -> None:
        """A stock producer sends messages."""
        numbers = self.numbers(self.chance.randrange(5, 40))
        sent = peer.send(
            [
                {
                    "topic": TOPIC,
                    "body": f"{number:06}" + "x" * self.chance.randrange(3_000),
                    "keys": f"k{number:06}",
                    "tags": "theirs",
                    "queue_id": number % QUEUES,
                }
                for number in numbers
            ]
        )
        assert {row["status"] for row in sent} == {"SEND_OK"}
        for number, row in zip(numbers, sent, strict=True):
            self.note(number, (row["queue_id"], row["queue_offset"]))

    def of_reput(self) -> None:
        """A writer takes more and is closed or killed; a reader shows all messages."""
        self.turn += 1
        numbers = self.numbers(self.chance.randrange(5, 40))
        is_killed = self.chance.random() < 0.5
        wanted = self.chance.randrange(1, len(numbers) + 2) if is_killed else len(numbers) + 1
        arguments = [CONFIG, self.chance.randrange(1 << 30), numbers[0], len(numbers)]
        command = [sys.executable, "-c", WRITER, str(self.root), *map(json.dumps, arguments)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes) as writer:
            assert writer.stdout is not None
            lines = [line for _, line in zip(range(wanted), writer.stdout, strict=False)]
            if is_killed:
                writer.kill()
            else:
                assert writer.stdin is not None
                writer.stdin.close()
            # What it answered before the signal reached it counts as well; a line may be cut.
            lines += [line for line in writer.stdout if line.endswith("\n")]
        assert writer.returncode == (-signal.SIGKILL if is_killed else 0), self.where
        for line in lines:
            if line != "all\n":
                number, queue_id, queue_offset = map(int, line.split())
                self.note(number, (queue_id, queue_offset))
        self.open = {*numbers} - {*self.stored.values()}
        self.require_readable(is_behind=is_killed)
        self.open.clear()  # what no reader shows now is not stored
        if not is_killed:
            self.require_healthy()

    def of_server(self) -> None:
        """``reput serve`` does for stock clients what the broker did."""
        self.turn += 1
        command = [sys.executable, "-m", "reput", "serve", str(self.root), "--json"]
        command += ["--listen", "127.0.0.1:0", "--namesrv", "127.0.0.1:0"]
        command += ["--read-only"] * self.is_dledger
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                names = json.loads(server.stdout.readline())["name_server"]
                with self.rocketmq.peer(self.home / "served", names) as peer:
                    self.ask(peer)
                    if not self.is_dledger:
                        self.send(peer)
            finally:
                server.terminate()
                server.stdout.read()
        assert server.returncode == 0, self.where
        self.require_healthy()
        self.require_readable()

    def require_readable(self, *, is_behind: bool = False) -> None:
        """A reader reaches the end of the log and of each queue, and finds messages by keys.

        Queues and index of a killed writer may be behind its log: the next writer fills them.
        """
        with reput.open(self.root, "r", config=CONFIG) as store:
            queues = dict(_rows(store))
            logged = {
                (each.queue_id, each.queue_offset): bytes(each.body[:6]).decode()
                for batch in store.scan()
                for each in map(batch.message, range(len(batch)))
                if each.topic == TOPIC
            }
            self.compare(logged)
            if is_behind:
                assert queues.items() <= logged.items(), self.where
                return
            assert queues == logged, self.where
            for number in self.some():
                found = store.query(TOPIC, f"k{number:06}").messages
                assert [int(each.body[:6]) for each in found] == [number], self.where

    def require_healthy(self) -> None:
        found = [each for each in verify(self.root).findings if each.severity > Severity.NOTICE]
        assert found == [], self.where

    def compare(self, bodies: Mapping[Place, str]) -> None:
        """All acknowledged messages are there, without holes; others that are there stay."""
        numbers = {place: int(body[:6]) for place, body in bodies.items()}
        for queue_id in range(QUEUES):
            places = sorted(place for place in numbers if place[0] == queue_id)
            assert places == [(queue_id, at) for at in range(len(places))], self.where
        missing = {place: self.stored[place] for place in self.stored if place not in numbers}
        assert not missing, f"missing {missing}: {self.where}"
        beyond = {place: numbers[place] for place in numbers if place not in self.stored}
        assert {*beyond.values()} <= self.open, f"unknown {beyond}: {self.where}"
        self.stored |= beyond
        assert numbers == self.stored, self.where

    def numbers(self, count: int) -> range:
        first, self.count = self.count, self.count + count
        return range(first, self.count)

    def some(self) -> list[int]:
        """Numbers whose keys are looked for: the first, the last and one between."""
        numbers = sorted(self.stored.values())
        return [numbers[0], self.chance.choice(numbers), numbers[-1]]


def _rows(store: reput.Store) -> Iterator[tuple[Place, str]]:
    for queue_id in range(QUEUES):
        start = 0
        while (result := store.read(TOPIC, queue_id, start, max_count=100)).messages:
            for each in result.messages:
                yield (queue_id, each.queue_offset), bytes(each.body[:6]).decode()
            start = result.next_queue_offset


@pytest.mark.parametrize("kind", KINDS)
def test_no_message_that_one_acknowledged_is_missing_for_the_other(
    kind: str, fetch_release: Callable[[str], RocketMQ], tmp_path: Path
):
    release = fetch_release(KINDS[kind])
    with (
        release.name_server(tmp_path / "names") as names,
        release.peer(tmp_path / "peer", names.address) as peer,
    ):
        turns = Turns(release, tmp_path, names.address, peer, is_dledger=kind == "dledger")
        with turns.jvms:
            turns.begin()
            for _ in range(TURNS):
                turns.of_broker()
                turns.of_reput()
            turns.of_broker(is_last=True)
            turns.of_server()
