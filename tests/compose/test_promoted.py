"""A server with a replica is killed, the replica promoted and served, again and again.

200 kills: ``REPUT_SOAK=1``, or ``REPUT_KILLS=200``.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from serverlives import free_address, kill_count
from wirepeer import WirePeer, message

import reput
from reput_client.remoting import RequestCode, parse_address
from reput_server.follow import FollowConfig, following, open_replica

pytestmark = pytest.mark.shows("promoted-replica")

PLUGINS = ["consumequeue"]
CONFIG = "[commitlog]\nfile_size = 262144\n[consumequeue]\nunits_per_file = 1000\n"
FOLLOW = FollowConfig(acknowledge=True, settle_time=0.0, retry_interval=0.05)
WAIT = 60
_PRODUCERS = 3
_WINDOW = 8
"""Sends that a producer has under way."""


class Producer(threading.Thread):
    """Sends until its server is gone; notes where each message is that was acknowledged."""

    def __init__(self, address: str, name: str, acknowledged: dict[bytes, int], count) -> None:
        super().__init__(name=name)
        self._address, self._acknowledged, self._count = address, acknowledged, count

    def run(self) -> None:
        with (
            contextlib.suppress(OSError),
            WirePeer(parse_address(self._address)) as peer,
        ):
            number, under_way = 0, {}
            while True:
                while len(under_way) < _WINDOW:
                    body = f"{self.name}-{number}".encode() + b"x" * (number % 300)
                    header = message("orders", number % 4)
                    under_way[peer.send(_command(header, body)).opaque] = body
                    number += 1
                answer = peer.receive()
                body = under_way.pop(answer.opaque)
                if answer.code == 0:
                    # An offset message id: host, port, physical offset.
                    self._acknowledged[body] = int(answer.fields["msgId"][-16:], 16)
                    self._count()


def _command(header, body):
    from reput_client.remoting import Command

    return Command.request(RequestCode.SEND_MESSAGE_V2, header, body=body)


class Count:
    """Counts what was acknowledged; says when it is enough."""

    def __init__(self, enough: int) -> None:
        self._left, self._lock = enough, threading.Lock()
        self.is_enough = threading.Event()

    def __call__(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                self.is_enough.set()


@contextlib.contextmanager
def served(path: Path, broker: str, replicas: str, flush: str):
    """A server over ``path``; whoever has it kills it."""
    options = ["--listen", broker, "--namesrv", "none", "--replicas", replicas]
    options += ["--sync-replicas", "1", "--flush", flush, "--no-fast-port", "--json"]
    config = path.parent / "serve.toml"
    config.write_text(CONFIG)
    command = [sys.executable, "-m", "reput", "serve", str(path), *options]
    command += ["--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            line = process.stdout.readline()
            assert line, process.communicate()[1].decode()
            assert json.loads(line)["sync_replicas"] == 1
            yield process
        finally:
            process.kill()
            said = process.communicate()[1].decode()
        assert "Traceback" not in said


def log_bytes(root: Path, end: int) -> bytes:
    files = sorted((root / "commitlog").iterdir())
    return b"".join(each.read_bytes() for each in files)[:end]


def one_life(first: Path, copy: Path, flush: str, acknowledged, enough: int, turn: int) -> None:
    """Serve a store with a follower, kill the server, promote the follower's store."""
    broker, replicas = free_address(), free_address()
    count = Count(enough)
    with served(first, broker, replicas, flush) as process:
        with (
            open_replica(copy, broker, FOLLOW, plugins=PLUGINS) as store,
            following(store, broker, FOLLOW) as follower,
        ):
            producers = [
                Producer(broker, f"{turn}-{number}", acknowledged, count)
                for number in range(_PRODUCERS)
            ]
            for each in producers:
                each.start()
            try:
                assert count.is_enough.wait(WAIT), follower.status()
            finally:
                process.kill()
                for each in producers:
                    each.join()
            follower.stop()
            store.promote()


@pytest.mark.proof
@pytest.mark.parametrize("flush", ["async", "sync"])
@pytest.mark.costly
def test_what_was_acknowledged_is_in_the_promoted_store(tmp_path, flush):
    chosen = random.Random(f"promoted {flush}")
    acknowledged: dict[bytes, int] = {}
    first = tmp_path / "0"
    for turn in range(1, kill_count(2) // 2 + 1):
        copy = tmp_path / str(turn)
        one_life(first, copy, flush, acknowledged, chosen.randrange(1, 400), turn)

        with reput.open(copy, mode="r", plugins=PLUGINS) as store:
            stored = [
                (bytes(each.body), each.physical_offset)
                for batch in store.scan(check_crc=True)
                for each in map(batch.message, range(len(batch)))
            ]
            end = store.log.max_physical_offset
        found = dict(stored)
        assert len(found) == len(stored)  # none twice
        missing = acknowledged.keys() - found.keys()
        assert not missing, f"kill {turn}: {len(missing)} of {len(acknowledged)} are lost"
        moved = {body for body, offset in acknowledged.items() if found[body] != offset}
        assert not moved
        assert log_bytes(copy, end) == log_bytes(first, end)  # it was never ahead of its master
        shutil.rmtree(first)
        first = copy
    assert len(acknowledged) > turn
