"""A follower under a flood, with kills of both sides: equal files, and equal answers of plugins.

``REPUT_FLOOD_SECONDS`` is how long it lasts, ``REPUT_FLOOD_SEED`` repeats what was killed when.
Both tests print how much memory the follower had at most.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from followedlogs import answers, log_bytes
from realbroker import RocketMQ, Server

import reput
from reput_client import Client, ClientError
from reput_server.follow import FollowConfig, open_replica

pytestmark = pytest.mark.shows("follower", more="REPUT_FLOOD_SECONDS=600")

SECONDS = float(os.environ.get("REPUT_FLOOD_SECONDS", "15"))
FILE_SIZE = 4 << 20
SIZES = {
    "mappedFileSizeCommitLog": FILE_SIZE,
    "mappedFileSizeConsumeQueue": 20_000 * 20,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
}
PLUGINS = ["consumequeue", "index"]
CONFIG = {
    "consumequeue": {"units_per_file": 20_000},
    "index": {"slots_per_file": 50_000, "items_per_file": 200_000},
}
BATCH = 40
PAUSE_SECONDS = 0.01
MEMORY_LIMIT = 80_000_000  # bytes, of the follower's own; the pages of mapped files not counted
SAMPLE_SECONDS = 0.05


class Flood:
    """One producer that sends batches until it is stopped, whatever the broker is doing."""

    def __init__(self, name_server: str) -> None:
        self.count = 0
        """Messages that were tried; some of them were not stored, others twice."""
        self._name_server = name_server
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Flood:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stops.set()
        self._thread.join()

    def _run(self) -> None:
        with Client(self._name_server) as client, client.producer("flood") as producer:
            while not self._stops.wait(PAUSE_SECONDS):
                messages = [
                    reput.Message("orders", b"%d " % at + b"x" * (at % 900), keys=f"k{at}")
                    for at in range(self.count, self.count + BATCH)
                ]
                self.count += BATCH
                with contextlib.suppress(ClientError):
                    producer.send_batch(messages, timeout=2.0)


class Memory:
    """The peak of a follower's memory, over all the processes that it has been."""

    def __init__(self) -> None:
        self.anonymous = 0  # bytes that only this process has
        self.resident = 0  # bytes, with the pages of mapped files and libraries
        self.sample_count = 0
        self._process: subprocess.Popen[str] | None = None
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stops.set()
        self._thread.join()

    def __str__(self) -> str:
        return f"peak memory {self.anonymous:_} bytes, with mapped files {self.resident:_}"

    def watch(self, process: subprocess.Popen[str]) -> None:
        """Sample this process from now on."""
        self._process = process

    def _run(self) -> None:
        while not self._stops.wait(SAMPLE_SECONDS):
            if (process := self._process) is None:
                continue
            with contextlib.suppress(OSError):  # it has just been killed
                self._take(Path(f"/proc/{process.pid}/status").read_text("ascii"))

    def _take(self, status: str) -> None:
        facts = dict(line.split(":", 1) for line in status.splitlines())
        if "RssAnon" in facts:  # a killed process has no memory
            self.anonymous = max(self.anonymous, int(facts["RssAnon"].split()[0]) * 1_024)
            self.resident = max(self.resident, int(facts["VmHWM"].split()[0]) * 1_024)
            self.sample_count += 1


@contextlib.contextmanager
def follower(path: Path, broker: Server, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A process that follows; killed at the end unless it has ended."""
    command = [sys.executable, "-m", "reput", "follow", str(path), "--from", broker.address]
    with (
        (path.parent / "follower.log").open("a") as errors,
        subprocess.Popen(
            [*command, "--json", *options], stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def last_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    found: dict[str, Any] = json.loads(lines[-1])
    return found


@pytest.mark.timeout(3 * SECONDS + 600)
def test_files_and_answers_are_equal_after_a_flood_with_kills(
    rocketmq: RocketMQ, tmp_path: Path
) -> None:
    seed = int(os.environ.get("REPUT_FLOOD_SEED", random.randrange(1 << 30)))
    rng, path, kills = random.Random(seed), tmp_path / "followed", {"follower": 0, "broker": 0}
    print(f"seed={seed}")  # noqa: T201
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(rocketmq.name_server(tmp_path / "names"))
        broker = rocketmq.broker(tmp_path / "broker", names.address, **SIZES)
        with rocketmq.peer(tmp_path / "peer", names.address) as peer:
            peer.send([{"topic": "orders", "body": "0"}])  # the topic exists
        with open_replica(path, broker.address, FollowConfig(), plugins=PLUGINS, config=CONFIG):
            pass
        running = stack.enter_context(contextlib.ExitStack())
        memory = stack.enter_context(Memory())
        memory.watch(running.enter_context(follower(path, broker)))
        with Flood(names.address) as flood:
            end = time.monotonic() + SECONDS
            while (left := end - time.monotonic()) > 0:
                time.sleep(min(rng.uniform(0.2, 6.0), left))  # how long both live
                victims = rng.choice([("follower",), ("follower",), ("broker",), tuple(kills)])
                for each in victims:
                    kills[each] += 1
                if "follower" in victims:
                    running.close()
                if "broker" in victims:
                    broker.kill()
                    broker = rocketmq.broker(
                        tmp_path / "broker", names.address, port=broker.port, **SIZES
                    )
                if "follower" in victims:
                    memory.watch(running.enter_context(follower(path, broker)))
        running.close()
        with follower(path, broker, "--once") as process:
            memory.watch(process)
            last = last_line(process)
        broker.stop()

    with reput.open(path, mode="r") as store:
        log_end, step = store.log.max_physical_offset, max(flood.count // 300, 1)
        own = answers(store, flood.count, step=step)
    assert last["state"] == "stopped", last
    assert log_bytes(path, log_end) == log_bytes(broker.store, log_end)
    # Of the broker's files: a killed broker removes files of its index, and makes no others.
    (tmp_path / "derived").mkdir()
    shutil.copytree(broker.store / "commitlog", tmp_path / "derived" / "commitlog")
    config = {**CONFIG, "commitlog": {"file_size": FILE_SIZE}}
    with reput.open(tmp_path / "derived", plugins=PLUGINS, config=config) as derived:
        assert derived.log.max_physical_offset == log_end
        derived.wait_dispatched()
        assert own == answers(derived, flood.count, step=step)
    with reput.open(broker.store, mode="r", plugins=PLUGINS, config=CONFIG) as theirs:
        found = answers(theirs, flood.count, step=step)
    assert own[:2] == found[:2]
    assert all(set(some) <= set(each) for some, each in zip(found[2], own[2], strict=True))
    assert kills["broker"] or own[2] == found[2]
    assert memory.sample_count
    assert memory.anonymous < MEMORY_LIMIT
    print(  # noqa: T201
        f"{rocketmq.version}: {log_end} bytes, {len(own[1])} messages, kills {kills}, {memory}"
    )


@pytest.mark.timeout(3 * SECONDS + 600)
def test_a_follower_that_lives_through_a_flood_stays_small(
    newest: RocketMQ, tmp_path: Path
) -> None:
    path = tmp_path / "followed"
    with (
        newest.name_server(tmp_path / "names") as names,
        newest.broker(tmp_path / "broker", names.address, **SIZES) as broker,
        newest.peer(tmp_path / "peer", names.address) as peer,
    ):
        peer.send([{"topic": "orders", "body": "0"}])  # the topic exists
        with open_replica(path, broker.address, FollowConfig(), plugins=PLUGINS, config=CONFIG):
            pass
        with (
            follower(path, broker) as process,
            Memory() as memory,
            Flood(names.address) as flood,
        ):
            memory.watch(process)
            time.sleep(SECONDS)  # how long both live
            assert process.poll() is None
        with follower(path, broker, "--once") as process:
            last = last_line(process)

    with reput.open(path, mode="r") as store:
        log_end = store.log.max_physical_offset
    assert last["state"] == "stopped", last
    assert log_bytes(path, log_end) == log_bytes(broker.store, log_end)
    assert memory.sample_count
    assert memory.anonymous < MEMORY_LIMIT
    print(f"{newest.version}: {log_end} bytes, {flood.count} tried, {memory}")  # noqa: T201
